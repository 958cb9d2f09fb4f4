"""Reads the activity of a plan's steps from leases and queues: controllers at work, and steps that wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from redis import Redis
from redis.exceptions import NoPermissionError, ResponseError

from schemas import codec
from schemas.base import StepState
from schemas.plan import PlanView, StepActivity
from schemas.stored import Attempt, Claims, read_part
from schemas.stored.features import Releases
from schemas.times import rfc3339
from tasks.features.handing_back import LAST
from tasks.plan.file_claims import wait_reason
from tasks.plan.snapshot import NOTE
from worker.store import fleet
from worker.store.keys import CONTROLLERS, home_of
from worker.store.standing_still import RUNNING, find_standing_still

MAY_START = (StepState.PENDING, StepState.ACTIVE)  # of those without an attempt in flight
RELEASED = NOTE + LAST  # the field of a plan's steps with the last ones that were handed back
LEASE = ("attempt", "claimed", "renewed", "controller")


def with_activity(client: Redis, partitions: int, plan: PlanView) -> PlanView:
    """Return the plan with the activity of its steps, and the reason if no step makes progress.

    Returns the plan unchanged if this user may not read that, or if the plan has ended.
    """
    if plan.ended_at:
        return plan
    try:
        found, now = read_activities(client, partitions, [plan.plan_id])[plan.plan_id]
    except NoPermissionError:
        return plan
    paused = fleet.paused_queues(client, now)
    for step in plan.steps:
        if step.queue in paused and step.state in MAY_START and step.waiting is None:
            held = StepActivity(kind="held", reason=f"queue {step.queue} is paused by {paused[step.queue]}")
            found.setdefault(step.step_id, held)
    steps = [step.model_copy(update={"activity": found.get(step.step_id)}) for step in plan.steps]
    plan = plan.model_copy(update={"steps": tuple(steps)})
    queues = {step.step_id: step.queue for step in plan.steps}
    doing = {step.step_id: step.activity for step in plan.steps if step.activity}
    return plan.model_copy(update={"standing_still": find_standing_still(plan, doing, plan.breaker, queues)})


def approval_ends(client: Redis, partitions: int, plan_id: str, step_id: str) -> int | None:
    """Return the deadline for the approval of a step, in ms; None if it waits for none."""
    live: Any = client.hget(home_of(plan_id, partitions).plan(plan_id).plan, "live")
    found: int | None = codec.loads(live or b"{}").get("waits", {}).get(step_id)
    return found


class Doing(NamedTuple):
    """The activity of each step that has one, and the server's time of reading in ms."""

    steps: dict[str, StepActivity]
    now: int  # of the server, ms


def read_activities(client: Redis, partitions: int, plan_ids: Sequence[str]) -> dict[str, Doing]:
    """Return the activities of the steps of plans, in three round trips for all of them."""
    homes = {plan_id: home_of(plan_id, partitions) for plan_id in plan_ids}
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    for plan_id, part in homes.items():
        keys = part.plan(plan_id)
        pipeline.hgetall(keys.active)
        pipeline.hget(keys.plan, "live")
        pipeline.hmget(keys.steps, RELEASED)  # no other command: readers have none
    (seconds, microseconds), *read = pipeline.execute()
    now = seconds * 1000 + microseconds // 1000
    found = {}
    flying: list[tuple[str, str, Attempt]] = []
    for plan_id, active, live, (released,) in zip(homes, read[::3], read[1::3], read[2::3], strict=True):
        found[plan_id] = Doing(_kept(live, released), now)
        flying += [(plan_id, step.decode(), Attempt.decode(raw)) for step, raw in active.items()]
    for plan_id, step, attempt in flying:
        pipeline.hmget(homes[plan_id].lease_prefix(plan_id) + step, LEASE)
        pipeline.xpending_range(homes[plan_id].steps(attempt.queue), CONTROLLERS, attempt.entry, attempt.entry, 1)
    replies = pipeline.execute(raise_on_error=False) if flying else []
    queues = sorted({attempt.queue for *_, attempt in flying})
    readers = fleet.count_readers(client, partitions, queues) if queues else {}
    for (plan_id, step, attempt), lease, pending in zip(flying, replies[::2], replies[1::2], strict=True):
        activity = _activity(attempt, _or_nothing(lease), _or_nothing(pending), readers[attempt.queue], now)
        found[plan_id].steps[step] = activity
    return found


def controllers_of(doing: Mapping[str, StepActivity]) -> tuple[str, ...]:
    """Return who works on these steps, each once."""
    return tuple(dict.fromkeys(each.controller for each in doing.values() if each.kind == RUNNING and each.controller))


def _kept(live: bytes | None, released: bytes | None) -> dict[str, StepActivity]:
    """Return the activity of each step that waits for a file claim or for the end of its backoff."""
    kept = codec.loads(live or b"{}")
    backoffs, waits = kept.get("backoffs", {}), read_part(kept, Claims).waits
    handed_back = _handed_back(released) if read_part(kept, Releases).counts else {}
    found = {step: StepActivity(kind="held", reason=wait_reason(*wait)) for step, wait in waits.items() if step}
    for step, until in backoffs.items():
        found[step] = StepActivity(kind="backoff", until=rfc3339(until), **handed_back.get(step, {}))
    return found


def _handed_back(note: bytes | None) -> dict[str, dict[str, str]]:
    """Return the time and the reason of the last hand-back of each step."""
    found = {}
    for step, _, controller, reason, at in codec.loads(note or b"[]"):
        by = f" by {controller}" if controller else ""
        found[step] = {"since": rfc3339(at), "reason": f"{step} was handed back{by}: {reason}"}
    return found


def _or_nothing(reply: Any) -> Any:
    """Return a reply; empty if the key is gone or has another type."""
    if isinstance(reply, Exception):
        if not isinstance(reply, ResponseError) or isinstance(reply, NoPermissionError):
            raise reply
        return ()
    return reply


def _activity(attempt: Attempt, lease: Any, pending: Any, readers: int, now: int) -> StepActivity:
    """Return the activity of an attempt in flight.

    A claimed lease names its controller; without one, a consumer that has read the entry counts as the controller.
    """
    number, claimed, renewed, name = lease or (None,) * len(LEASE)
    if number == str(attempt.attempt).encode() and claimed:
        return StepActivity(
            kind="running",
            since=fleet.moment(claimed),
            controller=(name or b"").decode(errors="replace"),
            heartbeat_at=fleet.moment(renewed),
        )
    if pending:
        reader = pending[0]["consumer"].decode(errors="replace")
        return StepActivity(kind="running", since=rfc3339(now - pending[0]["time_since_delivered"]), controller=reader)
    reason = None if readers else f"no controller reads queue `{attempt.queue}`"
    return StepActivity(kind="queued", since=rfc3339(attempt.at), reason=reason)
