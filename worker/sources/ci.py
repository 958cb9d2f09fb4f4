"""The facts of the current CI job: from GitHub's variables, which other systems also set, or from GitLab's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from schemas import codec
from worker.host.regular_files import read

MAX_EVENT = 32 * 1024 * 1024
TRIAL_MERGE = re.compile(r"refs/pull/\d+/merge")
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Job:
    """A CI job: its repository, its commit, and the head of its pull request if the commit is a trial merge.

    A trial merge is on no branch and is soon deleted, so work begins at the head.
    """

    repo: str | None = None
    commit: str | None = None
    head: str | None = None


def job_of(environment: Mapping[str, str]) -> Job | None:
    """Return the job with these variables; None outside of CI."""
    said = {name: value for name, value in environment.items() if value}
    if "GITHUB_REPOSITORY" in said or "GITHUB_SHA" in said:
        merged = TRIAL_MERGE.fullmatch(said.get("GITHUB_REF", ""))
        head = _head_of(Path(said["GITHUB_EVENT_PATH"])) if merged and "GITHUB_EVENT_PATH" in said else None
        return Job(said.get("GITHUB_REPOSITORY"), said.get("GITHUB_SHA"), head)
    if "CI_PROJECT_PATH" in said or "CI_COMMIT_SHA" in said:  # only pipelines of merged results have the head
        head = said.get("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA")
        return Job(said.get("CI_PROJECT_PATH"), said.get("CI_COMMIT_SHA"), head)
    return None


def _head_of(event: Path) -> str | None:
    """Return the head commit of the pull request that started the job; None without one. `event` is GitHub's file."""
    with suppress(OSError, codec.DecodeError, KeyError, TypeError):
        sha = codec.loads(read(event, MAX_EVENT))["pull_request"]["head"]["sha"]
        return sha if COMMIT.fullmatch(sha) else None
    return None
