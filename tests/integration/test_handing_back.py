"""Fleets that hand attempts back, on a real server: one broken host halts nothing, ten have their plan halt."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tests.conftest import wait_until
from tests.support.engine import a_goal, drain, plan
from tests.support.messages import answer, report, specs
from tests.support.stored import P0, state
from worker.process.container import Container
from worker.store import functions

pytestmark = pytest.mark.outages

BACK: dict[str, Any] = {"success": False, "touched_files": [], "released": {"reason": "fatal: repository not found"}}


def stored(redis: Redis, plan_id: str, name: str) -> bytes:
    found: Any = redis.hget(P0.plan(plan_id).plan, name)
    return bytes(found)


def play(here: Container, redis: Redis, plan_id: str, hosts: deque[str], broken: frozenset[str]) -> None:
    """Give each attempt to the host at the head, which then goes behind the others, until the plan has ended."""
    leases: set[str] = set()
    steps: set[str] = set()

    def is_over() -> bool:
        here.context(0).engine.sweep("me")
        for spec in specs(redis):
            if spec["lease"] in leases:
                continue
            if spec["step_id"] not in steps and len(broken) == 1:  # the broken host is idle again, and so the first
                (idle,) = broken
                hosts.remove(idle)
                hosts.appendleft(idle)
            steps.add(spec["step_id"])
            leases.add(spec["lease"])
            host = hosts[0]
            hosts.rotate(-1)
            beat = ("FCALL", "planner_heartbeat", 1, spec["lease_key"], spec["attempt"], spec["lease"], host)
            assert functions.call(redis, *beat)[0] == b"continue"
            report(redis, answer(spec, **(BACK if host in broken else {})))
        drain(here)
        return state(redis, plan_id) in ("COMPLETED", "HALTED")

    wait_until(is_over, timeout=60, what="the end of the plan")


def test_one_broken_host_of_fifty_that_is_first_at_every_step_halts_nothing(here: Container, redis: Redis) -> None:
    (plan_id,) = plan(here, redis, a_goal(3))

    play(here, redis, plan_id, deque(f"host-{n}" for n in range(50)), frozenset({"host-7"}))

    live = codec.loads(stored(redis, plan_id, "live"))
    assert state(redis, plan_id) == "COMPLETED"
    assert live["spent"]["failing_outcomes"] == 0
    entries: Any = redis.xrange(P0.events)
    events = [fields[b"type"] for _, fields in entries]
    assert events.count(b"dev.planner.step.released.v1") == 3


def test_ten_hosts_without_the_repository_halt_the_plan_with_their_reasons(here: Container, redis: Redis) -> None:
    (plan_id,) = plan(here, redis, a_goal(2))
    hosts = [f"host-{n}" for n in range(10)]

    play(here, redis, plan_id, deque(hosts), frozenset(hosts))

    halt = codec.loads(stored(redis, plan_id, "halt"))
    assert halt["rule"] == "nobody_can"
    assert halt["reason"].endswith(": fatal: repository not found")  # whoever sent the goal reads this
    told = halt["evidence"]["released"]
    assert len({each["controller"] for each in told}) == 3
    assert {each["reason"] for each in told} == {"fatal: repository not found"}
