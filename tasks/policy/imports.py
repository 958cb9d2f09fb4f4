"""Which files of a goal import each other, as far as its documents show: how a change of several files is cut.

It is read once, when the plan is made, since a plan keeps no document as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from schemas.goal import Goal
from tasks.plan.unit_of_work import UnitOfWork
from tasks.rules.strategy import Draft
from tasks.strategies.drafting.focus import Focus

NOTE = "imports"
MOST = 1000  # files that import others

Imports = Mapping[str, Sequence[str]]  # file -> those that it imports


def keep_imports(unit: UnitOfWork, goal: Goal, draft: Draft) -> None:
    """Keep the imports of a plan one of whose steps may change more than it names."""
    if goal.context.documents and any(step.allowed_patterns or step.checks_after for step in draft.steps):
        found = Focus((*goal.context.files, *goal.allowed_files)).imports(goal.context.documents)
        if found:
            unit.keep_note(NOTE, dict(islice(found.items(), MOST)))


def imports_of(unit: UnitOfWork) -> Imports:
    """Return the imports that were kept. Raises NeedsSteps where the snapshot lacks the note."""
    return unit.note(NOTE) or {}


def imports_any(imports: Imports, files: Iterable[str], others: Iterable[str]) -> bool:
    """Return whether one of `files` imports one of `others`."""
    wanted = frozenset(others)
    return any(not wanted.isdisjoint(imports.get(path, ())) for path in files)


def connected(files: Sequence[str], imports: Imports) -> list[tuple[str, ...]]:
    """Group the files that import each other, in each group the imported ones first; a file alone makes none."""
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
    """Put each file behind those that it imports; where these go round in a circle, by name."""
    left, done = [*files], list[str]()
    while left:
        free = (path for path in left if not set(left).difference({path}).intersection(imports.get(path, ())))
        path = next(free, left[0])
        left.remove(path)
        done.append(path)
    return tuple(done)
