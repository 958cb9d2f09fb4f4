"""When a controller pauses: what it hands back in a row is counted here.

A repository in which nothing can be done keeps no other from its work: for a while its steps are handed back at once.
Where it is the only one, or several are in trouble, or it is the provider of the agent's model, everything waits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from worker.controller.readiness import CannotWork, NotVerifiable, ProviderTrouble, StepTrouble

IN_A_ROW = 5  # then there is a pause: at first, and at most, for so many seconds
FIRST_S, LONGEST_S = 10.0, 300.0
UNVERIFIED_S = 30.0  # at least, after a verification that could not run
MOST_PAUSES = 10  # that are counted: it is the longest one by then


@dataclass(frozen=True, slots=True)
class Pause:
    """So many seconds in which nothing is begun, or nothing of one `repository`."""

    seconds: float
    repository: str | None = None


@dataclass(slots=True)
class _Row:
    """What was handed back since a step could be done."""

    repositories: set[str] = field(default_factory=set)
    length: int = 0
    pauses: int = 0
    until: float = 0.0  # of a repository's pause, with why its steps are handed back
    reason: str = ""

    def add(self, repository: str) -> None:
        self.repositories.add(repository)
        self.length += 1

    def pause(self) -> float:
        """Return for how long: twice as long each time."""
        self.pauses = min(self.pauses + 1, MOST_PAUSES)
        return float(min(FIRST_S * 2 ** (self.pauses - 1), LONGEST_S))


class Pauses:
    """The pauses of a controller that serves `served` repositories; `clock` says the time in seconds."""

    def __init__(self, served: int, clock: Callable[[], float]) -> None:
        self._served, self._clock = served, clock
        self._all = _Row()
        self._each: dict[str, _Row] = {}

    def reason(self, repository: str) -> StepTrouble | None:
        """Return why steps of `repository` are handed back for now, if they are."""
        row = self._each.get(repository)
        return StepTrouble(row.reason) if row and self._clock() < row.until else None

    def count(self, repository: str, released: CannotWork | None) -> Pause | None:
        """Take note of how a step of `repository` ended; returns the pause that follows."""
        if not released:  # it could be done
            self._all = _Row()
            self._each.pop(repository, None)
            return None
        if isinstance(released, StepTrouble):
            return None
        self._all.add(repository)
        if isinstance(released, NotVerifiable):  # others have time to take the step: said here again it halts the plan
            return Pause(max(self._all.pause(), UNVERIFIED_S))
        if isinstance(released, ProviderTrouble):
            return Pause(self._all.pause())
        if self._served == 1 or len(self._all.repositories) > 1:
            return Pause(self._all.pause()) if self._all.length >= IN_A_ROW else None
        row = self._each.setdefault(repository, _Row())
        row.add(repository)
        if row.length < IN_A_ROW:
            return None
        seconds, now = row.pause(), self._clock()
        row.until, row.reason = now + seconds, str(released)
        if sum(now < each.until for each in self._each.values()) >= self._served:
            return Pause(seconds)
        self._all = _Row()  # of the others nothing was handed back
        return Pause(seconds, repository)
