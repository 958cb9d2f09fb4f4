"""What is remarkable about a plan beside its state, in words: why it is paused, and what to look at once it is done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from schemas.plan import BreakerView, NeedView, OverlapView, PlanView
from schemas.result import IntegrityView

MOST_FILES = 10  # that other plans claimed
MOST_NAMED = 10


class Remarks(BaseModel):
    """The fields of a plan, or of its explanation, that are such; texts may come from outside."""

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
        """Take them from a plan, or from what `planner explain --json` prints."""
        return cls.model_validate(plan, from_attributes=True)

    @property
    def pauses(self) -> list[str]:
        """Why the plan is paused, and when a breaker lets the next step through, or whose it has let through."""
        told = [self.paused_by] if self.paused_by else []
        return [*told, probe_of(self.breaker)] if self.breaker else told

    @property
    def overlapped(self) -> list[str]:
        """With which plans the plan overlapped, a line for each file."""
        shown = [
            f"overlap: {each.file} was claimed by {listed(each.plans)}{', which wait for this plan' * each.circle}"
            for each in self.overlaps[:MOST_FILES]
        ]
        left = len(self.overlaps) - len(shown)
        return [*shown, *([f"overlap: and {left} more files"] if left else [])]

    @property
    def needed(self) -> list[str]:
        """Which files steps need that the goal does not allow, and what would allow them."""
        told = []
        for each in self.needs:
            told.append(f"{each.step_id} needs {listed(each.files)}: {each.reason or 'no reason given'}")
            if each.submit:
                told.append(f"to allow it: {each.submit}")
        return told

    @property
    def warnings(self) -> list[str]:
        """What nothing verifies, what is left outside of the goal or needed, and which files others claimed."""
        return [*self.altered, *filter(None, (self.unverified, self.outside)), *self.needed, *self.overlapped]

    @property
    def altered(self) -> list[str]:
        """What changes did to tests and checks, a line for each place."""
        return [
            f"integrity: {each.step_id} ({each.action}): {each.kind} at {each.path}:{each.line}: {each.what}"
            for each in self.integrity
        ]


def probe_of(breaker: BreakerView) -> str:
    """Return when a breaker lets the next step through, or whose step it has let through."""
    if breaker.next_probe_at is None:
        return f"the breaker lets a step of {breaker.probe} through now"
    return f"the breaker lets the next step through at {breaker.next_probe_at}"


def listed(words: Iterable[str], most: int = MOST_NAMED) -> str:
    """Name the first of these, and say how many more there are."""
    names = list(words)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
