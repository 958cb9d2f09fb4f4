"""A fleet over HTTP beside one over Redis, on one queue, while gateways and workers are killed."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from schemas import codec
from schemas.api_key import ApiKey, Right
from tests.bench import fleet
from tests.conftest import wait_until
from tests.support import launch
from tests.support.faults import HASTE, kill, spawn
from tests.support.recount import Recount
from tests.support.servers import ended, publish
from tests.support.stored import QUEUE, plans, step_states
from worker.host.embedded_server import free_port
from worker.store import api_keys
from worker.store.keys import CONTROLLERS

pytestmark = pytest.mark.outages

START = "from worker.start import planner; planner()"
PLANS, STEPS, EACH = 200, 3, 50
ROUNDS = 4  # of a quarter of the plans each; a gateway and a worker are killed in each
PATIENCE_S = 300.0  # a minute on a machine that does nothing else
LOST_S = 10  # until a claim of nobody is over


class Havoc(threading.Thread):
    """Keeps two gateways and two workers up, and kills one after the other."""

    def __init__(self, url: str, place: Path) -> None:
        super().__init__(name="havoc", daemon=True)
        self._url = url
        self._place = place
        self.ports = [free_port(), free_port()]
        self.rounds = 0  # times that all were up; between two of them a gateway and a worker were killed
        self.over = threading.Event()

    def start_gateway(self, port: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", START, "gateway", "--port", str(port)]
        process = spawn(command, self._url, self._place / f"gateway-{port}.log")
        wait_until(lambda: self._is_up(port, process), 60, "gateway")
        return process

    def start_worker(self, number: int) -> subprocess.Popen[bytes]:
        command = launch.command({**HASTE, "tasks.SILENT_MS": LOST_S * 1000})
        state = self._place / f"worker-{number}"
        state.mkdir(exist_ok=True)
        return spawn(command, self._url, state / "worker.log")

    def _is_up(self, port: int, process: subprocess.Popen[bytes]) -> bool:
        assert process.poll() is None, (self._place / f"gateway-{port}.log").read_text()[-2000:]
        with suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
        return False

    def wait(self, rounds: int) -> None:
        """Wait until all are up for so many times."""
        wait_until(lambda: self.rounds >= rounds, PATIENCE_S, f"all are up for {rounds} times")

    def run(self) -> None:
        gateways = [self.start_gateway(port) for port in self.ports]
        workers = [self.start_worker(number) for number in range(2)]
        try:
            for place in cycle((0, 1)):
                self.rounds += 1
                if self.over.wait(2):
                    return
                kill(gateways[place])
                kill(workers[place])
                workers[place] = self.start_worker(place)
                gateways[place] = self.start_gateway(self.ports[place])
        finally:
            for process in (*gateways, *workers):
                kill(process)


class Fleets:
    """Both fleets, in one event loop; `held` tells who was given each attempt."""

    def __init__(self, url: str, urls: list[str], token: str) -> None:
        self._redis = AsyncRedis.from_url(url, max_connections=2 * EACH)
        limits = httpx.Limits(max_connections=None)
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx.AsyncClient(headers=headers, limits=limits, timeout=15)
        self._urls = urls
        self.held: dict[tuple[str, str, int], set[str]] = defaultdict(set)
        self.over = asyncio.Event()

    async def work(self) -> None:
        """Work until told that it is over."""
        controllers = [self._over_http(f"http-{n}") for n in range(EACH)]
        controllers += [self._over_redis(f"redis-{n}") for n in range(EACH)]
        async with self._http, self._redis, asyncio.TaskGroup() as group:
            for each in controllers:
                group.create_task(each)

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Ask one gateway after the other until one answers."""
        while not self.over.is_set():
            with suppress(httpx.TransportError):
                answer = await self._http.post(random.choice(self._urls) + path, json=body)
                assert answer.status_code in (200, 202, 503), answer.text
                if answer.status_code != 503:
                    found: dict[str, Any] = answer.json()
                    return found
            await asyncio.sleep(0.1)
        return {"steps": []}

    async def _do(self, spec: dict[str, Any], name: str) -> dict[str, Any]:
        self.held[spec["plan_id"], spec["step_id"], spec["attempt"]].add(name)
        await asyncio.sleep(random.uniform(0.1, 1.0))
        return fleet.outcome(spec)

    async def _over_http(self, name: str) -> None:
        while not self.over.is_set():
            body = {"claim_id": uuid.uuid4().hex, "controller": name, "wait_s": 5}
            for spec in (await self._post("/v1/steps:claim", body))["steps"]:
                await self._post("/v1/outcomes", await self._do(spec, name))

    async def _over_redis(self, name: str) -> None:
        while not self.over.is_set():
            if not await self._redis.exists(QUEUE):
                await asyncio.sleep(0.1)
                continue
            found: Any = await self._redis.xreadgroup(CONTROLLERS, name, {QUEUE: ">"}, count=1, block=500)
            for entry, fields in found[0][1] if found else ():
                spec = codec.loads(fields[b"data"])
                beat = (spec["lease_key"], str(spec["attempt"]), spec["lease"], name)
                said: Any = await self._redis.fcall("planner_heartbeat", 1, *beat)
                if said[0] == b"continue":
                    await self._redis.xadd(spec["reply_to"], {"data": codec.dumps(await self._do(spec, name))})
                await self._redis.xack(QUEUE, CONTROLLERS, entry)


@contextmanager
def at_work(fleets: Fleets) -> Iterator[None]:
    """Have the fleets work in a thread while the block lasts."""
    loop = asyncio.new_event_loop()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            loop.run_until_complete(fleets.work())
        except BaseException as error:
            failed.append(error)
        finally:
            loop.close()

    thread = threading.Thread(target=run, name="fleets", daemon=True)
    thread.start()
    try:
        yield
    finally:
        with suppress(RuntimeError):  # it has failed
            loop.call_soon_threadsafe(fleets.over.set)
        thread.join(30)
    assert failed == []


@pytest.mark.long
def test_fifty_over_http_and_fifty_over_redis_complete_two_hundred_plans_exactly_once_while_all_else_is_killed(
    redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    token = api_keys.add(redis, ApiKey(key_id="fleet", rights=(Right.CONTROLLER,)))
    havoc = Havoc(redis_url, tmp_path)
    urls = [f"http://127.0.0.1:{port}" for port in havoc.ports]
    havoc.start()
    try:
        fleets = Fleets(redis_url, urls, token)
        with at_work(fleets):
            for number in range(ROUNDS):
                havoc.wait(number + 1)
                publish(redis, number * PLANS // ROUNDS, PLANS // ROUNDS, STEPS)
            wait_until(lambda: len(plans(redis)) == PLANS and ended(redis) == PLANS, PATIENCE_S, "all plans end")
    finally:
        havoc.over.set()
        havoc.join(60)

    found = plans(redis)
    assert [fault for plan in found for fault in Recount(redis, plan).faults()] == []
    assert {record.split()[0] for plan in found for record in step_states(redis, plan)} == {"DONE"}
    twice = {attempt: names for attempt, names in fleets.held.items() if len(names) > 1}
    assert twice == {}  # nobody was given what somebody else had
    by_http = sum(name.startswith("http") for names in fleets.held.values() for name in names)
    assert 0 < by_http < PLANS * STEPS  # both fleets did their share
    wait_until(lambda: not redis.xlen(QUEUE), what="nothing is left over")
