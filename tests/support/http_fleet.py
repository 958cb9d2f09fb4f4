"""Controllers that ask a gateway for steps, and report each as a success."""

from __future__ import annotations

import threading
import uuid
from types import TracebackType
from typing import Self

import httpx

from schemas import codec
from tests.bench.fleet import outcome

JSON = {"Content-Type": "application/json"}


class HttpFleet(threading.Thread):
    """Claims steps and reports them, again until each is accepted; it survives a gateway that refuses."""

    def __init__(self, client: httpx.Client) -> None:
        super().__init__(name="http-fleet", daemon=True)
        self._client = client
        self._over = threading.Event()
        self.refusals: list[int] = []  # status of each answer that was not as wanted

    def run(self) -> None:
        """Claim and report until it is stopped."""
        claim_id = uuid.uuid4().hex
        while not self._over.is_set():
            wanted = {"claim_id": claim_id, "queues": ["default"], "controller": "fleet", "max": 20, "wait_s": 1}
            answer = self._client.post("/v1/steps:claim", json=wanted)
            if answer.status_code != httpx.codes.OK:
                self.refusals.append(answer.status_code)
                self._over.wait(0.1)
                continue
            claim_id = uuid.uuid4().hex
            for spec in answer.json()["steps"]:
                self._report(outcome(spec))

    def _report(self, done: dict[str, object]) -> None:
        while not self._over.is_set():
            answer = self._client.post("/v1/outcomes", content=codec.dumps(done), headers=JSON)
            if answer.status_code == httpx.codes.ACCEPTED:
                return
            self.refusals.append(answer.status_code)
            self._over.wait(0.1)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self.join(10)
