"""The facts of git about a project for a gap report: its files, and the documents about its modules.

The plan of a gap report depends on them: existing files are changed, missing ones created, and globs match them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

from tasks.strategies.gap_report.places import MODULE_DOCUMENTS
from tasks.text.patterns import expand_globs
from tasks.toolchain.files import name_of
from worker.host.git import Git, GitError
from worker.host.regular_files import read_below
from worker.sources.checkout import as_path

MAX_LISTING = 64_000  # characters of all paths; a goal may have 256 kB
MAX_DOCUMENTS = 32_000


def with_checkout(body: Mapping[str, Any], allowed: Sequence[Any], folder: Path) -> dict[str, Any]:
    """Return a goal with the files and module documents of `folder`; fields in `body` have priority.

    If there are too many files, those that may change come first. Without git, nothing is added.
    """
    files = _files(folder)
    if not files:
        return dict(body)
    context, given = dict(body.get("context") or {}), dict(body.get("gap_report") or {})
    patterns = [each for each in allowed if isinstance(each, str)] if isinstance(allowed, list) else []
    context.setdefault("files", list(_first(files, expand_globs(patterns, files).files)))
    given.setdefault("project", {"documents": dict(read_documents(folder, files))})
    return {**body, "context": context, "gap_report": given}


def _files(folder: Path) -> tuple[str, ...]:
    try:
        listed = Git(folder)("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    except (GitError, OSError, SubprocessError):
        return ()
    return tuple(sorted({path for raw in listed.split(b"\0") if (path := as_path(raw))}))


def _first(files: Sequence[str], wanted: Sequence[str]) -> Iterator[str]:
    """Yield files up to the limit, the `wanted` ones first."""
    there = set(files)
    room = MAX_LISTING
    for path in dict.fromkeys((*(path for path in wanted if path in there), *files)):
        room -= len(path)
        if room < 0:
            return
        yield path


def read_documents(folder: Path, files: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each module document; files behind a link are left out."""
    room = MAX_DOCUMENTS
    for path in files:
        if not room or name_of(path) not in MODULE_DOCUMENTS:
            continue
        with suppress(OSError):
            text = read_below(folder, path, MAX_DOCUMENTS * 4, cut=True).decode(errors="replace")[:room]
            if text:
                room -= len(text)
                yield path, text
