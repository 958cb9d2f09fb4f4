"""Reads the content of a refused server, and the message of a program that ends because of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Any

from redis import Redis

from tests.conftest import connect


def all_of(client: Redis) -> tuple[dict[bytes, bytes], Any]:
    """Return the whole content of a server: its data and its function libraries."""
    with connect(url_of(client)) as raw:
        return {key: raw.dump(key) for key in raw.scan_iter(count=1000)}, raw.function_list(withcode=True)


def url_of(client: Redis) -> str:
    """Return the URL of a client's server."""
    options = client.connection_pool.connection_kwargs
    return f"redis://{options['host']}:{options['port']}/0"


def run(command: Sequence[str], **environment: str) -> tuple[int, str]:
    """Run a program of the planner to its end; return its exit code, and its output on one line."""
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, timeout=60, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).decode().split())
