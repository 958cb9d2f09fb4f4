"""Waits until a goal's plan has ended, and prints the progress; the right to read the goal's record is enough."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from shlex import quote
from typing import Any, TypeVar

from schemas.base import GoalVerdict
from schemas.plan import GoalAnswer
from worker.cli.console import USAGE, Failure
from worker.cli.standing import StandingWatch
from worker.client.planner import GAP, PlanEvents, Planner, pause_s
from worker.client.trouble import Away, NoRight, Trouble
from worker.host.terminal import Terminal, line
from worker.render.plan import event_line
from worker.store.keys import NO_TENANT
from worker.store.publishing import Sent

T = TypeVar("T")

LENGTH = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhd]?)")
UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
LOOK_S = 1.0  # at first; then ever more seldom
LAST_S = 3.0  # time for the events of an ended plan
AWAY_S = 1.0  # between two looks for a server that is away
UNPLANNED_S = 10.0  # until a wait prints that no worker has planned the goal
UNPLANNED = (
    "Nothing moves: no worker has planned the goal. `planner worker` starts one; the log of a worker has its problems."
)
WITHOUT_A_PLAN = (GoalVerdict.REJECTED, GoalVerdict.NOTHING_TO_DO)


def seconds(text: str) -> float:
    """Return a duration such as 60, 90s, 30m or 2h in seconds. Raises Failure."""
    found = LENGTH.fullmatch(text)
    if not found:
        raise Failure.of("wrong_time", f"--timeout {text!r} is no length such as 60, 90s, 30m or 2h.", USAGE)
    return float(found[1]) * UNITS_S[found[2]]


def is_over(answer: GoalAnswer) -> bool:
    """Return whether a goal is finished: its plan has ended, or it gets no plan."""
    return bool(answer.state) or answer.verdict in WITHOUT_A_PLAN


def wait_for(planner: Planner, sent: Sent, timeout_s: float) -> GoalAnswer:
    """Return the planner's verdict on a goal. Raises Failure if there is none in time."""
    answer = planner.verdict(sent, timeout_s)
    if answer is None:
        detail = f"No verdict on goal {sent.goal_id} within {timeout_s:g} s. Is a worker running (`planner worker`)?"
        raise Failure.of("no_verdict", detail)
    return answer


def errors_of(planner: Planner, answer: GoalAnswer) -> list[dict[str, str]]:
    """Return the errors of a REJECTED goal: its plan stores them, and a gateway returns them with the verdict."""
    if answer.errors or not answer.plan_id:
        return list(answer.errors)
    try:
        plan = planner.plan(answer.plan_id)
    except NoRight:
        return []
    errors: list[dict[str, str]] = plan.halt.evidence.get("errors", []) if plan and plan.halt else []
    return errors


def result_of(planner: Planner, answer: GoalAnswer) -> dict[str, Any] | None:
    """Return the result of a goal's plan; None if there is no plan, or this user may not read plans."""
    if not answer.plan_id or answer.verdict is GoalVerdict.NOTHING_TO_DO:
        return None
    try:
        plan = planner.plan(answer.plan_id)
        return planner.result(plan).model_dump(mode="json") if plan else None
    except Trouble:  # the result of the goal is more important
        return None


