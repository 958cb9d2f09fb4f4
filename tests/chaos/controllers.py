"""A fleet of fake controllers, written against the wire alone: they duplicate, delay, reorder, forget and die."""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from schemas import codec
from tests.chaos.machine import SILENT_S

QUEUE = "planner:{0}:steps:default"
GROUP = "controllers"
CONTROLLERS = 16
FATES = {
    "honest": 52,
    "twice": 12,  # sends its outcome several times
    "again": 8,  # and once more when everything has long gone on
    "later": 10,  # keeps its outcome back and sends others first
    "slow": 5,  # works for longer than it may be silent, and renews its lease
    "wrong": 3,  # uses another attempt's lease first
    "silent": 4,  # claims and never reports
    "zombie": 2,  # claims, goes silent, and reports when another attempt may be under way
    "forgets": 2,  # reads and does not even claim
    "dies": 2,  # claims and is gone, with its connection and its name
}
LUCKY = 3  # from this attempt on no controller goes away: the work itself is to end
CATEGORIES = (
    "TEST_REGRESSION",
    "TYPE_ERROR",
    "LINT_ERROR",
    "FLAKY_TEST",
    "IMPORT_ERROR",
    "COMPILATION_ERROR",
    "who knows",
)

Spec = dict[str, Any]
Specs = dict[tuple[str, str, int], bytes]  # plan, step, attempt -> the spec as it was handed out


class Died(Exception):
    """This controller is gone."""


class Controller(threading.Thread):
    """One controller. What it does with an attempt hangs on the seed and the attempt alone."""

    def __init__(self, url: str, number: int, seed: int, silent_s: float, tally: Counter[str]) -> None:
        super().__init__(name=f"controller-{number}", daemon=True)
        self._url, self._number, self._seed, self._silent_s, self._tally = url, number, seed, silent_s, tally
        self._lives = 0
        self.specs: Specs = {}
        self._outbox: list[tuple[float, int, str, bytes]] = []
        self._order = 0
        self._over = threading.Event()

    def finish(self) -> None:
        """Ask the thread to send what it has kept back, and to end."""
        self._over.set()

    def run(self) -> None:
        """Work until asked to finish, whatever the server does."""
        while not self._over.is_set() or self._outbox:
            try:
                with self._connect() as client:
                    self._live(client)
            except Died:
                self._lives += 1
                self._tally["controllers died"] += 1
            except RedisError:
                self._tally["connections lost"] += 1
                time.sleep(0.1)

    def _connect(self) -> Redis:
        return Redis.from_url(self._url, protocol=2, retry=Retry(NoBackoff(), 0), socket_timeout=5)

    @property
    def _consumer(self) -> str:
        return f"fake-{self._number}-{self._lives}"

    def _live(self, client: Redis) -> None:
        for entry, spec in self._read(client, "0"):  # what was read when the connection broke
            self._work(client, entry, spec)
        while not self._over.is_set():
            for entry, spec in self._read(client, ">"):
                self._work(client, entry, spec)
            self._send_due(client, time.monotonic())
        self._send_due(client, float("inf"))

    def _read(self, client: Redis, after: str) -> list[tuple[bytes, Spec]]:
        try:
            reply: Any = client.xreadgroup(GROUP, self._consumer, {QUEUE: after}, count=1, block=100)
        except ResponseError as error:
            if "NOGROUP" not in str(error) and "LOADING" not in str(error):
                raise
            time.sleep(0.1)
            return []
        return [(entry, self._told(said[b"data"])) for _, found in reply or () for entry, said in found if said]

    def _told(self, data: bytes) -> Spec:
        spec: Spec = codec.loads(data)
        self.specs[spec["plan_id"], spec["step_id"], spec["attempt"]] = data
        return spec

    def _work(self, client: Redis, entry: bytes, spec: Spec) -> None:
        fate, rng = self._fate(spec)
        self._tally[fate] += 1
        if fate == "forgets" or not self._claims(client, spec):
            client.xack(QUEUE, GROUP, entry)
            return
        if fate == "dies":
            raise Died
        time.sleep(rng.uniform(0.01, 0.15))
        if fate == "slow":
            self._renews(client, spec)
        outcome = codec.dumps(outcome_of(spec, self._seed))
        if fate == "wrong":
            self._send(client, spec["reply_to"], codec.dumps({**outcome_of(spec, self._seed), "lease": "0" * 24}))
        if fate not in ("silent", "zombie", "later"):
            self._send(client, spec["reply_to"], outcome)
        self._send_more(client, fate, rng, spec["reply_to"], outcome)
        client.xack(QUEUE, GROUP, entry)

    def _send_more(self, client: Redis, fate: str, rng: Random, reply_to: str, outcome: bytes) -> None:
        if fate == "twice":
            for _ in range(rng.randint(1, 3)):
                self._tally["duplicates sent"] += 1
                self._send(client, reply_to, outcome)
        elif fate == "again":
            self._tally["duplicates sent"] += 1
            self._keep(rng.uniform(1, 6), reply_to, outcome)
        elif fate == "later":
            self._keep(rng.uniform(0.1, 1), reply_to, outcome)
        elif fate == "zombie":
            self._keep(2 * self._silent_s, reply_to, outcome)

    def _fate(self, spec: Spec) -> tuple[str, Random]:
        rng = Random(f"{self._seed}|{spec['title']}|{spec['step_id']}|{spec['attempt']}")
        fate = rng.choices(list(FATES), list(FATES.values()))[0]
        gone = fate in ("silent", "zombie", "forgets", "dies")
        # A step with a verification may wait in the queue for as long as that takes: too long for this test.
        if gone and (spec["attempt"] >= LUCKY or (fate == "forgets" and spec["verify_tools"])):
            fate = "honest"
        return fate, rng

    def _claims(self, client: Redis, spec: Spec) -> bool:
        """Claim the attempt; waits while its plan is paused. False where it is not ours to work on."""
        while True:
            action = self._beat(client, spec)
            if action != "pause":
                break
            time.sleep(0.1)
        self._tally[f"told {action}"] += 1
        return action == "continue"

    def _beat(self, client: Redis, spec: Spec) -> str:
        key, attempt, lease = spec["lease_key"], str(spec["attempt"]), spec["lease"]
        answer: Any = client.execute_command("FCALL", "planner_heartbeat", 1, key, attempt, lease, self._consumer)
        return str(answer[0].decode())

    def _renews(self, client: Redis, spec: Spec) -> None:
        until = time.monotonic() + 1.5 * self._silent_s
        while time.monotonic() < until and self._beat(client, spec) == "continue":
            time.sleep(self._silent_s / 4)

    def _keep(self, seconds: float, reply_to: str, outcome: bytes) -> None:
        self._order += 1
        heapq.heappush(self._outbox, (time.monotonic() + seconds, self._order, reply_to, outcome))

    def _send_due(self, client: Redis, now: float) -> None:
        while self._outbox and self._outbox[0][0] <= now:
            *_, reply_to, outcome = self._outbox[0]
            self._send(client, reply_to, outcome)
            heapq.heappop(self._outbox)

    def _send(self, client: Redis, reply_to: str, outcome: bytes) -> None:
        """Publish; after a lost connection the same again, as the wire wants it."""
        try:
            client.xadd(reply_to, {"data": outcome})
        except RedisError:
            self._tally["resent"] += 1
            self._keep(0, reply_to, outcome)
            raise
        self._tally["outcomes sent"] += 1


