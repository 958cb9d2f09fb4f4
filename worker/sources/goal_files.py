"""Selects the files, manifests and documents of a commit that fit into a goal; those that the goal names come first."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from schemas import codec
from tasks.strategies.drafting.focus import file_of_test
from tasks.strategies.gap_report.places import MODULE_DOCUMENTS
from tasks.text.paths import clean, is_glob
from tasks.toolchain.files import name_of
from tasks.toolchain.instructions import choose_of_goal, digests_of
from tasks.toolchain.languages import LANGUAGES, MANIFESTS

MAX_MANIFEST = 32_000  # characters of one
MAX_MANIFESTS, MAX_FILES = 96_000, 64_000  # bytes of all, as JSON; a goal may have 256 kB
MAX_DOCUMENTS = 32_000  # bytes of the documents of modules, as JSON
MAX_FILES_UNASKED = 16_000  # where no glob needs them: a plan is kept with them for weeks
RESERVED = 4096  # bytes of a goal for all other filled-in fields
LOCK = re.compile(r".*(?:\.lock|[-.]lock\.\w+|\.sum)")  # what tools write: long, and no tool is configured there
READ = frozenset(  # the manifests that plans are made by
    name
    for name in (
        *MANIFESTS,
        *(
            name
            for language in LANGUAGES.values()
            for choice in language.quick_checks
            for check in choice
            for name in (*check.files, *check.within)
        ),
    )
    if not LOCK.fullmatch(name)
)
MOST_INSTRUCTIONS = 32  # digests in a goal
TESTS = "failing_tests"
WORD = re.compile(r"[\w./@+-]+")


def listed(
    body: Mapping[str, Any],
    context: Mapping[str, Any],
    files: Mapping[str, Any],
    patterns: Sequence[str],
    meant: Iterable[str],
    room: int,
) -> list[str]:
    """Return the files of a commit within `room` bytes: those that a goal names first, then matches of its patterns."""
    literal = (each for each in patterns if not is_glob(each))
    first = [path for path in (*literal, *mentioned_files(body, context, files), *meant) if path in files]
    most = min(MAX_FILES if any(map(is_glob, patterns)) else MAX_FILES_UNASKED, room)
    kept = _within_listing((*first, *files), most)
    if len(kept) == len(files):
        return kept
    locks = (path for path in files if "/" not in path and path in MANIFESTS)  # they identify the package manager
    return _within_listing((*first, *locks, *files), most)


def _within_listing(paths: Iterable[str], most: int) -> list[str]:
    return [path for path, _ in _within(((path, "") for path in dict.fromkeys(paths)), most)]


def mentioned_files(body: Mapping[str, Any], context: Mapping[str, Any], files: Container[str]) -> Iterator[str]:
    """Yield the files that the goal's sentence, failing tests and log mention; a truncated listing must contain them.

    In a log, a path may begin with folders of the machine where the log was written.
    """
    for text in texts_of_goal(body, context):
        for word in dict.fromkeys(WORD.findall(text)):
            parts = word.rstrip(".").split("/")
            below = ("/".join(parts[begin:]) for begin in range(len(parts)))
            if found := next((path for path in below if path in files), None):
                yield found


def texts_of_goal(body: Mapping[str, Any], context: Mapping[str, Any]) -> Iterator[str]:
    """Yield the goal's sentence, failing tests and log."""
    tests = context.get(TESTS)
    given = (body.get("goal"), *(tests if isinstance(tests, list | tuple) else ()), context.get("failure_log"))
    yield from map(str, filter(None, given))


def manifests_above(files: Iterable[str], meant: Iterable[str], context: Mapping[str, Any]) -> list[str]:
    """Return the manifests in and above the folders of allowed files and failing tests, the nearest first.

    Manifests at the root come before all others, which may be parts of its workspace. A glob counts as the folders
    above it.
    """
    tests, folder = context.get(TESTS), context.get("workdir") or "."
    files_of_tests = (file_of_test(str(test)) for test in (tests if isinstance(tests, list | tuple) else ()))
    named = (*meant, *files_of_tests, f"{folder}/")
    folders = {above for path in named for above in folders_above(path)}
    found = (path for path in files if name_of(path) in READ and path.rpartition("/")[0] in folders)
    return sorted(found, key=lambda path: ("/" in path, -path.count("/"), path))


def module_documents(files: Container[str], named: Iterable[str]) -> list[str]:
    """Return the documents CONTRACT.md and SPEC.md from the nearest folder above each `named` path that has any."""
    found: dict[str, None] = {}
    for path in named:
        for folder in folders_above(path):
            if own := [place for name in MODULE_DOCUMENTS if (place := f"{folder}/{name}".lstrip("/")) in files]:
                found.update(dict.fromkeys(own))
                break
    return list(found)


def fixed_instructions(
    patterns: Iterable[str],
    meant: Iterable[str],
    files: Collection[str],
    read: Callable[[Sequence[str]], Mapping[str, str]],
) -> dict[str, str] | None:
    """Return the digests of the instructions for agents; None if there are too many, or one cannot be read.

    The goal allows `patterns`, which match the files `meant`. `files` are all files of the commit, and `read` returns
    the texts of some.
    """
    globs = [each for each in patterns if is_glob(each)]
    literal = (clean(each) for each in patterns if not is_glob(each))
    chosen = choose_of_goal((*literal, *meant), globs, files)
    texts = read(chosen) if 0 < len(chosen) <= MOST_INSTRUCTIONS else {}
    return digests_of(texts) if len(texts) == len(chosen) else None


def fit_manifests(texts: Mapping[str, str], room: int) -> dict[str, str]:
    """Return the manifests that fit into `room` bytes and into a goal's limit for manifests, by path."""
    cut = ((path, text[:MAX_MANIFEST]) for path, text in texts.items() if text.strip())
    return dict(_within(cut, min(MAX_MANIFESTS, room)))


def fit_documents(texts: Mapping[str, str], room: int) -> dict[str, str]:
    """Return the module documents that fit into `room` bytes and into a goal's limit for documents, by path."""
    return dict(_within(texts.items(), min(MAX_DOCUMENTS, room)))


def folders_above(path: str) -> Iterator[str]:
    """Yield the folders above a path, the nearest first; the root is empty."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def _within(items: Iterable[tuple[str, str]], room: int) -> Iterator[tuple[str, str]]:
    """Yield the items that fit into `room` bytes of JSON, in their order; an item that is too large is skipped."""
    for name, text in items:
        size = len(codec.dumps([name, text]))
        if size <= room:
            room -= size
            yield name, text
