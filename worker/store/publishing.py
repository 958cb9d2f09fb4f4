"""Adds goals and commands to their streams, for all entrances: the command line, HTTP, webhooks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from redis import Redis
from redis.exceptions import NoPermissionError, OutOfMemoryError

from schemas import codec
from schemas.base import GoalVerdict
from schemas.command import Command, Scope
from schemas.envelope import DeadEntry, Problem
from schemas.plan import GoalAnswer
from tasks.base.errors import PlannerError
from tasks.handlers.bulk_commands import scope_of
from worker.store import functions, goal_record, keys, queries
from worker.store.functions import FunctionsMissing
from worker.store.keys import NO_TENANT, Partition, partition_of

CONFLICT = "goal_conflict"
DEAD_PAGE = 1000
KNOWN_S = 7 * 86_400  # time for which a repeated command is recognized
DIGEST_BYTES = 16
BODY = ("command", "scope", "target", "value", "until")  # in each repetition of a command


class GoalConflict(PlannerError):
    """The goal's id belongs to a different goal, which the planner keeps."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.problem = Problem.of(CONFLICT, detail, status=409)


class DeadGoal(PlannerError):
    """The planner could not take a goal; `problem` has the reason."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Sent:
    """A goal that was sent; `goal_id` is the id of its entry if the sender chose none.

    `entry` is None if the stream had the goal already. If the sender chose the id, `digest` is the digest of the body.
    """

    entry: str | None
    goal_id: str
    tenant: str = NO_TENANT
    digest: str | None = None


def publish_goal(
    client: Redis,
    data: bytes,
    goal_id: str | None,
    tenant: str | None,
    digest: str | None = None,
    *,
    once: bool = False,
    traceparent: str | None = None,
) -> Sent:
    """Add a goal to the stream as part of the given trace; with `once` only if its id is new.

    Raises GoalConflict if its id belongs to a goal with another body, with another `digest`.
    """
    owner, ours = tenant or NO_TENANT, None if once else digest
    if goal_id:
        known = Sent(None, goal_id, owner, ours)
        check_same(client, known)
        if once and _digest(client, known):
            return known
    fields: dict[Any, Any] = {"data": data, **({"traceparent": traceparent} if traceparent else {})}
    entry: Any = client.xadd(keys.GOALS, fields)
    return Sent(entry.decode(), goal_id or entry.decode(), owner, ours if goal_id else None)


def hand_in(
    client: Redis, data: bytes, sent: Sent, plan_id: str, retention_s: int, traceparent: str | None = None
) -> Sent:
    """Add a goal to the stream with its record, in one round trip if it has an id.

    So its sender reads PENDING at once, and a second body under its id is noticed. The planner creates the plan that
    the record names. Raises GoalConflict if the goal's id belongs to another body, and the server's refusal.
    """
    digest = sent.digest or ""
    if not sent.goal_id:
        added = publish_goal(client, data, None, sent.tenant, traceparent=traceparent)
        key = keys.goal_id(added.goal_id, added.tenant)
        call = goal_record.claim_call(key, plan_id, digest, retention_s, once=True)  # the planner may be faster
        if functions.call_or_load(client, *call)[2].decode() != digest:
            raise _conflict(client, added)
        return added
    told = ("data", data, *(("traceparent", traceparent) if traceparent else ()))
    places = (keys.goal_id(sent.goal_id, sent.tenant), keys.GOALS)
    command = ("FCALL", functions.HAND_IN, len(places), *places, plan_id, digest, retention_s, *told)
    try:
        entry: Any = functions.call_or_load(client, *command)
    except OutOfMemoryError:
        check_same(client, sent)
        raise
    if not entry:
        raise _conflict(client, sent)
    return replace(sent, entry=entry.decode())


def check_same(client: Redis, sent: Sent) -> None:
    """Raise GoalConflict if the record of a goal is about another body: the planner keeps the first."""
    if sent.digest is not None and (_digest(client, sent) or sent.digest) != sent.digest:
        raise _conflict(client, sent)


def _conflict(client: Redis, sent: Sent) -> GoalConflict:
    answer = queries.goal(client, sent.goal_id, sent.tenant)
    about = f" (plan {answer.plan_id}, {answer.state or answer.verdict})" if answer else ""
    detail = f"goal_conflict: {sent.goal_id} was already used for another goal{about}. Give this one another goal id."
    return GoalConflict(detail)


def verdict(client: Redis, sent: Sent) -> GoalAnswer | None:
    """Return the planner's answer to a sent goal; None before there is one. Raises GoalConflict and DeadGoal."""
    if not _is_taken(client, sent):
        return None
    check_same(client, sent)
    answer = queries.goal(client, sent.goal_id, sent.tenant)
    _check_alive(client, sent, answer)
    # An answer without a plan is about an earlier goal with this id: this goal is readable.
    return answer if answer and answer.plan_id and answer.verdict is not GoalVerdict.PENDING else None


