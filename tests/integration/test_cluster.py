"""A planner on a real cluster of servers: plans end in all partitions, also while masters die and slots move."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis
from redis.exceptions import RedisError

from schemas.api_key import Right
from schemas.stored import StepStatus
from tests.bench import fleet
from tests.conftest import RunningWorker, running_worker, wait_until
from tests.support.cluster import Cluster
from tests.support.event_reading import tell
from tests.support.gateway import Gateway, running_gateway
from tests.support.http_fleet import HttpFleet
from worker.gateway import event_hub
from worker.gateway.event_hub import EventHub, Subscription
from worker.gateway.event_streams import Event
from worker.host import embedded_server
from worker.process.launch import worker_command
from worker.store import claims, history, queries
from worker.store.keys import API_KEYS, GOALS, POLICIES_CURRENT, Partition, partition_of

pytestmark = pytest.mark.outages

PARTITIONS = 6
STEPS = 4
END = itemgetter("result", "category", "reason")  # of an attempt in a story
JSON = {"Content-Type": "application/json"}
COMMAND = [sys.executable, "-c", "from worker.cli.commands.app import main; main()"]


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster with a worker and a gateway."""

    cluster: Cluster
    redis: Redis
    worker: RunningWorker
    gateway: Gateway
    http: httpx.Client

    def submit(self, first: int, count: int) -> None:
        """Submit goals over HTTP, each again until it is accepted."""
        for number in range(first, first + count):
            wait_until(partial(self._post, goal(number)), 60, "goal accepted")

    def _post(self, body: bytes) -> bool:
        answer = self.http.post("/v1/goals", content=body, headers=JSON)
        assert answer.is_success or answer.status_code == httpx.codes.SERVICE_UNAVAILABLE, answer.text
        return answer.is_success

    def plan_of(self, number: int) -> str | None:
        """Return the plan of a goal; None while it has none, or its record cannot be read."""
        with suppress(RedisError):
            found = queries.goal(self.redis, goal_id(number))
            return found.plan_id if found and found.verdict == "PLANNED" else None
        return None

    def state(self, plan_id: str) -> str:
        """Return the state of a plan; empty while it cannot be read."""
        with suppress(RedisError):
            found: Any = self.redis.hget(home(plan_id).plan(plan_id).plan, "state")
            return found.decode() if found else ""
        return ""

    def have_ended(self, first: int, count: int) -> bool:
        """Return whether these goals have plans that completed."""
        plans = [self.plan_of(number) for number in range(first, first + count)]
        return all(plan and self.state(plan) == "COMPLETED" for plan in plans)

    def check(self, first: int, count: int, *, may_be_lost: bool = False) -> None:
        """Check that these goals have one plan each, in which each step was done by its first attempt.

        `may_be_lost`: a step may have another attempt after one that reached no controller, or whose lease ended.
        """
        plans = [self.plan_of(number) for number in range(first, first + count)]
        assert None not in plans
        assert len(set(plans)) == count
        for plan in plans:
            assert plan
            found: Any = self.redis.hvals(home(plan).plan(plan).status)
            done = Counter((status.state, status.attempt) for status in map(StepStatus.decode, found))
            if not may_be_lost:
                assert done == {("DONE", 1): STEPS}, plan
            story = history.story(self.redis, home(plan).plan(plan))
            ends = {step: [END(each) for each in attempts] for step, attempts in story.items()}
            assert [attempts[-1][0] for attempts in ends.values()] == STEPS * ["DONE"], ends
            assert all(is_lost(*end) for attempts in ends.values() for end in attempts[:-1]), ends


def is_lost(result: str, category: str | None, reason: str | None) -> bool:
    """Return whether an attempt ended without a report of a controller."""
    return category == "LEASE_EXPIRED" or (result, reason) == ("RELEASED", claims.UNDELIVERED)


def goal(number: int) -> bytes:
    return fleet.goal(number, STEPS)


def goal_id(number: int) -> str:
    return f"bench-{STEPS}-{number}"


def home(plan_id: str) -> Partition:
    return Partition(partition_of(plan_id, PARTITIONS))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster") as made:
        yield made


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Iterator[Site]:
    environment = {"PLANNER_PARTITIONS": str(PARTITIONS), "PLANNER_REDIS_URL": cluster.url}
    log = tmp_path / "worker.log"
    with (
        embedded_server.valkey(tmp_path / "broker") as broker,
        running_worker(cluster.url, log, "prefork", PLANNER_BROKER_URL=broker, **environment) as worker,
        running_gateway(cluster.url, partitions=PARTITIONS, may_fail=True) as gateway,
        cluster.client() as redis,
        HttpFleet(gateway.client(Right.CONTROLLER, queues=("default",))),
    ):
        yield Site(cluster, redis, worker, gateway, gateway.client(Right.PRODUCER, Right.VIEWER))