@contextmanager
def fleet(url: str, seed: int, tally: Counter[str], specs: Specs) -> Iterator[None]:
    """Run the controllers; at the end each sends what it has kept back, and `specs` has what all were handed out."""
    controllers = [Controller(url, number, seed, SILENT_S, tally) for number in range(CONTROLLERS)]
    for controller in controllers:
        controller.start()
    try:
        yield
    finally:
        for controller in controllers:
            controller.finish()
        for controller in controllers:
            controller.join(30)
            specs.update(controller.specs)


def outcome_of(spec: Spec, seed: int) -> dict[str, Any]:
    """Say what an attempt came to: the same for everyone who is asked."""
    said = {name: spec[name] for name in ("step_id", "plan_id", "attempt", "lease")}
    said |= {"metrics": {"tokens_used": 4000, "patch_cycles": 1}, "touched_files": spec["allowed_files"]}
    if not _fails(spec, seed):
        return {**said, "success": True}
    rng = Random(f"{seed}|why|{spec['title']}|{spec['step_id']}|{spec['attempt']}")
    evidence = {
        "category": rng.choice(CATEGORIES),
        "top_failing_tests": ["tests/test_all.py::test_one"],
        "stack_trace_head": f"{rng.choice(['AssertionError', 'TypeError', 'Boom'])} in {rng.choice('abcdefgh')}",
    }
    return {**said, "success": False, "failure_evidence": evidence}


def _fails(spec: Spec, seed: int) -> bool:
    title, step = spec["title"], spec["step_id"]
    kind = title.split()[0]
    if kind == "broken":
        return bool(step == f"s-{Random(f'{seed}|breaks|{title}').randrange(20)}")
    if kind in ("failing", "revised"):
        return bool(spec["attempt"] == 1 and Random(f"{seed}|fails|{title}|{step}").random() < 0.3)
    return False
