"""Decides when a controller pauses, by the number of steps that it returned one after the other.

If a repository is in trouble, its steps are returned at once for a while, and the other repositories go on. The whole
controller pauses if it has only this repository, if several are in trouble, or if the model's provider is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from worker.controller.readiness import CannotWork, NotVerifiable, ProviderTrouble, StepTrouble

IN_A_ROW = 5  # after so many there is a pause: first and longest one, in seconds
FIRST_S, LONGEST_S = 10.0, 300.0
UNVERIFIED_S = 30.0  # at least, after a verification that could not run
MOST_PAUSES = 10  # counted pauses: the length is at its limit by then


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of `seconds` without new steps: of the whole controller, or of one `repository`."""

    seconds: float
    repository: str | None = None


@dataclass(slots=True)
class _Row:
    """A series of returned steps; a step that could be done ends it."""

    repositories: set[str] = field(default_factory=set)
    length: int = 0
    pauses: int = 0
    until: float = 0.0  # of a repository's pause, with why its steps are handed back
    reason: str = ""

    def add(self, repository: str) -> None:
        self.repositories.add(repository)
        self.length += 1

    def pause(self) -> float:
        """Return the length of the next pause in seconds: twice the pause before, up to a limit."""
        self.pauses = min(self.pauses + 1, MOST_PAUSES)
        return float(min(FIRST_S * 2 ** (self.pauses - 1), LONGEST_S))


class Pauses:
    """The pauses of a controller with `served` repositories; `clock` returns the time in seconds."""

    def __init__(self, served: int, clock: Callable[[], float]) -> None:
        self._served, self._clock = served, clock
        self._all = _Row()
        self._each: dict[str, _Row] = {}

    def reason(self, repository: str) -> StepTrouble | None:
        """Return the reason why steps of `repository` are returned for now; None if they are not."""
        row = self._each.get(repository)
        return StepTrouble(row.reason) if row and self._clock() < row.until else None

    def count(self, repository: str, released: CannotWork | None) -> Pause | None:
        """Record the end of a step of `repository`. Returns the pause that follows, if any."""
        if not released:  # it could be done
            self._all = _Row()
            self._each.pop(repository, None)
            return None
        if isinstance(released, StepTrouble):
            return None
        self._all.add(repository)
        if isinstance(released, NotVerifiable):  # others may take the step: a second report from here halts the plan
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
        self._all = _Row()  # the other repositories had no trouble
        return Pause(seconds, repository)
