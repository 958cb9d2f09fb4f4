"""Remarks on a plan in addition to its state, in words: reasons of a pause, and points to check after its end."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from schemas.plan import BreakerView, NeedView, OverlapView, PlanView
from schemas.result import IntegrityView

MOST_FILES = 10  # that other plans claimed
MOST_NAMED = 10


class Remarks(BaseModel):
    """The fields of a plan, or of its explanation, that contain remarks; texts may come from outside."""

    paused_by: str | None = None
    breaker: BreakerView | None = None
    doubt: str | None = None
    needs: tuple[NeedView, ...] = ()
    integrity: tuple[IntegrityView, ...] = ()
    unverified: str | None = None
    outside: str | None = None
    overlaps: tuple[OverlapView, ...] = ()

    @classmethod
    def of(cls, plan: PlanView | dict[str, Any]) -> Remarks:
        """Return the remarks of a plan, or of the output of `planner explain --json`."""
        return cls.model_validate(plan, from_attributes=True)

    @property
    def pauses(self) -> list[str]:
        """The reasons of a pause and, of a breaker, the time of its next probe or the plan with the current one."""
        told = [self.paused_by] if self.paused_by else []
        return [*told, probe_of(self.breaker)] if self.breaker else told

    @property
    def overlapped(self) -> list[str]:
        """A line for each file of this plan that other plans had claimed before, with these plans."""
        shown = [
            f"overlap: {each.file} was claimed by {listed(each.plans)}{', which wait for this plan' * each.circle}"
            for each in self.overlaps[:MOST_FILES]
        ]
        left = len(self.overlaps) - len(shown)
        return [*shown, *([f"overlap: and {left} more files"] if left else [])]

    @property
    def needed(self) -> list[str]:
        """The files that steps need and the goal does not allow, and the command to allow them."""
        told = []
        for each in self.needs:
            told.append(f"{each.step_id} needs {listed(each.files)}: {each.reason or 'no reason given'}")
            if each.submit:
                told.append(f"to allow it: {each.submit}")
        return told

    @property
    def warnings(self) -> list[str]:
        """The altered tests, parts without verification, files outside of the goal, needed files, and overlaps."""
        return [*self.altered, *filter(None, (self.unverified, self.outside)), *self.needed, *self.overlapped]

    @property
    def altered(self) -> list[str]:
        """The effects of changes on tests and checks, a line for each place."""
        return [
            f"integrity: {each.step_id} ({each.action}): {each.kind} at {each.path}:{each.line}: {each.what}"
            for each in self.integrity
        ]


def probe_of(breaker: BreakerView) -> str:
    """Return when a breaker starts its next probe, or which plan has the current one."""
    if breaker.next_probe_at is None:
        return f"the breaker lets a step of {breaker.probe} through now"
    return f"the breaker lets the next step through at {breaker.next_probe_at}"


def listed(words: Iterable[str], most: int = MOST_NAMED) -> str:
    """Return the first `most` of these words, and the number of the others."""
    names = list(words)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
