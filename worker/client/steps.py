"""The interface of a planner for controllers: steps, heartbeats, and outcomes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event
from typing import NamedTuple, Protocol, TypeVar

from schemas.attachment import Kind
from worker.client.trouble import Away, Refused, Trouble
from worker.sandbox.process import Abandoned

log = logging.getLogger("planner.controller")
T = TypeVar("T")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class StepEntry:
    """A step spec that is pending for us until we acknowledge it; without fields if the planner deleted it."""

    stream: str
    id: bytes
    fields: Mapping[bytes, bytes]

    @property
    def key(self) -> tuple[str, bytes]:
        """The stream and the id, which identify the entry."""
        return self.stream, self.id


class Held(NamedTuple):
    """An attempt that a controller has claimed or is about to claim, by the fields of its spec."""

    plan_id: str
    step_id: str
    attempt: int
    lease: str
    lease_key: str
    reply_to: str

    @property
    def ids(self) -> dict[str, str | int]:
        """The ids of the attempt, without its lease, which is a secret and must not be logged."""
        return {"plan_id": self.plan_id, "step_id": self.step_id, "attempt": self.attempt}


class Beat(NamedTuple):
    """The planner's answer to a heartbeat."""

    action: str
    lease_ttl_ms: int


class Steps(Protocol):
    """The steps of a controller's queues. Every method may raise Trouble; it may be called again afterwards."""

    def check(self) -> None:
        """Check that this planner fits the controller. Raises Refused if it does not."""

    def receive(self) -> StepEntry | None:
        """Return the next step; None if there is none for a while. A step whose reply was lost is returned again."""

    def beat(self, held: Held, info: bytes, tool_calls: int | None = None) -> Beat | None:
        """Claim an attempt or renew its claim; None if this planner has no heartbeats.

        `tool_calls` is the attempt's number of tool calls so far; None if they are not counted.
        """

    def attach(self, held: Held, content: bytes, kind: Kind = "diff") -> None:
        """Submit the diff of an attempt or its transcript, before its outcome."""

    def publish(self, held: Held, data: bytes) -> None:
        """Submit an outcome, which a planner applies once, even if it arrives repeatedly."""

    def acknowledge(self, entry: StepEntry) -> None:
        """Acknowledge a step."""

    def close(self) -> None:
        """Leave the queues."""


def call_until_answered(call: Callable[[], T], stop: Event) -> T:
    """Return the result of `call`, which is repeated during an outage. Raises Refused, and Abandoned on `stop`."""
    pause = FIRST_PAUSE_S
    while True:
        try:
            return call()
        except Refused:
            raise
        except Trouble as trouble:
            tell(trouble)
            wait_s = max(pause, trouble.retry_after_s if isinstance(trouble, Away) else 0.0)
        if stop.wait(wait_s):
            raise Abandoned("shutdown")
        pause = min(pause * 2, LONGEST_PAUSE_S)


def tell(trouble: Trouble) -> None:
    """Log that a planner does not answer for now."""
    why = trouble.why if isinstance(trouble, Away) else str(trouble)
    log.warning(trouble.event, extra={"error": why})
