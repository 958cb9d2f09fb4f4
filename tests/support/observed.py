"""A whole planner as processes, each with its metrics, and actions that change every figure of the dashboard.

It has a Redis server, a prefork worker, a gateway, an exporter, a model, a receiver of callbacks, and controllers that
follow a script.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from cryptography.fernet import Fernet

from schemas import codec
from schemas.api_key import ApiKey, Right
from tests.conftest import RunningWorker, wait_until
from tests.support import drafting, faults, launch, webhooks
from tests.support.engine import a_goal
from tests.support.llm_server import LlmServer, Reply, llm_server
from tests.support.receiver import Receiver, receiving
from tests.support.scripted import HOME, Fleet
from tests.support.servers import Server
from tests.support.webhooks import by_github, workflow_run
from worker.demo.fleet import PLANNER
from worker.host.embedded_server import free_port
from worker.store import api_keys, keys
from worker.store.keys import CONTROLLERS

DAY_TOKENS = 1_000_000  # of a repository; more than any uses but the one that is to
LOST_MS = 2000  # after which a controller that renews no lease is lost
GONE = 410  # after which an endpoint is told nothing more


class Observed:
    """The running planner; each verb makes something happen that an operator would like to see."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._numbers = folder, itertools.count()
        self.ports = {name: free_port() for name in ("worker", "gateway", "exporter")}
        self._server = stack.enter_context(Server(folder / "server"))
        self.url, self.redis = self._server.url, stack.enter_context(self._server.client())
        self.fleet = Fleet(self.redis, "default")
        self.llm: LlmServer = stack.enter_context(llm_server())
        self.receiver: Receiver = stack.enter_context(receiving())
        (folder / "keys").write_bytes(Fernet.generate_key())
        self.environment = {
            **drafting.environment(self.llm),
            "PLANNER_REDIS_URL": self.url,
            "PLANNER_SECRET_FILE": str(folder / "keys"),
            "PLANNER_CALLBACK_ALLOW": "127.0.0.0/8",
            "PLANNER_REPOSITORY_DAY_TOKENS": str(DAY_TOKENS),
            "PLANNER_WEBHOOKS_FILE": str(webhooks.write(folder)),
        }
        worker = [*launch.command({**faults.HASTE, "tasks.SILENT_MS": LOST_MS}, pool="prefork"), "--concurrency", "2"]
        self.worker = self._start(stack, "worker", worker, PLANNER_METRICS_PORT=str(self.ports["worker"]))
        self.gateway, self.exporter = (
            self._start(stack, name, [sys.executable, *PLANNER, name, "--port", str(self.ports[name])])
            for name in ("gateway", "exporter")
        )

    def targets(self) -> dict[str, str]:
        """The addresses that Prometheus scrapes, by the jobs of the example."""
        return {f"planner-{name}": f"127.0.0.1:{port}" for name, port in self.ports.items()}

    def key(self) -> str:
        """Make a key that may read."""
        return api_keys.add(self.redis, ApiKey(key_id=f"{next(self._numbers):012x}", rights=(Right.VIEWER,)))

    def live(self) -> None:
        """Have every common event happen once, as on an ordinary day."""
        self.complete(3)
        self.complete(2, fails="COMPILATION_ERROR")
        self.halt()
        self.lose_a_controller()
        self.send_what_is_not_applied()
        self.hear_a_webhook()
        self.ask_at_the_gateway()
        self.draft()

    def complete(self, steps: int, fails: str = "", **goal: Any) -> None:
        """Bring a plan to its end.

        With `fails`, the first attempt fails with that category, and the step is revised.
        """

        def says(spec: Mapping[str, Any]) -> dict[str, Any]:
            self.claim(spec)
            metrics = {"tokens_used": 900, "input_tokens": 700, "output_tokens": 200, "cached_tokens": 300}
            said = {"metrics": {**metrics, "cost_usd": 0.02, "patch_cycles": 1, "duration_ms": 1200}}
            if fails and spec["attempt"] == 1 and spec["step_id"] == "s-0":
                return {**said, "success": False, "failure_evidence": {"category": fails}}
            return {**said, "touched_files": spec["allowed_files"][:1]}

        assert self._end(a_goal(steps, **goal), says) == "COMPLETED"

    def halt(self, category: str = "TEST_REGRESSION") -> None:
        """Have a plan halted: by `cannot_revise`, or at once where the category is grave."""
        goal = a_goal(2)
        goal["steps"][0]["retry_limit"] = 0
        evidence = {"success": False, "failure_evidence": {"category": category}}
        assert self._end(goal, lambda _: evidence) == "HALTED"

    def lose_a_controller(self) -> None:
        """Have a controller claim an attempt and be heard of no more; another one does the step."""
        fleet = Fleet(self.redis, "gpu")
        _, plan_id = fleet.submit(a_goal(1))
        ((_, ((_, fields),)),) = self.redis.xreadgroup(CONTROLLERS, "lost", {HOME.steps("gpu"): ">"})
        self.claim(codec.loads(fields[b"data"]))
        wait_until(lambda: fleet.view(plan_id).steps[0].attempt == 2, what="tried again")
        assert fleet.work(plan_id, lambda _: {}).state == "COMPLETED"

    def break_out(self) -> None:
        """Have attempts break out of their sandboxes."""
        for _ in range(6):
            self.halt("SANDBOX_VIOLATION")

    def send_what_is_not_applied(self) -> None:
        """Report the last outcome again, and an outcome of no plan."""
        spec = self.fleet.specs[-1]
        self.fleet.answer(spec, {})
        self.fleet.answer({**spec, "plan_id": "plan_00-" + "0" * 32}, {})
        wait_until(lambda: not self.redis.xlen(HOME.outcomes), what="outcomes are read")

    def leave_dead(self) -> None:
        """Publish a goal that cannot be read."""
        before = self.redis.xlen(keys.GOALS_DEAD)
        self.redis.xadd(keys.GOALS, {"data": "{"})
        wait_until(lambda: self.redis.xlen(keys.GOALS_DEAD) > before, what="dead")

    def hear_a_webhook(self) -> None:
        """Deliver a webhook, deliver it again, then deliver one with a wrong signature."""
        run = workflow_run(id=next(self._numbers))
        headers, body = by_github("workflow_run", run, f"d-{next(self._numbers)}")
        wrong = headers | {"x-hub-signature-256": "sha256=00"}
        answers = [self.http("POST", "/v1/webhooks/github", content=body, headers=h) for h in (headers, headers, wrong)]
        assert [each.status_code for each in answers] == [202, 202, 401]

    def ask_at_the_gateway(self) -> None:
        """Read plans with a key, and without one."""
        shown = {"Authorization": f"Bearer {self.key()}"}
        answers = [self.http("GET", "/v1/plans", headers=headers) for headers in (shown, {})]
        assert [each.status_code for each in answers] == [200, 401]

    def draft(self) -> None:
        """Have a model draft a plan, and complete that."""
        self.llm.script[:] = [Reply(codec.dumps(drafting.PLAN).decode(), tokens=(700, 77))]
        assert self._end(drafting.a_goal(), drafting.passing) == "COMPLETED"

    def tell_nobody(self) -> None:
        """Have callbacks given up, because their receiver answers that it is gone."""
        self.receiver.answers[:] = [(GONE, {})]
        self.complete(1)
        wait_until(lambda: self.redis.hlen(keys.ENDPOINTS_OFF), what="the endpoint is disabled")

    def want_a_reader(self) -> None:
        """Hand out a step to a queue that has no reader."""
        assert Fleet(self.redis, "nobody").submit(a_goal(1))[0] == "PLANNED"

    def use_up_a_day(self) -> None:
        """Have a repository's plan use more than a day's budget in one attempt, and have more to do."""
        goal = a_goal(2, context={"repo": "acme/spender"})
        _, plan_id = self.fleet.submit(goal)
        used = {"metrics": {"tokens_used": 2 * DAY_TOKENS}}
        self.fleet.work(plan_id, lambda _: used, until=lambda view: view.counts.get("DONE") == 1)

    def stall(self) -> None:
        """Have the worker stand still while a step waits for its next attempt."""
        _, plan_id = self.fleet.submit(a_goal(1))
        failure = {"success": False, "failure_evidence": {"category": "TEST_TIMEOUT"}}
        self.fleet.work(plan_id, lambda _: failure, until=lambda view: view.counts.get("PENDING") == 1)
        os.killpg(self.worker.process.pid, signal.SIGSTOP)

    def lose_the_gateway(self) -> None:
        """Kill the gateway."""
        faults.kill(self.gateway.process)

    def lose_redis(self) -> None:
        """Kill the server."""
        self._server.kill()

    def answers(self) -> bool:
        """Return whether the gateway answers."""
        with suppress(httpx.TransportError):
            return self.http("GET", "/healthz").status_code == 200
        return False

    def hear_callbacks(self) -> None:
        """Add an endpoint, as an operator does; it hears of all plans."""
        command = [sys.executable, *PLANNER, "endpoints", "add", self.receiver.url]
        subprocess.run(command, env={**os.environ, **self.environment}, check=True, capture_output=True, timeout=60)

    def http(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Ask the gateway."""
        return httpx.request(method, f"http://127.0.0.1:{self.ports['gateway']}{path}", timeout=30, **request)

    def claim(self, spec: Mapping[str, Any]) -> None:
        """Claim an attempt, as a controller does before it begins."""
        self.redis.fcall("planner_heartbeat", 1, spec["lease_key"], spec["attempt"], spec["lease"], "scripted")

    def _end(self, goal: Mapping[str, Any], says: Any) -> str:
        _, plan_id = self.fleet.submit(goal, 60.0)  # to import what speaks to models takes a while, once
        return str(self.fleet.work(plan_id, says).state)

    def _start(self, stack: ExitStack, name: str, command: list[str], **more: str) -> RunningWorker:
        log = self.folder / f"{name}.log"
        process = faults.spawn(command, self.url, log, **self.environment, **more)
        stack.callback(faults.kill, process)
        return RunningWorker(self.url, self.redis, process, log)


@contextmanager
def observed(folder: Path) -> Iterator[Observed]:
    """Run it until the block ends, from when the worker consumes and the gateway answers."""
    with ExitStack() as stack:
        run = Observed(folder, stack)
        wait_until(lambda: faults.consumes(run.worker), 60, "worker consumes")
        wait_until(run.answers, 60, "gateway answers")
        run.hear_callbacks()
        yield run


# What fires each alert, in an order in which none hinders those after it.
FAULTS: tuple[tuple[Callable[[Observed], None], frozenset[str]], ...] = (
    (Observed.leave_dead, frozenset({"PlannerDeadEntries"})),
    (Observed.break_out, frozenset({"PlannerSecurityHalt", "PlannerHaltsRising"})),
    (Observed.want_a_reader, frozenset({"PlannerQueueWithoutReaders"})),
    (Observed.use_up_a_day, frozenset({"PlannerDayBudgetGone"})),
    (Observed.tell_nobody, frozenset({"PlannerCallbacksGivenUp"})),
    (Observed.stall, frozenset({"PlannerWorkerDown", "PlannerNoWorker", "PlannerSweepLag"})),
    (Observed.lose_the_gateway, frozenset({"PlannerDoorDown"})),
    (Observed.lose_redis, frozenset({"PlannerStateUnknown"})),
)
