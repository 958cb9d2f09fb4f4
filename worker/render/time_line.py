"""The times of a plan's attempts: when they waited, were in their queue and ran, and the controller. Pure.

They come from the plan's log. It contains the end of each attempt, and the queueing of a step's first attempt. The
running time is from the controller's report. A later attempt counts as queued when nothing held it any more: its
backoff was over, and its pre-steps had ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from schemas.plan import StepActivity, StepView
from schemas.times import milliseconds
from worker.store.history import Story

ENDED = frozenset({"DONE", "SKIPPED", "FAILED", "HALTED"})
IN_FLIGHT = frozenset({"queued", "running"})  # kinds of activities
NOBODY: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class AttemptTimes:
    """One attempt: its controller, its times in ms, and its result.

    `free` is when its step could be tried, and `queued` is when the attempt entered its queue. `began` is when its work
    began, None if that was not reported. `ended` is None for an attempt in flight. `told` is its outcome as reported.
    """

    step_id: str
    attempt: int
    controller: str
    free: int
    queued: int
    began: int | None
    ended: int | None
    result: str
    category: str
    told: Mapping[str, Any]

    @property
    def waited_ms(self) -> int:
        """The time between `free` and `queued`, in ms: the step could be tried, but the attempt was not queued."""
        return self.queued - self.free

    def queued_ms(self, now: int) -> int:
        """Return the time in the queue, in ms; with the time at work if the start of the work was not reported."""
        return (self.began or self.ended or now) - self.queued

    def ran_ms(self, now: int) -> int | None:
        """Return the time at work, in ms; None if the start of the work was not reported."""
        return None if self.began is None else (self.ended or now) - self.began


@dataclass(frozen=True, slots=True)
class _End:
    """The end of an attempt, with the data of its log line; if `attempt` is None, it is the step's next attempt."""

    step_id: str
    attempt: int | None
    told: Mapping[str, Any]
    claimed: int = 0
    controller: str = ""
    result: str = ""


def attempts_of(
    lines: Iterable[Mapping[str, Any]], story: Story, steps: Sequence[StepView], doing: Mapping[str, StepActivity]
) -> list[AttemptTimes]:
    """Return every attempt of a plan in the order of queueing; `doing` is the current activity of its steps."""
    clock, known = _Clock(steps), {(step, one["attempt"]): one for step, some in story.items() for one in some}
    found = [clock.end(end, known) for line in lines for end in clock.read(line)]
    found += [clock.in_flight(step, activity) for step, activity in doing.items() if activity.kind in IN_FLIGHT]
    return sorted(found, key=lambda each: (each.queued, each.step_id, each.attempt))


class _Clock:
    """Follows the lines of a log: it knows when each step and attempt was added, queued and ended so far."""

    def __init__(self, steps: Sequence[StepView]) -> None:
        self._depends_on = {step.step_id: step.depends_on for step in steps}
        self._is_before = {step.step_id: step.inserted_by for step in steps if step.inserted_by}
        self._now = 0
        self._begun = 0  # when the plan was created
        self._made: dict[str, int] = {}  # when a step was added, of those that the plan did not begin with
        self._over: dict[str, int] = {}  # when each step ended
        self._queued: dict[str, int] = {}  # the next or present attempt of each step
        self._free: dict[str, int] = {}  # since when it could have been tried
        self._tried: dict[str, int] = {}  # the last attempt of each step that has ended

    def read(self, line: Mapping[str, Any]) -> Iterator[_End]:
        """Read a line. Yields the attempts that ended with it, each before its consequences are read."""
        self._now = now = line["now"]
        self._begun = self._begun or now
        ended = list(_ends(line))
        yield from ended
        gone = {end.step_id for end in ended}
        for revision in line.get("revisions", ()):
            diff = revision.get("diff") or {}
            self._made.update(dict.fromkeys((*diff.get("added", ()), *filter(None, [diff.get("inserted")])), now))
        for what, *said in line["in"]:
            if what == "backoff over" and isinstance(said[0], list):
                self._queued.update(dict.fromkeys(said[0], now))
        for step, before, after in line["moves"]:
            if (before, after) == ("PENDING", "ACTIVE"):
                over = [self._over.get(each, 0) for each in self._depends_on.get(step, ())]
                self._free[step], self._queued[step] = max([self._begun, self._made.get(step, 0), *over]), now
            if step and after in ENDED:
                if before == "ACTIVE" and step not in gone:  # in flight when the plan ended, or the step was skipped
                    yield _End(step, None, NOBODY, result="SKIPPED" if after == "SKIPPED" else "HALTED")
                self._over[step] = now
                if (waiting := self._is_before.get(step)) in self._tried:
                    self._queued[str(waiting)] = now

    def end(self, end: _End, known: Mapping[tuple[str, int], Mapping[str, Any]]) -> AttemptTimes:
        """Return the attempt that ended now. The next attempt of its step counts as queued from now on."""
        step, now = end.step_id, self._now
        number = end.attempt or self._tried.get(step, 0) + 1
        told = known.get((step, number), NOBODY)
        queued = min(now, self._queued.get(step, self._begun))
        began = _began(end, queued, now)
        found = AttemptTimes(
            step_id=step,
            attempt=number,
            controller=str(end.told.get("controller") or end.controller or ""),
            free=min(queued, self._free.get(step, queued)),
            queued=queued,
            began=began,
            ended=now,
            result=end.result or told.get("result") or "",
            category=told.get("category") or "",
            told=end.told,
        )
        self._tried[step], self._free[step], self._queued[step] = number, now, now
        return found

    def in_flight(self, step: str, activity: StepActivity) -> AttemptTimes:
        """Return an attempt in flight, from the current activity of its step."""
        since = milliseconds(datetime.fromisoformat(activity.since)) if activity.since else self._now
        is_running = activity.kind == "running"
        queued = min(since, self._queued.get(step, since)) if is_running else since
        return AttemptTimes(
            step_id=step,
            attempt=self._tried.get(step, 0) + 1,
            controller=activity.controller or "",
            free=min(queued, self._free.get(step, queued)),
            queued=queued,
            began=since if is_running else None,
            ended=None,
            result=activity.kind.upper(),
            category="",
            told=NOBODY,
        )


def _ends(line: Mapping[str, Any]) -> Iterator[_End]:
    claims = {said[1]: said[3:] for said in line["in"] if said[0] == "handed back"}
    leases = line.get("around", {}).get("leases", {})
    for what, *said in line["in"]:
        if what == "outcome":
            step = said[2]["step_id"]
            controller, claimed = claims.get(step, ("", 0))
            yield _End(step, said[0], said[2], claimed, controller)
        elif what == "expired":
            lease: list[Any] = [*leases.get(said[0], ())]
            claimed, controller = (lease[1], lease[3]) if len(lease) > 3 else (0, "")
            yield _End(said[0], said[1], NOBODY, claimed or 0, controller or "")


def _began(end: _End, queued: int, now: int) -> int | None:
    """Return when an attempt began to run: at its claim, else at its end minus the running time in its report."""
    if end.claimed:
        return min(now, max(queued, end.claimed))
    ran = (end.told.get("metrics") or NOBODY).get("duration_ms")
    if isinstance(ran, int | float) and ran > 0:
        return max(queued, round(now - min(ran, now)))
    return None
