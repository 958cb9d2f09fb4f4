"""Steps over HTTP: claims, renews and reports them at a gateway."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from threading import Event
from typing import Any

from schemas import codec
from schemas.attachment import Kind
from schemas.envelope import DATA
from worker.client.http_link import GatewayLink
from worker.client.steps import Beat, Held, StepEntry
from worker.client.trouble import Trouble
from worker.store import sent_attachments
from worker.telemetry import tracing

WAIT_S = 5  # maximum time that a gateway waits for a step, and maximum delay of a signal
ROUTE = "/v1/steps:claim"


class HttpSteps:
    """The steps that a gateway gives to `controller`. A claim without a response is repeated with the same id."""

    def __init__(self, link: GatewayLink, queues: Sequence[str], controller: str, stop: Event) -> None:
        self._link, self._queues, self._controller, self._stop = link, list(queues), controller, stop
        self._claim_id = ""  # of a claim that was not answered yet
        self._extra: deque[StepEntry] = deque()

    def check(self) -> None:
        """Raise Trouble unless the gateway answers and is ready."""
        self._link.get("/readyz")

    def receive(self) -> StepEntry | None:
        """Claim a step and return it; None if the gateway has none for a while, or if the controller stops."""
        if self._extra:
            return self._extra.popleft()
        self._claim_id = self._claim_id or uuid.uuid4().hex
        wanted = {
            "claim_id": self._claim_id,
            "queues": self._queues,
            "controller": self._controller,
            "max": 1,
            "wait_s": WAIT_S,
        }
        said = self._link.ask("POST", ROUTE, data=codec.dumps(wanted), wait_s=WAIT_S)
        claim_id, self._claim_id = self._claim_id, ""
        if self._stop.is_set():
            self._hand_back(said["steps"])
            return None
        self._extra += (StepEntry(ROUTE, claim_id.encode(), {DATA: codec.dumps(spec)}) for spec in said["steps"])
        return self._extra.popleft() if self._extra else None

    def _hand_back(self, steps: Sequence[Any]) -> None:
        """Return steps that arrived too late for this controller, so that others do them."""
        for spec in steps:
            ours = {name: spec[name] for name in ("plan_id", "step_id", "attempt", "lease")}
            said = {**ours, "success": False, "released": {"reason": "the controller ends", "kind": "host"}}
            with suppress(Trouble):
                self._link.ask("POST", "/v1/outcomes", data=codec.dumps({**said, "controller": self._controller}))

    def beat(self, held: Held, info: bytes, tool_calls: int | None = None) -> Beat:
        """Renew the claim on an attempt, and return the gateway's answer."""
        counted = {} if tool_calls is None else {"tool_calls": tool_calls}
        step = {**held.ids, "lease": held.lease, **counted}
        wanted = {"controller": self._controller, "info": codec.loads(info), "steps": [step]}
        said = self._link.ask("POST", "/v1/steps:heartbeat", data=codec.dumps(wanted))
        found = said["steps"][0]
        return Beat(found["action"], int(found.get("lease_ttl_ms") or 0))

    def attach(self, held: Held, content: bytes, kind: Kind = "diff") -> None:
        """Submit an attachment of an attempt."""
        data = sent_attachments.message(held.plan_id, held.step_id, held.attempt, content, kind)
        self._link.ask("POST", "/v1/attachments", data=data, headers={"Planner-Lease": held.lease})

    def publish(self, held: Held, data: bytes) -> None:  # noqa: ARG002 (the outcome says whose it is)
        """Submit an outcome."""
        trace = tracing.traceparent()  # only of our own span: the outcome has the rest
        self._link.ask("POST", "/v1/outcomes", data=data, headers={"traceparent": trace} if trace else None)

    def acknowledge(self, entry: StepEntry) -> None:
        """Do nothing: a gateway acknowledges a step when its attempt ends."""

    def close(self) -> None:
        """Close the connections."""
        self._link.close()