def _is_taken(client: Redis, sent: Sent) -> bool:
    """Return whether the planner has processed the goal's entry; True if this user may not read the stream."""
    try:
        return not (sent.entry and client.xrange(keys.GOALS, sent.entry, sent.entry))
    except NoPermissionError:
        return True


def _check_alive(client: Redis, sent: Sent, answer: GoalAnswer | None) -> None:
    """Raise DeadGoal or GoalConflict if the sent goal is a dead letter.

    A dead letter does not count if the goal's record already has its reason as verdict.
    """
    if sent.entry is None:
        return
    try:
        found: Any = client.xrange(keys.GOALS_DEAD, min=sent.entry, count=DEAD_PAGE)
    except NoPermissionError:
        return
    for _, fields in found:
        dead = DeadEntry.model_validate(codec.loads(fields[b"problem"]))
        is_known = dead.problem.code == CONFLICT and sent.digest is None  # the same goal, sent by two jobs at once
        is_known = is_known or bool(answer and answer.plan_id and answer.reason == dead.problem.code)
        if dead.entry == sent.entry and not is_known:
            raise GoalConflict(dead.problem.detail) if dead.problem.code == CONFLICT else DeadGoal(dead.problem)


def _digest(client: Redis, sent: Sent) -> str | None:
    """Return the digest in a goal's record; None without one, or if it is not readable."""
    try:
        known = goal_record.read(client, keys.goal_id(sent.goal_id, sent.tenant))
    except NoPermissionError:
        return None
    return known[2] if known else None


def home_of(command: Command, partitions: int) -> Partition:
    """Return the partition whose worker obeys a command, and whose events report the result."""
    return Partition(partition_of(command.plan_id, partitions) if command.plan_id else 0)


def publish_command(client: Redis, partitions: int, command: Command, source: str) -> None:
    """Add a command to its stream, with its source.

    On a full server this uses a function that is allowed there, because the command may end plans.
    """
    stream = home_of(command, partitions).commands if command.plan_id else keys.COMMANDS
    data = codec.encode(command, exclude_none=True)
    try:
        client.xadd(stream, {"data": data, "source": source})
    except OutOfMemoryError as full:
        try:
            functions.call(client, "FCALL", functions.PUBLISH_COMMAND, 1, stream, data, "source", source)
        except (FunctionsMissing, NoPermissionError):
            raise full from None


def is_known_alike(client: Redis, command: Command) -> bool | None:
    """Return whether `command` has the same body as the earlier command with its id; None if there was none lately."""
    found: Any = client.get(_key(command))
    return found.decode().partition(" ")[2] == _digest_of_command(command) if found else None


def keep_known(client: Redis, command: Command) -> None:
    """Record that a command was obeyed, or refused."""
    value = f"{command.command.value} {_digest_of_command(command)}"
    functions.call(client, "FCALL", functions.REMEMBER, 1, _key(command), value, KNOWN_S)


def _key(command: Command) -> str:
    """Return the key of a known command; the scope is a digest, because targets and ids may contain any character."""
    if command.scope not in (Scope.TENANT, Scope.QUEUE):
        return f"{keys.COMMANDS_KNOWN}:{command.command_id}"
    scope = blake2b(scope_of(command).encode(), digest_size=DIGEST_BYTES).hexdigest()
    return f"{keys.COMMANDS_KNOWN}:{scope}:{command.command_id}"


def _digest_of_command(command: Command) -> str:
    said = command.model_dump(mode="json", include=set(BODY))
    return blake2b(codec.canonical(said), digest_size=DIGEST_BYTES).hexdigest()
