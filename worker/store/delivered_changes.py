"""Delivered changes in Redis: stored from the end of their plan, for as long as their state may change.

They have the cluster slot of the records of goals, because they stay longer than their plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from redis import Redis

from schemas import codec
from schemas.base import PlanState
from schemas.delivered import DeliveryState, DeliveryView
from schemas.stored import PlanRecord
from schemas.stored.delivered import DeliveredChange
from schemas.times import rfc3339
from tasks.plan.changeset import claims_name
from worker.store import functions, keys
from worker.store.clients import now_ms
from worker.store.keys import Partition

EVENTS_CAP = 100_000  # entries of the events, about
KEPT_S = 90 * 86_400
COUNTED_S = 14 * 86_400
TURN_S = 3600  # which each look renews
SETTLE_MS = 30_000  # in which a forge finds whether a change conflicts with a target that moved
OPEN_STATES = (DeliveryState.OPEN, DeliveryState.CHECKS_RED, DeliveryState.CHANGES_ASKED)
PLAN = "PLAN"


class Kept(NamedTuple):
    """A delivered change, its version for `keep`, and the time when its forge was last read, in ms."""

    change: DeliveredChange
    version: int
    looked: int


def follow_call(plan_id: str, record: PlanRecord) -> tuple[Any, ...] | None:
    """Return the command that stores the delivered change of an ended plan; None if the plan has no branch."""
    head, branch = record.head, record.delivery.branch
    if not (branch and head.repo):
        return None
    ended = record.times["ended"]
    change = DeliveredChange(
        plan_id=plan_id,
        goal_id=head.goal_id,
        tenant=head.tenant,
        repo=head.repo,
        branch=branch,
        plan_head=head.encode().decode(),
        times={DeliveryState.OPEN: ended},
    )
    places = (keys.delivered(plan_id), _lead(head.tenant, head.repo, branch), keys.WEBHOOK_JOBS, keys.WEBHOOK_LATER)
    about = (plan_id, change.model_dump_json(), KEPT_S, job_of(PLAN), job_of(PLAN, once=True))
    return ("FCALL", functions.FOLLOW_CHANGE, len(places), *places, *about)


def job_of(plan_id: str, *, once: bool = False) -> bytes:
    """Return the webhook job that looks at a plan's change: from time to time, or `once` after an event."""
    return codec.dumps({"delivered": plan_id, **({"once": True} if once else {})})


def nudge(client: Redis, tenant: str, repo: str, names: Iterable[str]) -> bool:
    """Schedule a look at the change of `repo` that one of `names` belongs to. Return whether there is one.

    `names` are branches, or ids of the commits that changes were merged as.
    """
    places = [_lead(tenant, repo, name) for name in names]
    found: Sequence[Any] = [client.get(place) for place in places]
    plan_id = next((each.decode() for each in found if each), None)
    if plan_id:  # as one of those that wait, so that many events lead to one look
        client.zadd(keys.WEBHOOK_LATER, {job_of(plan_id, once=True): now_ms(client)})
    return plan_id is not None


def nudge_targets(client: Redis, tenant: str, repo: str, branches: Iterable[str]) -> None:
    """Schedule a look at each open change of `repo` whose target branch is one of `branches`, which has moved."""
    named, open_ones = frozenset(branches), keys.delivered_open(claims_name(tenant, repo))
    found: Any = client.zrange(open_ones, 0, -1) if named else ()
    changes = read_all(client, [each.decode() for each in found])
    stale = [each.change.plan_id for each in changes if each and each.change.target in named]
    if stale:
        due = now_ms(client) + SETTLE_MS
        client.zadd(keys.WEBHOOK_LATER, {job_of(plan_id, once=True): due for plan_id in stale}, nx=True)


def take_turn(client: Redis, change: DeliveredChange) -> bool:
    """Return whether the change may land again now: a repository has only one such change at a time."""
    turn = keys.delivered_turn(claims_name(change.tenant, change.repo))
    if client.set(turn, change.plan_id, nx=True, ex=TURN_S):
        return True
    holder: Any = client.get(turn)
    return bool(holder == change.plan_id.encode() and client.expire(turn, TURN_S))


