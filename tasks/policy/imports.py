"""Imports between the files of a goal, as its documents show them; they decide how a change of several files is split.

They are read once, when the plan is created, because a plan does not store whole documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from schemas.goal import Goal
from tasks.plan.unit_of_work import UnitOfWork
from tasks.rules.strategy import Draft
from tasks.strategies.drafting.focus import Focus

NOTE = "imports"
MOST = 1000  # files with imports

Imports = Mapping[str, Sequence[str]]  # file -> the files that it imports


def keep_imports(unit: UnitOfWork, goal: Goal, draft: Draft) -> None:
    """Store the imports in a plan if a step may change more files than it names."""
    if goal.context.documents and any(step.allowed_patterns or step.checks_after for step in draft.steps):
        found = Focus((*goal.context.files, *goal.allowed_files)).imports(goal.context.documents)
        if found:
            unit.keep_note(NOTE, dict(islice(found.items(), MOST)))


def imports_of(unit: UnitOfWork) -> Imports:
    """Return the stored imports. Raises NeedsSteps if the snapshot lacks the note."""
    return unit.note(NOTE) or {}


def imports_any(imports: Imports, files: Iterable[str], others: Iterable[str]) -> bool:
    """Return whether one of `files` imports one of `others`."""
    wanted = frozenset(others)
    return any(not wanted.isdisjoint(imports.get(path, ())) for path in files)


def connected(files: Sequence[str], imports: Imports) -> list[tuple[str, ...]]:
    """Group the files that import each other, imported files first; a file without such imports is in no group."""
    known = frozenset(files)
    beside: dict[str, set[str]] = {path: set() for path in files}
    for path in files:
        for other in known.intersection(imports.get(path, ())) - {path}:
            beside[path].add(other)
            beside[other].add(path)
    groups: list[tuple[str, ...]] = []
    seen: set[str] = set()
    for path in files:
        if path in seen or not beside[path]:
            continue
        group, waiting = {path}, [path]
        while waiting:
            new = beside[waiting.pop()] - group
            group |= new
            waiting += new
        seen |= group
        groups.append(_imported_first(sorted(group), imports))
    return groups


def _imported_first(files: Sequence[str], imports: Imports) -> tuple[str, ...]:
    """Return the files, each after the files that it imports; cycles are broken in the given order."""
    left, done = [*files], list[str]()
    while left:
        free = (path for path in left if not set(left).difference({path}).intersection(imports.get(path, ())))
        path = next(free, left[0])
        left.remove(path)
        done.append(path)
    return tuple(done)
