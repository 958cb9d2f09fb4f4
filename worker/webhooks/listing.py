"""Selects the files of a commit that a goal lists; files that the goal names or that its patterns match come first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas import codec
from schemas.goal import MAX_GOAL_BYTES
from tasks.text.patterns import meant_by_globs
from worker.host.regular_files import read_setting
from worker.sources.checkout import as_path
from worker.sources.goal_files import RESERVED, fit_manifests, fixed_instructions, listed, manifests_above
from worker.webhooks.sources_file import WrongSources

MAX_BYTES = 16 * 1024 * 1024
MOST_MANIFESTS = 20  # requested from a forge


def read(path: Path) -> list[str]:
    """Return the paths in a file with one path a line, as `git ls-files` prints them. Raises WrongSources."""
    try:
        raw = read_setting(path, MAX_BYTES)
    except OSError as error:
        raise WrongSources(f"{path} cannot be read: {error.strerror}.") from error
    return [name for line in raw.splitlines() if (name := as_path(line))]


def with_files(goal: Mapping[str, Any], files: Sequence[str], *, are_all: bool = False) -> dict[str, Any]:
    """Return a goal with as many of `files` in its context as it can contain.

    The listing is marked as complete if it has all `files`, and if these `are_all` files of the commit.
    """
    context, allowed = dict(goal.get("context") or {}), goal.get("allowed_files", ())
    room = MAX_GOAL_BYTES - len(codec.dumps(goal)) - RESERVED
    context["files"] = listed(goal, context, dict.fromkeys(files), allowed, meant_by_globs(allowed, files), room)
    if are_all and len(context["files"]) == len(set(files)):
        context["files_complete"] = True
    return {**goal, "context": context}


def wanted_manifests(goal: Mapping[str, Any]) -> list[str]:
    """Return the manifests in a goal's listing that identify its projects; empty if the goal already has manifests."""
    context, allowed = goal.get("context") or {}, goal.get("allowed_files", ())
    if context.get("manifests"):
        return []
    files = context.get("files", ())
    return manifests_above(files, (*meant_by_globs(allowed, files), *allowed), context)[:MOST_MANIFESTS]


def with_manifests(goal: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return a goal with the texts of manifests in its context, as many as it can contain."""
    manifests = fit_manifests(texts, MAX_GOAL_BYTES - len(codec.dumps(goal)) - RESERVED)
    return {**goal, "context": {**goal["context"], "manifests": manifests}} if manifests else dict(goal)


def with_instructions(
    goal: Mapping[str, Any], files: Sequence[str], read: Callable[[Sequence[str]], Mapping[str, str]]
) -> dict[str, Any]:
    """Return a goal with the digests of the repository's instructions for agents, unless it already has some."""
    context, allowed = goal["context"], goal.get("allowed_files", ())
    if "instructions" in context or goal.get("from"):
        return dict(goal)
    found = fixed_instructions(allowed, meant_by_globs(allowed, files), files, read)
    return {**goal, "context": {**context, "instructions": found}} if found else dict(goal)
