"""Faults at every point between a message and its effect, on real processes: nothing is lost, nothing happens twice."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tests.bench import fleet
from tests.conftest import RunningWorker, connect, wait_until
from tests.support.faults import children, hasty_worker, is_stopped
from tests.support.proxy import Proxy, When, running_proxy
from tests.support.recount import Recount, left_over, plans
from worker.client.redis_steps import RedisSteps
from worker.client.steps import Held, call_until_answered
from worker.store import functions, keys
from worker.store.keys import Partition

pytestmark = pytest.mark.outages

HOME = Partition(0)
SILENT_MS = 1500

COMMIT = f"^FCALL {functions.COMMIT} "
WITH_OUTCOMES = {  # what is sent, of how many steps the plan is, and whether the outcome is plain
    "reading outcomes": (r"^XREADGROUP .* planner:\{0\}:outcomes >$", 3, True),
    "begin": (f"^FCALL {functions.BEGIN} ", 3, True),
    "plain commit": (COMMIT, 3, True),
    "plain commit that ends the plan": (COMMIT, 1, True),
    "commit": (COMMIT, 3, False),
}
WITH_GOALS = {
    "reading a goal": r"^XREADGROUP .* planner:goals >$",
    "claiming a goal": r"^FCALL planner_claim_goal",
    "creating a plan": COMMIT,
    "answering a goal": r"^FCALL planner_settle_goal",
    "deleting a goal": r"^XDEL planner:goals ",
    "acknowledging a goal": r"^XACK planner:goals ",
}
on_outcomes = pytest.mark.parametrize(("point", "steps", "is_plain"), WITH_OUTCOMES.values(), ids=WITH_OUTCOMES.keys())
on_goals = pytest.mark.parametrize("point", WITH_GOALS.values(), ids=WITH_GOALS.keys())
on_either_side = pytest.mark.parametrize("when", When, ids=lambda when: when.name.lower())


@dataclass
class Site:
    """A worker behind a proxy, and the server behind that."""

    proxy: Proxy
    worker: RunningWorker
    number: int = 0

    @property
    def redis(self) -> Redis:
        """A client of the server that no fault touches."""
        return self.worker.redis

    def publish(self, steps: int = 3) -> str:
        """Publish a goal of so many steps in a chain; returns its id."""
        self.number += 1
        goal = codec.loads(fleet.goal(self.number, steps)) | {"goal_id": f"fence-{self.number}"}
        self.redis.xadd(keys.GOALS, {"data": codec.dumps(goal)})
        return str(goal["goal_id"])

    def planned(self, goal_id: str) -> str:
        """Wait for the plan of a goal; returns its id."""

        def answered() -> str:
            found: Any = self.redis.hmget(keys.goal_id(goal_id), "verdict", "plan_id")
            return found[1].decode() if found[0] == b"PLANNED" else ""

        return wait_until(answered, what=f"{goal_id} planned")

    def spec(self) -> dict[str, Any]:
        """Take the next step of the only plan that runs."""
        (spec,) = wait_until(self.specs, what="a spec")
        return spec

    def specs(self) -> list[dict[str, Any]]:
        """Read what is new in the queue, if there is one."""
        return fleet.read(self.redis, 10) if self.redis.exists(fleet.QUEUE) else []

    def finish(self, plan_id: str) -> Recount:
        """Answer every step until the plan ends; then nothing may be left, and each step has been applied once."""

        def over() -> bool:
            fleet.answer(self.redis, self.specs())
            return self.redis.hget(HOME.plan(plan_id).plan, "state") == b"COMPLETED"

        wait_until(over, what=f"{plan_id} completed")
        wait_until(lambda: not left_over(self.redis), timeout=60, what="streams are empty")
        found = Recount(self.redis, plan_id)
        assert found.faults() == []
        return found

    def counted(self, verdict: str) -> int:
        """How many outcomes got this verdict."""
        found: Any = self.redis.hget(HOME.stats, verdict)
        return int(found or 0)


def applied(found: Recount) -> list[tuple[str, int]]:
    """List the attempts whose outcome was applied."""
    return [(step, attempt) for step, attempt, outcome, _ in found.ends() if outcome]


def once_each(steps: int) -> list[tuple[str, int]]:
    """What a chain comes to that nothing happened to."""
    return [(f"step-{number:05d}", 1) for number in range(steps)]


def emptied(url: str) -> str:
    """Empty the server for a worker of this module."""
    with connect(url) as client:
        client.flushall()
        client.function_flush()
    return url


@pytest.fixture(scope="module")
def site(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One worker for the module, with a child that does the work: whatever fails it goes on.

    Without owners all work is the child's; what the owner's own thread does is in test_owners.py.
    """
    url = emptied(server_url)
    log = tmp_path_factory.mktemp("fences") / "worker.log"
    with (
        running_proxy(url) as proxy,
        hasty_worker(proxy.url, url, log, "prefork", tasks__SILENT_MS=SILENT_MS, worker__LEASE_MS=1) as worker,
    ):
        yield Site(proxy, worker)


