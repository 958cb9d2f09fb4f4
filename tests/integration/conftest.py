"""Fixtures of several modules: a worker's parts in this process, and a machine with nothing on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engine import container
from tests.support.gateway import Gateway, running_gateway
from worker.process.container import Container


@pytest.fixture
def here(redis_url: str) -> Iterator[Container]:
    """The parts of a worker with the usual settings, on the emptied server."""
    with container(redis_url) as made:
        yield made


@pytest.fixture
def gateway(redis_url: str) -> Iterator[Gateway]:
    """A gateway over HTTP on the emptied server, without a worker."""
    with running_gateway(redis_url) as running:
        yield running


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A newcomer's home, directory for temporary files and working directory, all empty."""
    for name in ("home", "tmp", "somewhere"):
        (tmp_path / name).mkdir()
    return tmp_path
