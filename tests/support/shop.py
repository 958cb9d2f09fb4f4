"""A repository whose plans fail alike, for tests of its breaker: on a real server, decided in this process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from schemas import codec
from tasks.features.breakers.breaker import Breaker, name_pause
from tests.conftest import wait_until
from tests.support.planner import Planner
from worker.store.functions import HEARTBEAT
from worker.store.keys import CONTROLLERS, Partition

HOME = Partition(0)
REPO = "acme/shop"
PROBE_S = 600  # longer than any test: it is over when a test says so
BROKEN = "ImportError: cannot import name 'till' from 'shop'"
STEPS = [{"step_id": "s", "title": "t", "intent": "i", "allowed_files": ["b.py"], "verify": "pytest", "retry_limit": 3}]


class Shop:
    """Plans of a repository, and controllers that do their steps."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.planner = Planner(url, **{"breaker_probe_s": PROBE_S, **settings})
        self.redis: Any = self.planner.client
        self.given: dict[str, list[dict[str, Any]]] = {}

    def submit(self, tenant: str = "default", repo: str | None = REPO, steps: Any = STEPS) -> str:
        return self.planner.submit(
            steps=steps,
            tenant=tenant,
            context={"repo": repo} if repo else {},
            limits={"identical_failures": 50, "consecutive_failures": 50, "patch_cycles": 200, "tokens": 2_000_000},
        )

    def take(self) -> list[dict[str, Any]]:
        """Return the steps that were handed out since the last call."""
        found = self.redis.xreadgroup(CONTROLLERS, "fleet", {HOME.steps("default"): ">"}, count=1000) or []
        return [codec.loads(fields[b"data"]) for _, entries in found for _, fields in entries]

    def fail(self, spec: dict[str, Any], trace: str = BROKEN, category: str = "TEST_REGRESSION") -> None:
        evidence = {"category": category, "stack_trace_head": trace}
        self._report(spec, success=False, tests_passed=False, failure_evidence=evidence)

    def heartbeat(self, spec: dict[str, Any]) -> str:
        """Send a heartbeat for an attempt, as its controller does; return the action that it answers."""
        call = ("FCALL", HEARTBEAT, 1, spec["lease_key"], spec["attempt"], spec["lease"], "fleet")
        action, *_ = self.redis.execute_command(*call)
        return str(action.decode())

    def succeed(self, spec: dict[str, Any]) -> None:
        self._report(spec, success=True, tests_passed=True, touched_files=spec["allowed_files"])

    def _report(self, spec: dict[str, Any], **said: Any) -> None:
        about = {"attempt": spec["attempt"], "lease": spec["lease"]}
        self.planner.report(spec["step_id"], spec["plan_id"], **about, **said)

    def break_base(self, plans: int = 5, **of: Any) -> list[dict[str, Any]]:
        """Have this many plans fail alike, then fail the steps in flight, too; return the steps of these plans."""
        for _ in range(plans):
            self.submit(**of)
        specs = self.take()
        for number, spec in enumerate(specs):
            self.fail(spec, f"{BROKEN} (line {number})")
        for spec in self.take():
            self.fail(spec, f"{BROKEN} (line 9)")
        return specs

    def sweep(self) -> None:
        self.planner.container.context(0).engine.sweep("here")

    def pause(self, tenant: str = "default", repo: str = REPO) -> dict[str, Any] | None:
        """Return the breaker's pause of the repository, or None."""
        raw = self.redis.hget(HOME.scopes, name_pause(tenant, repo))
        found: dict[str, Any] | None = codec.loads(raw) if raw else None
        return found

    def be_due(self) -> None:
        """Make every breaker's next check due now."""
        for series in self.redis.zrange(HOME.breakers_due, 0, -1):
            if raw := self.redis.hget(HOME.breakers, series):
                self.redis.hset(HOME.breakers, series, replace(Breaker.decode(raw), due=1).encode())
            self.redis.zadd(HOME.breakers_due, {series: 1})

    def let_through(self) -> dict[str, Any]:
        """Have the breaker let a step through as soon as possible; check that it is the only one, and return it."""
        found: list[dict[str, Any]] = []

        def looked() -> bool:
            self.be_due()
            self.sweep()
            found.extend(self.take())
            return bool(found)

        wait_until(looked, what="a step is let through")
        self.sweep()
        assert [*found, *self.take()] == found[:1]
        return found[0]

    def told(self, what: str) -> list[dict[str, Any]]:
        kind = f"dev.planner.{what}.v1".encode()
        return [codec.loads(fields[b"data"]) for _, fields in self.redis.xrange(HOME.events) if fields[b"type"] == kind]
