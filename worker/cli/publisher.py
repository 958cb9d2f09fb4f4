"""Publishing goals and commands, and waiting for what the planner says of them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError
from redis.exceptions import NoPermissionError

from schemas import codec
from schemas.base import GoalVerdict
from schemas.command import Command
from schemas.envelope import DeadEntry
from schemas.plan import GoalAnswer
from worker.cli.console import FAILED, USAGE, Failure, Link
from worker.store import keys, publishing, queries
from worker.store.publishing import CONFLICT, GoalConflict, Sent

LOOK_S, SELDOM_S = 0.05, 5.0  # between two looks
DEAD_PAGE = 1000
NO_VERDICT = "no_verdict"  # the problem where none comes in time
REFUSED = "dev.planner.command.refused.v1"
ANSWER_S = 10.0  # until a command that nobody answers is given up


def publish(
    link: Link, data: bytes, goal_id: str | None, tenant: str | None, digest: str | None = None, *, once: bool = False
) -> Sent:
    """Add a goal to the stream, with `once` unless its id is known; raises Failure as publish_goal does."""
    try:
        return publishing.publish_goal(link.client, link.partitions, data, goal_id, tenant, digest, once=once)
    except GoalConflict as conflict:
        raise Failure(conflict.problem, FAILED) from conflict


def wait_for(link: Link, sent: Sent, timeout_s: float) -> GoalAnswer:
    """Return the planner's answer; raises Failure for a dead goal, or where none comes."""
    since = time.monotonic()
    while (waited := time.monotonic() - since) < timeout_s:
        if _taken(link, sent):
            _check_same(link, sent)
            _check_alive(link, sent)
            answer = queries.goal(link.client, sent.goal_id, sent.tenant, partitions=link.partitions)
            # One without a plan is about what was sent before under this id: this goal can be read.
            if answer and answer.plan_id and answer.verdict is not GoalVerdict.PENDING:
                return answer
        time.sleep(min(pause_s(waited, LOOK_S), timeout_s - waited))
    detail = f"No verdict on goal {sent.goal_id} within {timeout_s:g} s. Is a worker running (`planner worker`)?"
    raise Failure.of(NO_VERDICT, detail)


def _check_same(link: Link, sent: Sent) -> None:
    try:
        publishing.check_same(link.client, link.partitions, sent)
    except GoalConflict as conflict:
        raise Failure(conflict.problem, FAILED) from conflict


def pause_s(waited_s: float, least_s: float) -> float:
    """Return how long to pause before the next look: ever longer, for the longer one has waited the less it matters."""
    return min(SELDOM_S, max(least_s, waited_s / 20))


def _taken(link: Link, sent: Sent) -> bool:
    """Whether the planner is done with the entry; a producer that may not read the stream goes by the goal's record."""
    try:
        return not (sent.entry and link.client.xrange(keys.GOALS, sent.entry, sent.entry))
    except NoPermissionError:
        return True


def _check_alive(link: Link, sent: Sent) -> None:
    """Look for the goal in the dead stream, which holds nothing of it from before it was sent."""
    if sent.entry is None:
        return
    try:
        found: Any = link.client.xrange(keys.GOALS_DEAD, min=sent.entry, count=DEAD_PAGE)
    except NoPermissionError:
        return
    for _, fields in found:
        dead = DeadEntry.model_validate(codec.loads(fields[b"problem"]))
        is_known = dead.problem.code == CONFLICT and sent.digest is None  # the same goal, sent by two jobs at once
        if dead.entry == sent.entry and not is_known:
            raise Failure(dead.problem, FAILED)


def errors_of(link: Link, answer: GoalAnswer) -> list[dict[str, str]]:
    """List what was wrong with a REJECTED goal; its plan keeps that."""
    if not answer.plan_id:
        return list(answer.errors)
    try:
        plan = queries.plan(link.client, link.partitions, answer.plan_id)
    except NoPermissionError:
        return []
    errors: list[dict[str, str]] = plan.halt.evidence.get("errors", []) if plan and plan.halt else []
    return errors


def command(link: Link, **fields: Any) -> dict[str, Any]:
    """Put a command where it is obeyed; returns the event that answers it, as JSON."""
    (event,) = commands(link, [fields])
    if event is None:
        raise Failure.of("no_answer", f"No worker took the order in {ANSWER_S:g} s. Is one running (`planner worker`)?")
    return event


def commands(link: Link, wanted: Sequence[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
    """Put commands where they are obeyed; returns the event that answers each, None where no worker has."""
    try:
        made = [Command(command_id=uuid.uuid4().hex, **fields) for fields in wanted]
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise Failure.of("wrong_order", f"That is no order: {wrong}.", USAGE) from error
    homes = [publishing.home_of(one, link.partitions) for one in made]
    last: dict[str, Any] = {}
    for home in homes:
        if home.events not in last:
            found: Any = link.client.xrevrange(home.events, count=1)
            last[home.events] = found[0][0] if found else b"0"
    for one in made:
        publishing.publish_command(link.client, link.partitions, one)
    answers = _answers(link, last, {one.command_id for one in made})
    return [answers.get(one.command_id) for one in made]


def _answers(link: Link, after: dict[str, Any], waiting: set[str]) -> dict[str, dict[str, Any]]:
    """Wait for the events that answer commands, as long as some come; returns them by the commands' ids."""
    answers: dict[str, dict[str, Any]] = {}
    end = time.monotonic() + ANSWER_S
    while len(answers) < len(waiting) and (left := end - time.monotonic()) > 0:
        reply: Any = link.client.xread(after, count=100, block=max(1, int(1000 * left)))  # type: ignore[arg-type]
        for stream, found in reply or ():
            for entry, fields in found:
                after[stream.decode()], data = entry, codec.loads(fields[b"data"])
                if data.get("command_id") in waiting:
                    answers[data["command_id"]] = {"type": fields[b"type"].decode(), "data": data}
                    end = time.monotonic() + ANSWER_S
    return answers