def end_turn(client: Redis, change: DeliveredChange) -> None:
    """Let another change of the repository land again."""
    turn = keys.delivered_turn(claims_name(change.tenant, change.repo))
    holder: Any = client.get(turn)
    if holder == change.plan_id.encode():
        client.delete(turn)


def awaiting_room(record: PlanRecord) -> DeliveryView | None:
    """Return the view of a change that waits because its repository has too many open changes.

    Returns None for any other plan.
    """
    if not (since := record.delivery.full_since) or record.times.get("ended"):
        return None
    at = rfc3339(since)
    return DeliveryView(state=DeliveryState.DELIVERABLE, since=at, times={DeliveryState.DELIVERABLE.value: at})


def read(client: Redis, plan_id: str) -> Kept | None:
    """Return the delivered change of a plan; None if the plan has none, or if its record has expired."""
    return read_all(client, [plan_id])[0]


def read_all(client: Redis, plan_ids: Sequence[str]) -> list[Kept | None]:
    """Read the changes of plans in one round trip."""
    pipeline = client.pipeline(transaction=False)
    for plan_id in plan_ids:
        pipeline.hmget(keys.delivered(plan_id), "version", "change", "looked")
    return [
        Kept(DeliveredChange.model_validate_json(change), int(version), int(looked or 0)) if change else None
        for version, change, looked in pipeline.execute()
    ]


def keep(client: Redis, version: int, change: DeliveredChange) -> bool:
    """Store a change and its goal's delivery state. Return False if another write came after `version` was read."""
    places = (
        keys.delivered(change.plan_id),
        keys.goal_id(change.goal_id, change.tenant),
        *_leads(change),
    )
    about = (change.plan_id, change.state, rfc3339(change.times[change.state]))
    text = change.model_dump_json()
    call = ("FCALL", functions.KEEP_CHANGE, len(places), *places, version, text, KEPT_S, *about)
    return bool(functions.call_or_load(client, *call))


def note_look(client: Redis, change: DeliveredChange, now: int) -> None:
    """Note the time of this look at the change's forge, and keep the record of the change for KEPT_S from now."""
    pipeline = client.pipeline(transaction=False)
    pipeline.hset(keys.delivered(change.plan_id), "looked", now)
    for place in (keys.delivered(change.plan_id), *_leads(change)):
        pipeline.expire(place, KEPT_S)
    pipeline.execute()


def count_open(client: Redis, change: DeliveredChange, now: int) -> tuple[int, str]:
    """Record whether a change is open. Return the number of its repository's open changes and the plan of one of them.

    The plan is "" if no change is open. A change that had no look for 14 days is not counted.
    """
    key, pipeline = keys.delivered_open(claims_name(change.tenant, change.repo)), client.pipeline(transaction=False)
    if change.state in OPEN_STATES and change.number:
        pipeline.zadd(key, {change.plan_id: now})
    else:
        pipeline.zrem(key, change.plan_id)
    pipeline.zremrangebyscore(key, "-inf", now - 1000 * COUNTED_S)
    pipeline.expire(key, COUNTED_S)
    pipeline.zcard(key)
    pipeline.zrevrange(key, 0, 0)
    *_, count, last = pipeline.execute()
    return count, last[0].decode() if last else ""


def announce(
    client: Redis, partition: Partition, change: DeliveredChange, at: int, told: str, event: tuple[str, bytes]
) -> None:
    """Publish an event about a change that moved at `at` (ms), and a callback of the type `told` unless empty."""
    callback: Any = client.hget(partition.plan(change.plan_id).plan, "callback")
    about = (change.plan_id, at, PlanState.COMPLETED, change.plan_head, callback or "")
    functions.call_or_load(client, "FCALL", functions.ANNOUNCE, 1, partition.events, EVENTS_CAP, *event, told, *about)


def _leads(change: DeliveredChange) -> list[str]:
    return [_lead(change.tenant, change.repo, name) for name in (change.branch, *change.merged_as)]


def _lead(tenant: str, repo: str, name: str) -> str:
    """Return the key that leads from a branch or commit to its change; tenants never share one."""
    return keys.delivered_by(sha256(f"{tenant}\n{repo.casefold()}\n{name}".encode()).hexdigest())
