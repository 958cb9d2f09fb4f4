"""What is on a server that is refused, and what a program says that ends for it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Any

from redis import Redis

from tests.conftest import connect


def all_of(client: Redis) -> tuple[dict[bytes, bytes], Any]:
    """Everything on a server: what is stored, and its function libraries."""
    with connect(url_of(client)) as raw:
        return {key: raw.dump(key) for key in raw.scan_iter(count=1000)}, raw.function_list(withcode=True)


def url_of(client: Redis) -> str:
    """The URL of a client's server."""
    options = client.connection_pool.connection_kwargs
    return f"redis://{options['host']}:{options['port']}/0"


def run(command: Sequence[str], **environment: str) -> tuple[int, str]:
    """Run a program of the planner's to its end; returns its exit code and what it wrote, on one line."""
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, timeout=60, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).decode().split())
