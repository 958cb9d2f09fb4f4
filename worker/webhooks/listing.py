"""Which files a commit has, as far as a goal has to list them: those that its globs may mean come first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from schemas import codec
from schemas.goal import MAX_GOAL_BYTES
from tasks.base.errors import PlannerError
from tasks.text.paths import is_glob
from tasks.text.patterns import MAX_GLOB_WORK, expand_globs
from worker.host.regular_files import read_setting
from worker.sources.checkout import as_path
from worker.sources.filling import MAX_FILES, MAX_FILES_UNASKED, RESERVED, mentioned, within
from worker.webhooks.sources_file import WrongSources

MAX_BYTES = 16 * 1024 * 1024


class TooManyFiles(PlannerError):
    """The globs of a rule mean more files than a goal can list."""


def read(path: Path) -> list[str]:
    """Read a listing, a path a line as `git ls-files` prints it; raises WrongSources."""
    try:
        raw = read_setting(path, MAX_BYTES)
    except OSError as error:
        raise WrongSources(f"{path} cannot be read: {error.strerror}.") from error
    return [name for line in raw.splitlines() if (name := as_path(line))]


def with_files(goal: Mapping[str, Any], files: Sequence[str], *, are_all: bool = False) -> dict[str, Any]:
    """List `files` in the context of a goal, as many as it can carry; raises TooManyFiles where that cuts its globs.

    The goal is told that its listing is whole if these `are_all` files of its commit and none is cut.
    """
    context, allowed = dict(goal.get("context") or {}), goal.get("allowed_files", ())
    globs = [each for each in allowed if is_glob(each)]
    meant = _meant(globs, files)
    named = {each for each in allowed if not is_glob(each)}
    listed = dict.fromkeys(
        [*meant, *(path for path in files if path in named), *_mentioned(goal, context, files), *files]
    )
    room = MAX_GOAL_BYTES - len(codec.dumps(goal)) - RESERVED
    needed = sum(len(codec.dumps([path, ""])) for path in meant)
    if needed > room:
        sentence = f"{', '.join(globs)} mean {len(meant)} files, more than a goal can list: narrow allowed_files."
        raise TooManyFiles(sentence)
    most = min(room, max(needed, MAX_FILES if globs else MAX_FILES_UNASKED))
    context["files"] = [path for path, _ in within(((path, "") for path in listed), most)]
    if are_all and len(context["files"]) == len(set(files)):
        context["files_complete"] = True
    return {**goal, "context": context}


def _meant(globs: Sequence[str], files: Sequence[str]) -> list[str]:
    """Return the files that globs mean, looked for in parts that are small enough for it."""
    size = max(1, MAX_GLOB_WORK // max(1, len(globs)))
    parts = (files[start : start + size] for start in range(0, len(files) if globs else 0, size))
    return [path for part in parts for path in expand_globs(globs, part).files]


def _mentioned(goal: Mapping[str, Any], context: Mapping[str, Any], files: Sequence[str]) -> list[str]:
    there = frozenset(files)
    return list(mentioned(goal, context, there))
