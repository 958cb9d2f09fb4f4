"""Counters of a plan: for its halt rules, its verifications, its growth, and its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from schemas.stored.part import Part

Remembered: TypeAlias = list[Any]  # step, attempt, category and when (ms) of something that may lead to a halt


@dataclass(slots=True)
class Counters(Part):
    """Counters of the halt rules, and events that explain a halt (tasks/policy/halt_rules.py)."""

    BY_STEP = ("timeouts",)

    consecutive: int = 0  # outcomes in a row that failed
    lease_deaths: int = 0
    timeouts: dict[str, int] = field(default_factory=dict)  # step of mode `test` -> how often it ran out of time
    failed: list[Remembered] = field(default_factory=list)  # the last ones
    revised: list[str] = field(default_factory=list)  # the steps that were revised last
    asked: bool = False  # a person has answered since the last success, and failures went before that

    def stored(self) -> Any:
        """Return the stored form as `Part.stored` does, but faster, because every outcome stores it."""
        if (
            self.consecutive
            or self.lease_deaths
            or self.timeouts
            or self.failed
            or self.revised
            or self.asked
            or self.unknown
        ):
            return super(Counters, self).stored()
        return {}


@dataclass(slots=True)
class Streaks(Part):
    """Results of verifications on the plan's tree (tasks/policy/halt_rules.py)."""

    BY_STEP = ("narrowed",)

    landed: int = 0  # when a change landed last, ms, after which the tree is another one
    flips: dict[str, int] = field(default_factory=dict)  # verification -> 2 * flips + whether it passed last
    narrowed: dict[str, str] = field(default_factory=dict)  # step -> the verification that it had at first

    def land(self, now: int) -> None:
        """Forget the results of earlier verifications, because a change landed and the tree is another one."""
        self.landed, self.flips = now, {}

    def tree_of(self, began: int) -> int:
        """Return when the tree of an attempt that began at `began` (ms) landed; -1 if a change landed since."""
        return self.landed if began >= self.landed else -1

    def stored(self) -> Any:
        """Return the stored form as `Part.stored` does, but faster, because every outcome stores it."""
        if not self.landed or self.narrowed or self.unknown:
            return super(Streaks, self).stored()
        return {"landed": self.landed, "flips": self.flips} if self.flips else {"landed": self.landed}


@dataclass(slots=True)
class Growth(Part):
    """The growth of the project by accepted attempts (tasks/policy/halt_rules.py, red_checks.py)."""

    created: int = 0  # files
    growth_kb: int = 0
    untold: bool = False  # a patch landed that did not report created files


@dataclass(slots=True)
class Structure(Part):
    """How steps without success count, and which names are in use (tasks/policy/schedule.py, pre_steps.py)."""

    replaced: int = 0  # steps that failed, and others were put in their place
    skipped: int = 0  # by an operator
    taken: list[str] = field(default_factory=list)  # names of steps that look as if they had been inserted


@dataclass(slots=True)
class LogHead(Part):
    """The newest line of a plan's log (tasks/base/log_chain.py); `lines` is 0 before the first."""

    head: str = ""  # its digest
    lines: int = 0  # of the log
    by: str = ""  # the version of the code that wrote it
    more: tuple[Any, ...] = field(default=(), init=False)  # additions of a newer version

    @classmethod
    def read(cls, stored: Sequence[Any]) -> Self:
        """Read the output of `stored`."""
        head, lines, by, *more = stored
        found = cls(head, lines, by)
        found.more = tuple(more)
        return found

    def stored(self) -> Sequence[Any]:
        """Return the fields as an array; empty if the log has no line."""
        return [self.head, self.lines, self.by, *self.more] if self.lines else ()

    def follow(self, digest: str, by: str) -> None:
        """Record that a line with this digest was added to the log."""
        self.head, self.lines, self.by = digest, self.lines + 1, by
