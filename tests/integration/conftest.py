"""Fixtures of several modules: a worker's parts in this process, and a machine with nothing on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import PATIENCE_S
from tests.support.engine import container
from tests.support.gateway import Gateway, running_gateway
from tests.support.planner import Planner
from worker.gateway import app, event_hub
from worker.gateway.page import acts, new_goal, retry, wide_acts
from worker.process import ownership
from worker.process.container import Container
from worker.store import owners


@pytest.fixture
def here(redis_url: str) -> Iterator[Container]:
    """The parts of a worker with the usual settings, on the emptied server."""
    with container(redis_url) as made:
        yield made


@pytest.fixture(scope="session", autouse=True)
def _patience_of_this_session() -> Iterator[None]:
    """Have gateways wait for a server whose disk is busy, and pages for what becomes of an act on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "PATIENCE_S", PATIENCE_S)
        patch.setattr(event_hub, "READY_S", PATIENCE_S)
        for page in (acts, new_goal, retry, wide_acts):
            patch.setattr(page, "WAIT_S", 25.0)
        yield


@pytest.fixture
def gateway(redis_url: str) -> Iterator[Gateway]:
    """A gateway over HTTP on the emptied server, without a worker."""
    with running_gateway(redis_url) as running:
        yield running


@pytest.fixture
def planner(redis_url: str) -> Planner:
    """A planner on the emptied server."""
    return Planner(redis_url)


@pytest.fixture
def long_leases(monkeypatch: pytest.MonkeyPatch) -> float:
    """Have partitions be owned for longer than a test takes on a busy machine; returns the seconds."""
    for module in (owners, ownership):
        monkeypatch.setattr(module, "LEASE_MS", 30_000)
    return 30.0


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A newcomer's home, directory for temporary files and working directory, all empty."""
    for name in ("home", "tmp", "somewhere"):
        (tmp_path / name).mkdir()
    return tmp_path
