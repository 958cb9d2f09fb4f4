"""The fleet as the server shows it: the queues of step specs and the controllers that read them."""

from __future__ import annotations

from typing import Any, Literal

from schemas.base import Outbound


class QueueView(Outbound):
    """A line of `planner queues --json`: a queue of step specs, over all partitions.

    A controller has read `claimed` entries, and none has read `waiting` ones. `readers` is the number of controllers
    that asked within the last minute, or have an entry. `oldest_ms` is the age of the oldest entry, null if there is
    none. `paused_by` has the person and the reason of a pause.
    """

    queue: str
    length: int
    waiting: int
    claimed: int
    readers: int
    oldest_ms: int | None
    paused_by: str | None = None


class StepInHand(Outbound):
    """A step that a controller works on, since when, and its last heartbeat; null where it has sent none."""

    plan_id: str
    step_id: str
    attempt: int
    since: str | None
    heartbeat_at: str | None


class ControllerView(Outbound):
    """A line of `planner controllers --json`: a controller, its queues, and its work.

    `idle_ms` is the time since its last request for work. `info` has its own facts from heartbeats, such as version,
    host and abilities; null if it sends none. An idle controller shows those of an attempt of today or yesterday.
    `seen_at` is the time of its last request or heartbeat. A controller that is silent for twice the time between two
    heartbeats is `gone`. `done` and `failed` count the attempts that it claimed and that ended today or yesterday
    (UTC). Controllers in one program share one count.
    """

    name: str
    queues: tuple[str, ...]
    idle_ms: int
    steps: tuple[StepInHand, ...]
    info: dict[str, Any] | None
    state: Literal["working", "idle", "gone"] = "idle"
    seen_at: str | None = None
    done: int = 0
    failed: int = 0


class DayBudgetView(Outbound):
    """The tokens that a tenant or a repository may use on this day (UTC), and those that its plans used or hold."""

    scope: str
    tenant: str | None
    repo: str | None
    limit: int
    spent: int
    resets_at: str
