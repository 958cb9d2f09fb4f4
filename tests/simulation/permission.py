"""Which files a step may change: those that it names, and those that its patterns mean."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from tests.real.agent import matches
from tests.simulation.repository import Repository, Tree

_matches = lru_cache(maxsize=100_000)(matches)


def permitted(spec: dict[str, Any], repository: Repository, tree: Tree) -> tuple[str, ...]:
    """List the files that a step may change, the named ones first; new ones are those that the work makes."""
    named, patterns = spec["allowed_files"], spec.get("allowed_patterns") or ()
    if not patterns:
        return tuple(named)
    known = dict.fromkeys((*repository.files, *sorted(repository.existing(tree)), *(i.file for i in repository.items)))
    meant = (path for path in known if _is_meant(path, patterns))
    excluded = spec.get("excluded_patterns") or ()
    return tuple(dict.fromkeys([*named, *(path for path in meant if not _is_meant(path, excluded))]))


def is_wide(spec: dict[str, Any]) -> bool:
    """Whether a step may change more than it names, so that its agent may ask for other files."""
    return (spec.get("limits") or {}).get("max_files") is not None


def _is_meant(path: str, patterns: Iterable[str]) -> bool:
    return any(_matches(pattern, path) for pattern in patterns)
