"""Finds the earlier steps whose patches landed: these patches may have caused the findings of a failed step."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from schemas.base import Mode, RiskLevel
from schemas.base import StepState as S
from schemas.step import PlannedStep
from tasks.base.errors import NeedsSteps
from tasks.plan.unit_of_work import UnitOfWork
from tasks.rules.permission import limits_of_files
from tasks.toolchain.files import Role, files_of

MAX_READ = 64  # earlier steps that are read
_CHANGED_BY = "changed-by "  # with a step after it, the name of the note of its changed files


class Source(NamedTuple):
    """A step that patched; `near` if no other such step is between it and the failed step."""

    facts: Mapping[str, Any]
    near: bool
    changed: Sequence[str] | None = None  # where it might have changed more than it names

    @property
    def risk(self) -> RiskLevel:
        """The risk of the step."""
        return RiskLevel(self.facts["risk_level"])

    def files(self, tightened: Collection[str] | None) -> list[str]:
        """Return the files that the step may change, without files that an operator removed from the plan.

        If the step may change more than it names, return the files that it changed instead.
        """
        files = self.facts["allowed_files"] if self.changed is None else self.changed
        return [path for path in files if tightened is None or path in tightened]


def sources_of(unit: UnitOfWork, step: PlannedStep) -> Iterator[Source]:
    """Yield the steps before `step` whose patch landed, nearest first.

    Raises NeedsSteps with all steps of one distance that the snapshot lacks.
    """
    seen = {step.step_id}
    frontier = dict.fromkeys(step.depends_on, True)
    while names := [name for name in frontier if name not in seen][: MAX_READ + 1 - len(seen)]:
        seen.update(names)
        steps = unit.snapshot.steps
        if missing := frozenset(name for name in names if name not in steps or steps[name].spec is None):
            raise NeedsSteps(missing)
        behind: dict[str, bool] = {}
        for name in names:
            facts, near = steps[name].facts, frontier[name]
            if facts["inserted_by"] and not facts["piece_of"]:  # its files are those of a step that is found separately
                continue
            landed = steps[name].status.state == S.DONE and facts["mode"] == Mode.PATCH
            if landed:
                source = Source(facts, near, changed_by(unit, facts))
                yield source
            shows = near and (not landed or _is_beside_code(source.files(None)))
            for each in facts["depends_on"]:
                behind[each] = behind.get(each, False) or shows
        frontier = behind


def keep_changed(unit: UnitOfWork, step_id: str, files: Sequence[str]) -> None:
    """Store the files that a step changed, if it may change more than it names, or more than its risk allows."""
    unit.keep_note(_CHANGED_BY + step_id, files)


def changed_by(unit: UnitOfWork, facts: Mapping[str, Any]) -> Sequence[str] | None:
    """Return the stored changed files of a step that may change more than it names, or than its risk allows.

    Returns None for other steps, and for a step that names all its files if none are stored. Raises NeedsSteps if the
    snapshot lacks the note.
    """
    if not limits_of_files(facts):
        return None
    stored: Sequence[str] | None = unit.note(_CHANGED_BY + facts["step_id"])
    return () if stored is None and facts.get("allowed_patterns") else stored


def _is_beside_code(files: Sequence[str]) -> bool:
    """Return whether only tests and documents were patched; then earlier steps may well have caused the failure."""
    return not files_of(files, Role.SOURCE, Role.MANIFEST)
