"""`python -m tests.tools.capacity_figures 10000 100000`: what live plans cost a server, as a table of docs/sizing.md.

The server is the embedded one, with its append-only file in a temporary folder. The plans are copies, as of
`tests.tools.fill_plans`. A plan with a longer log or larger steps takes more.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from redis import Redis

from tests.conftest import wait_until
from tests.support.engine import a_goal, container, drain, plan
from tests.support.messages import work
from tests.support.servers import Server
from tests.tools.fill_plans import fill
from worker.store.keys import Partition

PATIENCE_S = 900.0
STEPS, ENDED = 10, 200
HEAD = ("live plans", "memory", "a plan", "file", "rewrite", "fork", "load", "new replica", "fork for it")


def rows(folder: Path, counts: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each number of live plans, each more than the one before."""
    server, made = Server(folder / "server", "--repl-diskless-sync-delay", "0", fsync="everysec"), 0
    with server:
        with server.client() as client:
            empty = _info(client)["used_memory"]
        for count in counts:
            fill(server.url, count - made)
            made = count
            with server.client() as client:
                used = _info(client)["used_memory"]
                rewrite_s, fork, size = _rewrite(client)
            load_s = _load(server)
            copy_s, fork_of_copy = _replicate(server, folder / f"replica{count}")
            yield (
                f"{count:,}".replace(",", " "),
                f"{used / 1e6:,.0f} MB".replace(",", " "),
                f"{(used - empty) / count / 1e3:.1f} kB",
                f"{size / 1e6:,.0f} MB".replace(",", " "),
                *(f"{rewrite_s:.1f} s", f"{fork / 1e3:.1f} ms", f"{load_s:.1f} s"),
                *(f"{copy_s:.1f} s", f"{fork_of_copy / 1e3:.1f} ms"),
            )


def ended_bytes(folder: Path) -> tuple[float, float]:
    """Return the bytes that a plan leaves in memory once its steps are done, without events, and those of the file."""
    with Server(folder) as server, server.client() as client, container(server.url) as here:
        before = _info(client)
        plan(here, client, *[a_goal(STEPS)] * ENDED)
        while work(client):
            drain(here)
        events: Any = client.memory_usage(Partition(0).events, samples=0)
        after = _info(client)
        kept = after["used_memory"] - before["used_memory"] - events
        return kept / ENDED, (after["aof_current_size"] - before["aof_current_size"]) / ENDED


def _info(client: Redis) -> dict[str, Any]:
    found: Any = client.info("everything")
    return dict(found)


def _rewrite(client: Redis) -> tuple[float, int, int]:
    """Rewrite the append-only file; returns its seconds, the microseconds of the fork and the bytes of the file."""
    began = time.monotonic()
    client.bgrewriteaof()
    wait_until(lambda: not _rewrites(client), PATIENCE_S, "file rewritten")
    told = _info(client)
    return time.monotonic() - began, told["latest_fork_usec"], told["aof_current_size"]


def _rewrites(client: Redis) -> bool:
    told = _info(client)
    return bool(told["aof_rewrite_in_progress"] or told["aof_rewrite_scheduled"])


def _load(server: Server) -> float:
    """Kill the server and start it again; returns the seconds until it answers."""
    server.kill()
    began = time.monotonic()
    server.start(PATIENCE_S)
    return time.monotonic() - began


def _replicate(server: Server, folder: Path) -> tuple[float, int]:
    """Start a replica; returns the seconds until it has all, and the microseconds of the server's fork."""
    began = time.monotonic()
    with (
        Server(folder, "--replicaof", "127.0.0.1", str(server.port)) as replica,
        replica.client() as there,
        server.client() as here,
    ):
        wait_until(lambda: _info(there)["master_link_status"] == "up", PATIENCE_S, "replica has all")
        return time.monotonic() - began, int(_info(here)["latest_fork_usec"])


def main(arguments: Sequence[str]) -> None:
    """Print the table for the numbers of plans that are given, in rising order."""
    sys.stdout.write(f"{platform.machine()}, Linux {platform.release()}, embedded Valkey\n\n")
    sys.stdout.write(f"| {' | '.join(HEAD)} |\n|{'--:|' * len(HEAD)}\n")
    with TemporaryDirectory() as folder:
        kept, written = ended_bytes(Path(folder) / "ended")
        for row in rows(Path(folder), sorted(map(int, arguments))):
            sys.stdout.write(f"| {' | '.join(row)} |\n")
            sys.stdout.flush()
    sys.stdout.write(f"\nA plan of {STEPS} steps keeps {kept / 1e3:.1f} kB of memory when it has ended.\n")
    sys.stdout.write(f"It has written {written / 1e3:.1f} kB to the append-only file by then.\n")


if __name__ == "__main__":
    main(sys.argv[1:])