def planner(url: str, *words: str) -> Any:
    """Run a command of the planner; return what it says as JSON."""
    environment = {"PLANNER_REDIS_URL": url, "PLANNER_PARTITIONS": str(PARTITIONS), "PATH": "/usr/bin:/bin"}
    command = [*COMMAND, *words, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
    return json.loads(done.stdout)


def test_plans_of_all_partitions_end(site: Site) -> None:
    site.submit(0, 30)

    wait_until(lambda: site.have_ended(0, 30), 90, "plans end")

    site.check(0, 30)
    plans = [site.plan_of(number) for number in range(30)]
    assert {partition_of(plan, PARTITIONS) for plan in plans if plan} == set(range(PARTITIONS))
    servers = {site.cluster.master_of(Partition(number).plans).port for number in range(PARTITIONS)}
    assert len(servers) == 3
    assert planner(site.cluster.url, "show", str(plans[0]))["state"] == "COMPLETED"
    assert len(planner(site.cluster.url, "plans", "--limit", "100")) == 30
    assert planner(site.cluster.url, "queues")
    assert site.http.get(f"/v1/plans/{plans[1]}").json()["state"] == "COMPLETED"
    assert site.worker.logged("store away") == []


def test_a_master_that_dies_loses_no_step(site: Site) -> None:
    site.submit(0, 20)
    wait_until(lambda: any(site.plan_of(number) for number in range(20)), 60, "some plans are made")

    site.cluster.master_of(Partition(0).plans).kill()
    site.submit(20, 20)

    wait_until(lambda: site.have_ended(0, 40), 120, "plans end")
    site.check(0, 40)
    wait_until(lambda: site.worker.logged("store back"), 60, "every thread has found the next master")


@pytest.mark.long
def test_a_master_that_hangs_is_replaced(site: Site) -> None:
    site.submit(0, 20)
    wait_until(lambda: any(site.plan_of(number) for number in range(20)), 60, "some plans are made")

    with site.cluster.master_of(Partition(1).plans).stalled():
        site.submit(20, 10)

        wait_until(lambda: site.have_ended(0, 30), 120, "plans end")
    site.check(0, 30, may_be_lost=True)


@pytest.mark.long
def test_slots_move_under_load_and_one_stays_on_its_way(site: Site) -> None:
    cluster, moved, halfway = site.cluster, Partition(2).plans, Partition(3).plans
    site.submit(0, 30)
    wait_until(lambda: any(site.plan_of(number) for number in range(30)), 60, "some plans are made")

    target = next(node for node in cluster.masters if node is not cluster.master_of(moved))
    cluster.move(moved, target)
    target = next(node for node in cluster.masters if node is not cluster.master_of(halfway))
    cluster.move(halfway, target, part=3)  # the keys that are made meanwhile stay where the slot comes from
    site.submit(30, 20)
    others = [number for number in range(50) if partition_of(str(wait_for_plan(site, number)), PARTITIONS) != 3]
    wait_until(lambda: all(site.have_ended(number, 1) for number in others), 120, "plans of other partitions end")

    cluster.move(halfway, target)

    wait_until(lambda: site.have_ended(0, 50), 120, "all plans end")
    site.check(0, 50)


def wait_for_plan(site: Site, number: int) -> str:
    found = wait_until(lambda: queries.goal(site.redis, goal_id(number)), 60, "the goal has a record")
    assert found
    return found.plan_id


@pytest.mark.long
def test_partitions_go_on_without_the_server_of_another_one(tmp_path: Path) -> None:
    with (
        Cluster(tmp_path / "cluster", replicas=False) as cluster,
        embedded_server.valkey(tmp_path / "broker") as broker,
    ):
        environment = {"PLANNER_PARTITIONS": str(PARTITIONS), "PLANNER_REDIS_URL": cluster.url}
        dead = cluster.master_of(Partition(0).plans)
        assert dead not in [
            cluster.master_of(key) for key in (GOALS, API_KEYS, POLICIES_CURRENT)
        ]  # each goal needs them
        with (
            running_worker(
                cluster.url, tmp_path / "w.log", "prefork", PLANNER_BROKER_URL=broker, **environment
            ) as worker,
            running_gateway(cluster.url, partitions=PARTITIONS, may_fail=True) as gateway,
            cluster.client() as redis,
        ):
            http = gateway.client(Right.PRODUCER, Right.VIEWER)
            site = Site(cluster, redis, worker, gateway, http)
            site.submit(0, 10)
            wait_until(lambda: all(site.plan_of(number) for number in range(10)), 60, "goals are planned")
            dead.kill()

            site.submit(10, 20)

            wait_until(lambda: made_elsewhere(site, dead, 10, 20), 90, "other goals are planned")
            dead.start()
            wait_until(lambda: all(site.plan_of(number) for number in range(30)), 120, "the rest follows")
            assert len({site.plan_of(number) for number in range(30)}) == 30


def made_elsewhere(site: Site, dead: Any, first: int, count: int) -> bool:
    """Return whether all goals have plans, except those whose plans are to be on a server that is dead."""
    for number in range(first, first + count):
        found = queries.goal(site.redis, goal_id(number))
        if found is None:
            return False
        if found.verdict != "PLANNED" and site.cluster.master_of(home(found.plan_id).plans) is not dead:
            return False
    return True


def test_a_hub_that_starts_while_a_server_is_away_has_the_events_of_the_others(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", replicas=False) as cluster, cluster.client() as redis:
        dead = cluster.master_of(Partition(0).events)
        other = next(number for number in range(PARTITIONS) if cluster.master_of(Partition(number).events) is not dead)
        tell(redis, "plan.ready", partition=0)
        dead.kill()

        async def run() -> None:
            hub = EventHub(cluster.url, PARTITIONS)
            try:
                async with hub.subscribe() as every:
                    tell(redis, "step.ready", partition=other)
                    assert await what(every) == "step.ready"
                    dead.start()
                    await asyncio.to_thread(cluster.wait_for_slots)
                    tell(redis, "plan.done", partition=0)
                    found = [await what(every)]
                    if found == ["rolled_back"]:  # a reader that hears this reads the state again
                        found.append(await what(every))
                    assert found[-1] == "plan.done"
            finally:
                hub.end()
                await asyncio.to_thread(hub.join)

        asyncio.run(run())


@pytest.mark.long
def test_events_come_from_servers_that_are_there(tmp_path: Path) -> None:
    with Cluster(tmp_path / "cluster", replicas=False) as cluster, cluster.client() as redis:
        dead = cluster.master_of(Partition(0).events)
        other = next(number for number in range(PARTITIONS) if cluster.master_of(Partition(number).events) is not dead)

        async def run() -> None:
            hub = EventHub(cluster.url, PARTITIONS)
            try:
                async with hub.subscribe() as every:
                    tell(redis, "plan.ready", partition=0)
                    assert await what(every) == "plan.ready"
                    dead.kill()
                    for _ in range(5):  # the hub looks at all servers meanwhile
                        await asyncio.sleep(event_hub.LOOK_S / 2)
                        tell(redis, "step.ready", partition=other)
                        assert await what(every) == "step.ready"
                    dead.start()
                    await asyncio.to_thread(cluster.wait_for_slots)
                    tell(redis, "plan.done", partition=0)
                    assert await what(every) == "plan.done"
            finally:
                hub.end()
                await asyncio.to_thread(hub.join)

        asyncio.run(run())


async def what(events: Subscription) -> str:
    """Return the next event or gap."""
    item = await events.next(60)
    assert item
    return item.what if isinstance(item, Event) else item.reason


def test_a_start_with_a_wrong_address_says_the_right_one(cluster: Cluster) -> None:
    node = cluster.masters[1]
    plain = start_worker(PLANNER_REDIS_URL=node.url)
    without_broker = start_worker(PLANNER_REDIS_URL=cluster.url)

    assert plain.returncode == 1
    assert f"PLANNER_REDIS_URL=redis+cluster://127.0.0.1:{node.port}" in plain.stderr
    assert without_broker.returncode == 2
    assert "PLANNER_BROKER_URL is missing" in without_broker.stderr


def start_worker(**environment: str) -> subprocess.CompletedProcess[str]:
    """Start a worker that cannot start."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PLANNER_")}
    command = worker_command("solo")
    return subprocess.run(
        command, env={**kept, **environment}, capture_output=True, timeout=300, check=False, text=True
    )
