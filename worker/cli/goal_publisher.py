"""Publishing a goal, and waiting for what the planner says of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from redis.exceptions import NoPermissionError

from schemas import codec
from schemas.base import GoalVerdict
from schemas.envelope import DeadEntry
from schemas.plan import GoalAnswer
from worker.cli.console import FAILED, Failure, Link
from worker.store import keys, queries

LOOK_S = 0.05
DEAD_PAGE = 1000


@dataclass(frozen=True, slots=True)
class Sent:
    """A goal on the stream; without an id of its own the entry's serves."""

    entry: str
    goal_id: str


def publish(link: Link, data: bytes, goal_id: str | None) -> Sent:
    """Add the goal to the stream."""
    entry: Any = link.client.xadd(keys.GOALS, {"data": data})
    return Sent(entry.decode(), goal_id or entry.decode())


def wait_for(link: Link, sent: Sent, timeout_s: float) -> GoalAnswer:
    """Return the planner's answer to the goal; raises Failure if it went to the dead stream, or if none comes."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if _taken(link, sent):
            _check_alive(link, sent)
            answer = queries.goal(link.client, sent.goal_id)
            if answer and answer.verdict is not GoalVerdict.PENDING:
                return answer
        time.sleep(LOOK_S)
    detail = f"No verdict on goal {sent.goal_id} within {timeout_s:g} s. Is a worker running (`planner worker`)?"
    raise Failure.of("no_verdict", detail)


def _taken(link: Link, sent: Sent) -> bool:
    """Whether the planner is done with the entry; a producer that may not read the stream goes by the goal's record."""
    try:
        return not link.client.xrange(keys.GOALS, sent.entry, sent.entry)
    except NoPermissionError:
        return True


def _check_alive(link: Link, sent: Sent) -> None:
    """Look for the goal in the dead stream, which holds nothing of it from before it was sent."""
    try:
        found: Any = link.client.xrange(keys.GOALS_DEAD, min=sent.entry, count=DEAD_PAGE)
    except NoPermissionError:
        return
    for _, fields in found:
        dead = DeadEntry.model_validate(codec.loads(fields[b"problem"]))
        if dead.entry == sent.entry:
            raise Failure(dead.problem, FAILED)


def errors_of(link: Link, answer: GoalAnswer) -> list[dict[str, str]]:
    """Tell everything that was wrong with a REJECTED goal; its plan keeps that."""
    try:
        plan = queries.plan(link.client, link.partitions, answer.plan_id)
    except NoPermissionError:
        return []
    errors: list[dict[str, str]] = plan.halt.evidence.get("errors", []) if plan and plan.halt else []
    return errors
