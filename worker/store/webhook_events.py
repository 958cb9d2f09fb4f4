"""Records of received webhooks, and the single write for each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from redis import Redis

from worker.store import functions, keys

KNOWN_S = 72 * 3600  # time for which a delivery, its body and its coalescing key are known
LATEST_S = 30 * 86_400  # time for which the newest of its kind is known: about the life of a plan


@dataclass(frozen=True, slots=True)
class Arrival:
    """A webhook delivery that a rule accepts. At most one of `goal` and `job` is set; without both, it ends a goal.

    `delivery`, `body`, `coalesce` and `latest` are digests; the last two are None if the rule has none.
    """

    source: str
    delivery: str
    body: str
    goal_id: str
    tenant: str
    goal: bytes
    job: bytes
    coalesce: str | None
    latest: str | None
    order: str


def take(client: Redis, one: Arrival) -> tuple[str, str, str]:
    """Store the result of a delivery atomically. Return the verdict, its goal's id, and the id of a goal to cancel."""
    names = (
        keys.webhook("delivery", one.delivery),
        keys.webhook("body", one.body),
        keys.webhook("coalesce", one.coalesce or ""),
        keys.webhook("latest", one.latest or ""),
    )
    places = (keys.WEBHOOK_STATS, keys.GOALS, keys.WEBHOOK_JOBS, *names, keys.WEBHOOK_WITHDRAWN)
    values = (one.source, one.goal_id, one.tenant, one.goal, one.job, KNOWN_S, LATEST_S)
    flags = (int(one.coalesce is not None), int(one.latest is not None))
    found = _call(client, functions.TAKE_WEBHOOK, places, *values, *flags, one.order)
    verdict, goal_id, cancels = (each.decode() for each in found)
    return verdict, goal_id, cancels


def count(client: Redis, what: str) -> None:
    """Count a delivery without any result."""
    _call(client, functions.COUNT, (keys.WEBHOOK_STATS,), what, 1)


def send_completed(client: Redis, entry: bytes, goal_id: str, goal: bytes) -> int:
    """Send the goal of a job and end the job.

    Returns 1; 0 if the goal was overtaken; -1 if another worker has done the job.
    """
    places = (keys.WEBHOOK_JOBS, keys.GOALS, keys.WEBHOOK_WITHDRAWN)
    return int(_call(client, functions.SEND_COMPLETED, places, keys.GROUP, entry, goal_id, goal))


def postpone(client: Redis, entry: bytes, job: bytes, delay_s: float) -> None:
    """End a job for now, and schedule `job` again after `delay_s` seconds."""
    places = (keys.WEBHOOK_JOBS, keys.WEBHOOK_LATER)
    _call(client, functions.POSTPONE, places, keys.GROUP, entry, job, int(delay_s * 1000))


def wake_postponed(client: Redis, most: int) -> None:
    """Move at most `most` due jobs back to the stream of jobs."""
    _call(client, functions.WAKE_POSTPONED, (keys.WEBHOOK_JOBS, keys.WEBHOOK_LATER), most)


def is_withdrawn(client: Redis, goal_id: str) -> bool:
    """Return whether a newer goal overtook this goal before its job sent it."""
    return client.zscore(keys.WEBHOOK_WITHDRAWN, goal_id) is not None


def _call(client: Redis, function: str, places: tuple[str, ...], *values: Any) -> Any:
    return functions.call_or_load(client, "FCALL", function, len(places), *places, *values)
