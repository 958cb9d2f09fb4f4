"""Who works and who waits: the queues of step specs and the controllers that read them, as the server shows them."""

from __future__ import annotations

from typing import Any, Literal

from schemas.base import Outbound


class QueueView(Outbound):
    """A line of `planner queues --json`: a queue of step specs, over all partitions.

    `claimed` entries were read by a controller, `waiting` ones by nobody yet. `readers` asked within the last minute,
    or hold an entry. `oldest_ms` is the age of the oldest entry, null where there is none. `paused_by` says by whom and
    why no step of it is handed out.
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
    """A line of `planner controllers --json`: a controller, what it reads, and what it works on.

    `idle_ms` is the time since it last asked for work. `info` is what it says of itself with its heartbeats, such as
    version, host and abilities; null where it says nothing.
    `seen_at` is when it last asked for work or sent a heartbeat; one that is silent for twice the time between two
    heartbeats is `gone`. `done` and `failed` are how many of the attempts that it claimed ended so today and yesterday
    (UTC), as the planner counts them; those that work side by side in one program have one count together.
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
    """The tokens that a tenant or a repository may use on this day (UTC), and what its plans have used or hold."""

    scope: str
    tenant: str | None
    repo: str | None
    limit: int
    spent: int
    resets_at: str
