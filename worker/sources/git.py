"""What git knows of a folder: its commit, the files of a project, and the documents about its modules.

A gap report is planned by them: what is there is changed, what is not is made, and globs find their files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

from tasks.strategies.gap_report.places import MODULE_DOCUMENTS
from tasks.text.paths import expand_globs, is_glob
from tasks.toolchain.files import name_of
from worker.host.git import Git, GitError
from worker.host.regular_files import read_below

MAX_LISTING = 64_000  # characters of all paths; a goal may have 256 kB
MAX_DOCUMENTS = 32_000
MAX_PATH = 500
BROKEN = "\ufffd"  # what is no UTF-8 becomes


def with_checkout(body: Mapping[str, Any], allowed: Sequence[Any], folder: Path) -> dict[str, Any]:
    """Put the files and documents of `folder` into a goal; what `body` says already stands.

    Where there are too many, those that may change come first. Without git, nothing is added.
    """
    files = _files(folder)
    if not files:
        return dict(body)
    context, given = dict(body.get("context") or {}), dict(body.get("gap_report") or {})
    patterns = [each for each in allowed if isinstance(each, str)] if isinstance(allowed, list) else []
    context.setdefault("files", list(_first(files, expand_globs(patterns, files).files)))
    given.setdefault("project", {"documents": dict(read_documents(folder, files))})
    return {**body, "context": context, "gap_report": given}


def with_commit(body: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Begin a goal at the commit that is checked out at `folder`, so that its plan knows what was red before.

    Where globs say which files may change, its files go along. What `body` says already stands. Of a folder that does
    not have the files which may change nothing is said: the goal is about another repository.
    """
    context, allowed = dict(body.get("context") or {}), body.get("allowed_files")
    patterns = [each for each in allowed if isinstance(each, str)] if isinstance(allowed, list) else []
    if patterns and "base_sha" not in context:
        with suppress(GitError, OSError, SubprocessError):
            git = Git(folder)
            commit = git.line("rev-parse", "--verify", "HEAD^{commit}")
            files = _names(git("ls-tree", "-r", "-z", "--name-only", "--full-tree", commit))
            if _is_of(files, patterns) and _is_named(git, context.get("repo")):
                context["base_sha"] = commit
                if any(map(is_glob, patterns)):
                    context.setdefault("files", list(_first(files, expand_globs(patterns, files).files)))
    return {**body, "context": context} if context else dict(body)


def _is_named(git: Git, repo: Any) -> bool:
    """Tell whether the folder may be the repository `repo`: a remote is called so, or there is nothing to compare."""
    remotes = git.line("config", "--get-regexp", r"^remote\..*\.url$", ok=(0, 1)).splitlines()
    names = [line.rstrip("/").removesuffix(".git") for line in remotes]
    return not (repo and names) or any(name.endswith(str(repo).removesuffix(".git")) for name in names)


def _is_of(files: Sequence[str], patterns: Sequence[str]) -> bool:
    """Tell whether a project of these files is what `patterns` are about: new files lie in folders that it has."""
    there, folders = set(files), {path.rpartition("/")[0] for path in files}
    found = [expand_globs([pattern], files).files for pattern in patterns]
    known = [any(path in there for path in paths) for paths in found]
    fitting = (any(path.rpartition("/")[0] in folders for path in paths) for paths in found)
    return any(known) and all(fitting)


def _files(folder: Path) -> tuple[str, ...]:
    try:
        listed = Git(folder)("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    except (GitError, OSError, SubprocessError):
        return ()
    return _names(listed)


def _names(listed: bytes) -> tuple[str, ...]:
    """Take those paths of a listing that a goal can name."""
    names = {raw.decode(errors="replace") for raw in listed.split(b"\0") if raw}
    return tuple(sorted(name for name in names if len(name) <= MAX_PATH and name.isprintable() and BROKEN not in name))


def _first(files: Sequence[str], wanted: Sequence[str]) -> Iterator[str]:
    """Yield as many files as there is room for, the `wanted` ones first."""
    there = set(files)
    room = MAX_LISTING
    for path in dict.fromkeys((*(path for path in wanted if path in there), *files)):
        room -= len(path)
        if room < 0:
            return
        yield path


def read_documents(folder: Path, files: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield what the documents say, those that are regular files and lie below no link."""
    room = MAX_DOCUMENTS
    for path in files:
        if not room or name_of(path) not in MODULE_DOCUMENTS:
            continue
        with suppress(OSError):
            text = read_below(folder, path, MAX_DOCUMENTS * 4, cut=True).decode(errors="replace")[:room]
            if text:
                room -= len(text)
                yield path, text
