"""A server as a planner from before 0.1.0 has left it: three plans, their goals, and its function libraries."""

from __future__ import annotations

import gzip
from pathlib import Path

from redis import Redis

from schemas import codec

COMMANDS = Path(__file__).parents[1] / "fixtures" / "server_before.jsonl.gz"  # one a line, as a list of words


def load(client: Redis) -> None:
    """Fill a server that is empty."""
    pipeline = client.pipeline(transaction=False)
    for line in gzip.decompress(COMMANDS.read_bytes()).splitlines():
        pipeline.execute_command(*codec.loads(line))
    pipeline.execute()
