"""Events of the planner on `planner:{p}:events` (CloudEvents 1.0)."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import Field

from schemas.base import Outbound

EVENT_PREFIX = "dev.planner."
EVENT_SUFFIX = ".v1"


class EventData(Outbound):
    """The data of an event; the entry's field `type` names the event. Missing fields are left out, not null.

    A type is `dev.planner.<goal|plan|step|outcome|budget|command>.<what>.v1`.
    """

    plan_id: str | None = None
    goal_id: str | None = None
    tenant: str | None = None
    repo: str | None = None
    step_id: str | None = None
    attempt: int | None = None
    from_: str | None = Field(default=None, alias="from")
    to: str | None = None
    kind: str | None = None
    verdict: str | None = None
    reason: str | None = None
    revision: int | None = None
    rule: str | None = None
    policy_version: int | None = None
    diff: dict[str, Any] | None = None
    value: int | None = None
    limit: int | None = None
    limit_name: str | None = None
    events: tuple[dict[str, Any], ...] | None = None
    unblock: str | None = None
    budget: str | None = None
    scope: str | None = None
    spent: int | None = None
    until: str | None = None
    command_id: str | None = None
    signature: str | None = None
    command: str | None = None
    entry: str | None = None
    actor: str | None = None
    count: int | None = None
    figures: dict[str, dict[str, int]] | None = None
    files: tuple[str, ...] | None = None
    verified: bool | None = None
    phase: str | None = None
    status: str | None = None
    questions: tuple[str, ...] | None = None
    classes: tuple[str, ...] | None = None
    pointers: tuple[str, ...] | None = None
    nearest: tuple[str | None, ...] | None = None
    branch: str | None = None
    pull_request: str | None = None
    overlap: str | None = None
    overlaps: tuple[dict[str, Any], ...] | None = None
    action: str | None = None
    counts: dict[str, int] | None = None
    places: tuple[dict[str, Any], ...] | None = None
    head: str | None = None
    lines: int | None = None
    at: str


@cache
def event_type(what: str) -> str:
    """Return the type of the event `what`, such as `step.done`, on the wire."""
    return f"{EVENT_PREFIX}{what}{EVENT_SUFFIX}"
