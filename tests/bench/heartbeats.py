"""Heartbeats of a fleet, beside bare SETs from the same client; neither touches a worker."""

from __future__ import annotations

import time
from typing import Any

from redis import Redis

from tests.bench.fleet import HOME
from worker.store import functions

AT_ONCE = 100  # heartbeats that are on their way together
LEASE = "bench"


def heartbeats_per_s(client: Redis, calls: int) -> dict[str, float]:
    """Measure heartbeats a second, and bare SETs; as many attempts are renewed as are on their way together."""
    leases = [f"{HOME.lease_prefix('bench')}{number}" for number in range(AT_ONCE)]
    for key in leases:
        client.hset(key, mapping={"attempt": 1, "lease": LEASE, "tokens": 1000})
    beats = [("FCALL", "planner_heartbeat", 1, key, 1, LEASE, "ctl-1") for key in leases]
    sets = [("SET", key + ":plain", "ctl-1") for key in leases]
    beat, plain = _rate(client, beats, calls), _rate(client, sets, calls)
    client.delete(*leases, *(key + ":plain" for key in leases))
    return {"heartbeat_per_s": beat, "set_per_s": plain, "heartbeat_vs_set": beat / plain}


def _rate(client: Redis, commands: list[tuple[Any, ...]], calls: int) -> float:
    begin = time.perf_counter()
    with functions.Talk(client) as talk:
        for _ in range(calls // len(commands)):
            talk.send(commands)
            talk.receive(len(commands))
    return calls / (time.perf_counter() - begin)