class EndWait:
    """Waits until the plan of a goal has ended, also during an outage of the server.

    Progress is printed on standard error: the plan's events if they are readable, else the state in its record.
    """

    def __init__(self, planner: Planner, sent: Sent, timeout_s: float) -> None:
        self._planner, self._sent = planner, sent
        self._since = time.monotonic()
        self._end = self._since + timeout_s
        self._console = Terminal(stderr=True, highlight=False)
        self._events: PlanEvents | None = None
        self._standing: StandingWatch | None = None
        self._refused = False  # whether this user may not read plans
        self._known: tuple[str, ...] = ()  # the printed parts of the record
        self._is_noted = False  # whether it was printed that no worker plans the goal

    def result(self) -> GoalAnswer | None:
        """Return the goal's record once the plan has ended or the time is over; None if there is no verdict yet."""
        answer: GoalAnswer | None = None
        try:
            answer = self._ask(self._verdict)
            while answer and not is_over(self._tell(answer)) and self._pause():
                answer = self._ask(self._look) or answer
        except KeyboardInterrupt:
            line(f"Not waiting any longer. {self.look_again(answer)}", err=True)
            raise
        finally:
            if self._events:
                self._events.close()
        return answer

    def look_again(self, answer: GoalAnswer | None) -> str:
        """Return a sentence with the command that shows the goal's result later, within the rights of this user."""
        whose = "" if self._sent.tenant == NO_TENANT else f" --tenant {quote(self._sent.tenant)}"
        what = "watch" if self._events else "summary"
        stays = "The plan goes on" if answer and answer.plan_id else "The goal still waits to be planned"
        return f"{stays}. Look again: planner {what} {quote(self._sent.goal_id)}{whose}"

    def _ask(self, ask: Callable[[], T]) -> T | None:
        """Return the result of `ask`, which is repeated while the server is away; None at the timeout."""
        told = ""
        while True:
            try:
                found = ask()
            except Away as away:
                if not told:
                    line(f"{away.who} does not answer ({away.why}): waiting for it.", err=True)
                told = away.who.partition(" at ")[0]
                if not self._pause(max(AWAY_S, away.retry_after_s)):
                    return None
            else:
                if told:
                    line(f"{told} answers again.", err=True)
                return found

    def _verdict(self) -> GoalAnswer | None:
        """Return the verdict on the goal, None at the timeout; if no worker plans the goal soon, print that once."""
        soon = 0.0 if self._is_noted else UNPLANNED_S
        if soon and (answer := self._planner.verdict(self._sent, min(soon, self._left()))):
            return answer
        if soon and self._left() > 0:
            self._is_noted = True
            line(UNPLANNED, err=True)
        return self._planner.verdict(self._sent, self._left())

    def _left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    def _look(self) -> GoalAnswer | None:
        return self._planner.goal(self._sent.goal_id, self._sent.tenant)

    def _pause(self, length_s: float = 0.0) -> bool:
        """Sleep until the next look. Returns False if no time is left."""
        now = time.monotonic()
        left = self._end - now
        if left <= 0:
            return False
        time.sleep(min(left, length_s or pause_s(now - self._since, LOOK_S)))
        return True

    def _tell(self, answer: GoalAnswer) -> GoalAnswer:
        """Print the news about a goal, and return `answer` unchanged."""
        if answer.plan_id and answer.verdict is not GoalVerdict.NOTHING_TO_DO and not self._refused:
            try:
                self._tell_events(answer.plan_id, LAST_S if is_over(answer) else 0.0)
            except NoRight:
                self._refused, self._events = True, None
            except Trouble:
                return answer  # the next look at the record reports it
        if self._events is None:
            self._tell_record(answer)
        return answer

    def _tell_events(self, plan_id: str, wait_s: float) -> None:
        if self._events is None:
            plan = self._planner.plan(plan_id)
            if plan is None:
                return
            self._events, self._standing = self._planner.events(plan), StandingWatch(self._planner, plan_id)
        if self._standing:
            self._standing.look()
        while not self._events.ended and (page := self._events.read(wait_s)):
            for event in page:
                if event.what == GAP:
                    line(f"Events are missing here ({event.data.get('reason')}).", err=True)
                    continue
                self._console.print(event_line(event.what, event.data), soft_wrap=not self._console.is_terminal)

    def _tell_record(self, answer: GoalAnswer) -> None:
        ended = (answer.state, answer.halt_rule, answer.halt_reason) if answer.state else (answer.reason,)
        delivered = (answer.branch, answer.pull_request)
        known = tuple(filter(None, (answer.verdict, answer.plan_id, *ended, *delivered)))
        if known != self._known:
            self._known = known
            line(f"{datetime.now(UTC):%H:%M:%S}  {'  '.join(known)}", err=True)
