"""Workers that are killed between a decision about files of a repository and the reply to its commit.

Whether the commit was written or not, another worker goes on: no two plans work on one file at once, every plan ends,
and nobody claims anything afterwards.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tests.bench import fleet
from tests.conftest import connect, wait_until
from tests.support import launch
from tests.support.engine import a_goal
from tests.support.faults import HASTE, kill, spawn
from tests.support.messages import publish
from tests.support.proxy import Proxy, When, running_proxy
from tests.support.recount import HOME, Recount, left_over, plans
from tests.support.shared_files import shared_files
from worker.store import functions, keys

pytestmark = pytest.mark.outages

FILE = "src/f0.py"
COMMIT = f"^FCALL {functions.COMMIT} "
DRAFT = {"summary": "As asked", "steps": [{"id": "do", "title": "Do it", "intent": "Do it", "files": [FILE]}]}
ADDS = {"steps": None, "drafter": "queue", "kind": "task"}

Act = Callable[[], object]


class Site:
    """A server, a worker that reaches it through a proxy, and the fleet."""

    def __init__(self, redis: Redis, proxy: Proxy) -> None:
        self.redis, self.proxy, self.goals = redis, proxy, 0
        self.specs: dict[str, dict[str, Any]] = {}  # the newest of each plan

    def send(self, **more: Any) -> str:
        """Publish a goal that wants the file; returns its id."""
        self.goals += 1
        name = f"g-{self.goals}"
        shop = {"overlap": "wait", "context": {"repo": "acme/shop"}, "queue": "default"}
        goal = {**a_goal(1), "goal_id": name, **shop, **more}
        publish(self.redis, {field: value for field, value in goal.items() if value is not None})
        return name

    def plan(self, **more: Any) -> str:
        """Publish such a goal, and wait for its plan."""
        key = keys.goal_id(self.send(**more))
        wait_until(lambda: self.redis.hget(key, "verdict") == b"PLANNED", timeout=60, what="a plan")
        found: Any = self.redis.hget(key, "plan_id")
        return str(found.decode())

    def spec_of(self, plan_id: str) -> dict[str, Any]:
        """Wait until a step of the plan is handed out."""

        def found() -> bool:
            read = fleet.read(self.redis, 10) if self.redis.exists(fleet.QUEUE) else []
            self.specs |= {spec["plan_id"]: spec for spec in read}
            return plan_id in self.specs

        wait_until(found, timeout=60, what=f"a step of {plan_id}")
        return self.specs.pop(plan_id)

    def answer(self, spec: dict[str, Any], **said: Any) -> None:
        """Report a success; of a step that drafts with the draft."""
        if spec["controller_task_spec"]["type"] == "DRAFT":
            said = {"output": DRAFT, **said}
        self.redis.xadd(spec["reply_to"], {"data": codec.dumps({**fleet.outcome(spec), **said})})

    def cancel(self, plan_id: str) -> None:
        """Have a plan cancelled."""
        command = {"command_id": "c-1", "command": "cancel", "scope": "plan", "plan_id": plan_id, "actor": "ada"}
        self.redis.xadd(HOME.commands, {"data": codec.dumps({**command, "reason": "not today"})})

    def finish(self) -> None:
        """Do what is handed out until every plan has ended."""

        def over() -> bool:
            read = fleet.read(self.redis, 10) if self.redis.exists(fleet.QUEUE) else []
            for spec in (*self.specs.values(), *read):
                self.answer(spec)
            self.specs.clear()
            states = {self.redis.hget(HOME.plan(plan_id).plan, "state") for plan_id in plans(self.redis)}
            return states <= {b"COMPLETED", b"HALTED"} and not left_over(self.redis)

        wait_until(over, timeout=90, what="every plan has ended")


def claims_at_birth(site: Site) -> tuple[str, Act]:
    site.plan()
    return COMMIT, site.send


def claims_for_steps_that_are_added(site: Site) -> tuple[str, Act]:
    site.plan()
    later = site.plan(**ADDS)
    spec = site.spec_of(later)
    return f"{COMMIT}.*{later}", lambda: site.answer(spec)


def gives_back_at_a_plain_end(site: Site) -> tuple[str, Act]:
    spec = site.spec_of(site.plan())
    site.plan()
    return f"{COMMIT}.*{spec['plan_id']}", lambda: site.answer(spec)


def gives_back_at_an_ordinary_end(site: Site) -> tuple[str, Act]:
    spec = site.spec_of(site.plan())
    site.plan()
    return f"{COMMIT}.*{spec['plan_id']}", lambda: site.answer(spec, nothing_to_change="")


def gives_back_when_it_is_cancelled(site: Site) -> tuple[str, Act]:
    first = site.plan()
    site.plan()
    return f"{COMMIT}.*{first}", lambda: site.cancel(first)


def gives_back_while_it_waits(site: Site) -> tuple[str, Act]:
    site.plan()
    waiting = site.plan()
    site.plan()
    return f"{COMMIT}.*{waiting}", lambda: site.cancel(waiting)


def takes_what_it_waited_for(site: Site) -> tuple[str, Act]:
    spec = site.spec_of(site.plan())
    later = site.plan()
    return f"{COMMIT}.*{later}", lambda: site.answer(spec)


POINTS = (
    claims_at_birth,
    claims_for_steps_that_are_added,
    gives_back_at_a_plain_end,
    gives_back_at_an_ordinary_end,
    gives_back_when_it_is_cancelled,
    gives_back_while_it_waits,
    takes_what_it_waited_for,
)


@contextmanager
def working(url: str, broker: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker until the block ends, unless it is killed before."""
    process = spawn(launch.command(HASTE), url, log, PLANNER_BROKER_URL=broker, PLANNER_DRAFTERS="none,queue")
    try:
        yield process
    finally:
        kill(process)


@pytest.mark.parametrize(
    "when", [pytest.param(When.BEFORE, marks=pytest.mark.long), When.AFTER], ids=["before", "after"]
)
@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.__name__)
def test_whoever_dies_at_a_claim_leaves_no_file_to_two_plans_and_none_to_nobody(
    point: Callable[[Site], tuple[str, Act]], when: When, redis_url: str, tmp_path: Path
) -> None:
    with running_proxy(redis_url) as proxy, connect(redis_url) as redis:
        site = Site(redis, proxy)
        with working(proxy.url, redis_url, tmp_path / "first.log") as first:
            pattern, act = point(site)
            trap = proxy.trap(pattern, when, lambda: kill(first))
            act()
            assert trap.sprung.wait(60), "the commit was never sent"
        with working(redis_url, redis_url, tmp_path / "second.log"):
            site.plan()  # which wants the file, too
            site.finish()

        assert shared_files(redis) >= 1, "somebody waited"
        assert list(redis.scan_iter("planner:{0}:claims*")) == []
        assert [Recount(redis, plan_id).faults() for plan_id in plans(redis)] == [[]] * site.goals
