"""Fixtures: a worker's parts in this process with endpoints that may be on this machine, and a receiver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from redis import Redis
from typer.testing import CliRunner, Result

from schemas import codec
from tests.conftest import wait_until
from tests.support.engine import container
from tests.support.receiver import Receiver, receiving
from worker.callbacks import schedule, sender
from worker.callbacks.queue import Queue
from worker.cli.commands.app import app
from worker.process.container import Container
from worker.store.keys import Partition

ALLOWED = "127.0.0.0/8"


@dataclass
class Calls:
    """Callbacks in this process: what Celery's task would do is done when a test says so, or waits for something."""

    here: Container
    redis: Redis
    ids: list[str] = field(default_factory=list)
    secrets: dict[str, str] = field(default_factory=dict)

    @property
    def queue(self) -> Queue:
        """The deliveries of partition 0."""
        return Queue(self.redis, Partition(0))

    def add(self, url: str, *words: str) -> str:
        """Add an endpoint as an operator does; returns its id."""
        made = told(run("add", *([url] if url else []), *words, "--json"))
        self.ids.append(made["endpoint_id"])
        self.secrets[made["endpoint_id"]] = made.get("secret", "")
        return str(made["endpoint_id"])

    def until(self, probe: Callable[[], Any], what: str = "", timeout: float = 15) -> Any:
        """Deliver until `probe` says so."""

        def once() -> Any:
            sender.deliver(self.queue, self.here.settings)
            return probe()

        return wait_until(once, timeout, what)

    def shown(self, endpoint: str) -> list[dict[str, Any]]:
        """What `planner endpoints show` says of the deliveries, the oldest first."""
        found: list[dict[str, Any]] = told(run("show", endpoint, "--json"))["deliveries"]
        return found[::-1]

    def states(self, endpoint: str) -> list[str]:
        """How the deliveries to an endpoint stand, the oldest first."""
        return [each["state"] for each in self.shown(endpoint)]


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["endpoints", *words])


def told(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return codec.loads(result.stdout)


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """A file with a key."""
    path = tmp_path / "keys"
    path.write_bytes(Fernet.generate_key() + b"\n")
    return path


@pytest.fixture
def calls(redis_url: str, redis: Redis, keys: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    """A worker's parts and its sender, on the emptied server; tries follow soon."""
    for name, value in {"REDIS_URL": redis_url, "SECRET_FILE": str(keys), "CALLBACK_ALLOW": ALLOWED}.items():
        monkeypatch.setenv(f"PLANNER_{name}", value)
    monkeypatch.setattr(sender, "_senders", {})
    monkeypatch.setattr(schedule, "WAITS_S", (0, *[0.05] * 9))
    allowed: Any = ALLOWED
    with container(redis_url, secret_file=keys, callback_allow=allowed, public_url="https://planner.example") as here:
        yield Calls(here, redis)
        sender.stop()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver of callbacks."""
    with receiving() as made:
        yield made
