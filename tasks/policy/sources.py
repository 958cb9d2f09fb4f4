"""The steps before a red one whose patch landed: what it found may be due to these."""

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

MAX_READ = 64  # steps before the red one that are looked at
_CHANGED_BY = "changed-by "  # before a step: the name of the note of what it changed


class Source(NamedTuple):
    """A step that patched; `near` unless there is another one between it and the red step."""

    facts: Mapping[str, Any]
    near: bool
    changed: Sequence[str] | None = None  # where it might have changed more than it names

    @property
    def risk(self) -> RiskLevel:
        """How risky its files are."""
        return RiskLevel(self.facts["risk_level"])

    def files(self, tightened: Collection[str] | None) -> list[str]:
        """List its files, or what it changed of many, as far as an operator left them to the plan."""
        files = self.facts["allowed_files"] if self.changed is None else self.changed
        return [path for path in files if tightened is None or path in tightened]


def sources_of(unit: UnitOfWork, step: PlannedStep) -> Iterator[Source]:
    """Yield the steps before `step` whose patch landed, nearest first.

    Raises NeedsSteps with every step of a distance that the snapshot lacks.
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
            if facts["inserted_by"] and not facts["piece_of"]:  # its files are those of a step that is found itself
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
    """Keep what a step changed that may change more than it names, or more than one step may."""
    unit.keep_note(_CHANGED_BY + step_id, files)


def changed_by(unit: UnitOfWork, facts: Mapping[str, Any]) -> Sequence[str] | None:
    """Return what such a step changed, None for any other. Raises NeedsSteps where the snapshot lacks the note."""
    return (unit.note(_CHANGED_BY + facts["step_id"]) or ()) if limits_of_files(facts) else None


def _is_beside_code(files: Sequence[str]) -> bool:
    """Whether nothing but tests and documents was patched: what is red may well be due to what went before it."""
    return not files_of(files, Role.SOURCE, Role.MANIFEST)
