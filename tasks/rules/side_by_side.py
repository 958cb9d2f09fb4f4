"""Selects steps that may run at the same time: those that cannot change the same file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any

from tasks.text.paths import is_glob
from tasks.text.patterns import are_apart, literal_folder


def held_by(facts: Mapping[str, Any]) -> list[str]:
    """Return the files and patterns that other steps may not change while an attempt at this step runs."""
    files: list[str] = facts["allowed_files"]
    patterns = facts.get("allowed_patterns")
    return [*files, *patterns] if patterns else files


def are_free(wanted: Collection[str], busy: Set[str]) -> bool:
    """Return whether the `busy` paths of other attempts block none of the `wanted` ones.

    A pattern blocks the whole folder before its first wildcard.
    """
    if not busy:
        return True
    if not busy.isdisjoint(wanted):
        return False
    if not (has_patterns(wanted) or has_patterns(busy)):
        return True
    ours, theirs = ([(_place(path), is_glob(path)) for path in paths] for paths in (wanted, busy))
    return all(
        are_apart(mine, other) for mine, is_wide in ours for other, is_also_wide in theirs if is_wide or is_also_wide
    )


def has_patterns(held: Iterable[str]) -> bool:
    """Return whether any of the blocked paths is a pattern."""
    return any(map(is_glob, held))


def _place(path: str) -> str:
    return literal_folder(path) if is_glob(path) else path