def lingers(redis: Redis) -> bool:
    """Whether a worker waits in a read for entries that may come; it does for some ms after it did something."""
    clients: Any = redis.client_list()
    return any("b" in client["flags"] and client["cmd"] == "xreadgroup" for client in clients)


def strike(site: Site, point: str, when: When, then: Callable[[], None], doing: Callable[[], object]) -> None:
    """Do what leads to `point`, and wait until the fault has happened there."""
    wait_until(lambda: not lingers(site.redis), what="nobody waits for entries: such a read was sent before the trap")
    trap = site.proxy.trap(point, when, then)
    doing()
    assert trap.sprung.wait(60), f"nothing was sent like {re.escape(point)}"


def answer(site: Site, spec: dict[str, Any], *, is_plain: bool) -> None:
    """Report that a step succeeded, in the strict form if the outcome is to be plain."""
    more = {} if is_plain else {"nothing_to_change": ""}
    site.redis.xadd(spec["reply_to"], {"data": codec.dumps({**fleet.outcome(spec), **more})})


def nothing() -> None:
    """Only the connection is lost."""


@on_outcomes
@on_either_side
def test_a_connection_lost_while_an_outcome_is_applied_applies_it_once(
    site: Site, point: str, steps: int, is_plain: bool, when: When
) -> None:
    plan_id = site.planned(site.publish(steps))
    spec = site.spec()

    strike(site, point, when, nothing, lambda: answer(site, spec, is_plain=is_plain))

    assert applied(site.finish(plan_id)) == once_each(steps)


@on_goals
@on_either_side
def test_a_connection_lost_while_a_goal_is_planned_leaves_one_plan(site: Site, point: str, when: When) -> None:
    before = len(plans(site.redis))
    goal_ids: list[str] = []

    strike(site, point, when, nothing, lambda: goal_ids.append(site.publish()))

    plan_id = site.planned(goal_ids[0])
    assert applied(site.finish(plan_id)) == once_each(3)
    assert len(plans(site.redis)) == before + 1


@on_outcomes
@on_either_side
def test_a_worker_killed_while_an_outcome_is_applied_applies_it_once(
    site: Site, point: str, steps: int, is_plain: bool, when: When
) -> None:
    plan_id = site.planned(site.publish(steps))
    spec = site.spec()

    strike(site, point, when, lambda: kill_the_child(site), lambda: answer(site, spec, is_plain=is_plain))

    assert applied(site.finish(plan_id)) == once_each(steps)


@on_goals
@on_either_side
def test_a_worker_killed_while_a_goal_is_planned_leaves_one_plan(site: Site, point: str, when: When) -> None:
    before = len(plans(site.redis))
    goal_ids: list[str] = []

    strike(site, point, when, lambda: kill_the_child(site), lambda: goal_ids.append(site.publish()))

    plan_id = site.planned(goal_ids[0])
    assert applied(site.finish(plan_id)) == once_each(3)
    assert len(plans(site.redis)) == before + 1


@on_either_side
@pytest.mark.parametrize("then", ["lost", "killed"])
def test_a_goals_record_learns_the_end_of_its_plan_whatever_happens_when_it_is_told(
    site: Site, when: When, then: str
) -> None:
    goal_id = site.publish(1)
    plan_id = site.planned(goal_id)
    spec = site.spec()
    fault = nothing if then == "lost" else lambda: kill_the_child(site)

    strike(site, r"^FCALL planner_conclude_goal", when, fault, lambda: fleet.answer(site.redis, [spec]))

    key = keys.goal_id(goal_id)
    wait_until(lambda: site.redis.hget(key, "state") == b"COMPLETED", what="the record has the end")
    goes: Any = site.redis.expiretime(HOME.plan(plan_id).plan)

    def is_confirmed() -> bool:
        return bool(abs(float(site.redis.zscore(HOME.timers, plan_id) or 0) - 1000 * goes) < 120_000)

    wait_until(is_confirmed, what="the timer is the one of being forgotten")


def test_the_recount_sees_an_outcome_applied_twice_a_lost_step_and_a_wrong_counter(site: Site) -> None:
    plan_id = site.planned(site.publish())
    site.finish(plan_id)
    k = HOME.plan(plan_id)
    line: Any = site.redis.lindex(k.log, 0)
    live: Any = site.redis.hget(k.plan, "live")

    site.redis.hset(k.plan, "live", live.replace(b'"spent":{"tokens":', b'"spent":{"tokens":-'))
    assert [fault for fault in Recount(site.redis, plan_id).faults() if fault.startswith("tokens")]
    site.redis.hset(k.plan, "live", live)
    site.redis.hdel(k.status, "step-00001")
    assert [fault for fault in Recount(site.redis, plan_id).faults() if fault.startswith("states")]
    site.redis.rpush(k.log, line)
    assert [fault for fault in Recount(site.redis, plan_id).faults() if fault.startswith("versions")]


def kill_the_child(site: Site) -> None:
    """Kill the process that does the worker's work."""
    for pid in children(site.worker.process.pid):
        os.kill(pid, signal.SIGKILL)


def test_an_outcome_sent_again_after_a_lost_reply_is_applied_once(site: Site, server_url: str) -> None:
    plan_id = site.planned(site.publish())
    spec = site.spec()
    before = site.counted("duplicate") + site.counted("late")
    outcome = {name: spec[name] for name in ("step_id", "plan_id", "attempt", "lease")} | {"success": True}

    held = Held(**{name: spec[name] for name in Held._fields})
    with running_proxy(server_url) as proxy:
        trap = proxy.trap(r"^XADD planner:\{0\}:outcomes")
        with closing(RedisSteps(proxy.url, ["default"], 1, "ctl-1", "ctl-1", Event())) as steps:
            call_until_answered(lambda: steps.publish(held, codec.dumps(outcome)), Event())

    assert trap.sprung.is_set()
    assert applied(site.finish(plan_id)) == once_each(3)
    wait_until(lambda: site.counted("duplicate") + site.counted("late") == before + 1, what="the second one counted")


def test_a_controller_whose_attempt_has_ended_is_late_and_changes_nothing(site: Site) -> None:
    plan_id = site.planned(site.publish())
    spec = site.spec()
    functions.call(site.redis, "FCALL", "planner_heartbeat", 1, spec["lease_key"], 1, spec["lease"], "ctl-1")
    again = wait_until(site.spec, what="another attempt, since the first is silent")
    before, version = site.counted("late"), Recount(site.redis, plan_id).version

    fleet.answer(site.redis, [spec])

    wait_until(lambda: site.counted("late") == before + 1, what="counted as late")
    found = Recount(site.redis, plan_id)
    assert (found.version, again["attempt"]) == (version, 2)
    fleet.answer(site.redis, [again])
    assert applied(site.finish(plan_id)) == [("step-00000", 2), *once_each(3)[1:]]


@pytest.mark.parametrize("pool", ["solo", "prefork"])
def test_a_worker_that_was_stopped_past_its_lock_cannot_write(
    site: Site, server_url: str, tmp_path: Path, pool: str
) -> None:
    plan_id = site.planned(site.publish())
    lock = {"worker__store__plans__LOCK_MS": 1000}
    with stopped(site), hasty_worker(server_url, server_url, tmp_path / "stalls.log", pool, plan_id, **lock) as stalls:
        fleet.answer(site.redis, [site.spec()])
        pid = wait_until(lambda: next(filter(is_stopped, family(stalls)), 0), what="the worker stops itself")
        os.killpg(site.worker.process.pid, signal.SIGCONT)
        wait_until(lambda: applied(Recount(site.redis, plan_id)), what="the other one applies it")
        other = Recount(site.redis, plan_id)

        os.kill(pid, signal.SIGCONT)

        verdicts = wait_until(lambda: stalls.logged("verdicts"), what="its commit is answered")
        assert verdicts[0]["verdicts"] == ["stale"]
        assert Recount(site.redis, plan_id).lines == other.lines
        assert applied(site.finish(plan_id)) == once_each(3)


@contextmanager
def stopped(site: Site) -> Iterator[None]:
    """Keep the worker of the site from doing anything, at the latest until the block ends."""
    os.killpg(site.worker.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.killpg(site.worker.process.pid, signal.SIGCONT)


def family(worker: RunningWorker) -> list[int]:
    """The processes of a worker."""
    return [worker.process.pid, *children(worker.process.pid)]
