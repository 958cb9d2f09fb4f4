"""A fleet of controllers that do nothing but answer: every step succeeds at once; and its heartbeats."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from redis import Redis

from schemas import codec
from worker.store import functions
from worker.store.keys import CONTROLLERS, Partition

HOME = Partition(0)
QUEUE = HOME.steps("default")
PATIENCE_S = 60.0
AT_ONCE = 100  # heartbeats of a fleet that are on their way together
LEASE = "bench"


def goal(number: int, steps: int, chains: int = 1) -> bytes:
    """Make a supplied plan of `steps` steps in `chains` chains.

    Each step has files of its own and a verification.
    """
    return codec.dumps(
        {
            "goal_id": f"bench-{steps}-{number}",
            "goal": "Measure the planner",
            "allowed_files": [f"src/f{place}.py" for place in range(steps)],
            "limits": {"max_steps": max(20, steps), "max_parallel": chains, "tokens": 10**9},
            "steps": [_step(place, chains) for place in range(steps)],
        }
    )


def _step(place: int, chains: int) -> dict[str, Any]:
    return {
        "step_id": f"step-{place:05d}",
        "title": "Fix failing assertion",
        "intent": "Update the expected value in the test of the login route handler",
        "allowed_files": [f"src/f{place}.py"],
        "success_criteria": "The test passes.",
        "depends_on": [f"step-{place - chains:05d}"] if place >= chains else [],
        "verify": "pytest tests/test_auth.py -v",
        "estimate": {"tokens": 1000, "patch_cycles": 1},
    }


def read(client: Redis, count: int, block_ms: int | None = None) -> list[dict[str, Any]]:
    """Read up to `count` specs as a controller does."""
    reply: Any = client.xreadgroup(CONTROLLERS, "fleet", {QUEUE: ">"}, count=count, block=block_ms)
    return [codec.loads(fields[b"data"]) for _, found in reply or () for _, fields in found]


def answer(client: Redis, specs: list[dict[str, Any]]) -> None:
    """Report that each step succeeded."""
    pipeline = client.pipeline(transaction=False)
    for spec in specs:
        pipeline.xadd(spec["reply_to"], {"data": codec.dumps(outcome(spec))})
    pipeline.execute()


def outcome(spec: dict[str, Any]) -> dict[str, Any]:
    """Make the outcome of a step that succeeded."""
    return {
        "step_id": spec["step_id"],
        "success": True,
        "tests_passed": True,
        "touched_files": spec["allowed_files"],
        "diff_hash": "9f1c2d4e5b6a7988",
        "metrics": {"tokens_used": 800, "duration_ms": 8500, "patch_cycles": 1, "tool_calls": 0},
        "plan_id": spec["plan_id"],
        "attempt": spec["attempt"],
        "lease": spec["lease"],
        "verify": [{"tool": "pytest", "exit_code": 0, "output_digest": "sha256:2c26b46b68ffc68ff99b453c1d304134"}],
        "controller": "bench",
    }


def work(client: Redis, outcomes: int) -> float:
    """Answer `outcomes` specs as they come; returns seconds.

    Until the planner had applied all of them.
    """
    begin, left = time.perf_counter(), outcomes
    while left:
        specs = read(client, 512, block_ms=1000)
        answer(client, specs)
        left -= len(specs)
        if time.perf_counter() - begin > PATIENCE_S + outcomes / 100:
            raise TimeoutError(f"{left} of {outcomes} outcomes are missing")
    wait_for(lambda: not client.xlen(HOME.outcomes))
    return time.perf_counter() - begin


def pings(client: Redis, pause_s: float = 0.0) -> Iterator[float]:
    """Answer a plan that has one step in flight; yields ms.

    Each from an outcome published to the next step read.
    """
    specs = read(client, 1, block_ms=5000)
    while specs:
        time.sleep(pause_s)
        begin = time.perf_counter()
        answer(client, specs)
        specs = read(client, 1, block_ms=1000)
        if specs:
            yield 1000 * (time.perf_counter() - begin)


def finish(client: Redis) -> None:
    """Answer whatever is left in the queue."""
    for _ in islice(pings(client), 100_000):
        pass


def wait_for(condition: Any, timeout_s: float = 300.0) -> None:
    """Poll until `condition` holds; raises TimeoutError."""
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the benchmark waited in vain")
        time.sleep(0.002)


def heartbeats_per_s(client: Redis, calls: int) -> dict[str, float]:
    """Measure heartbeats a second, and bare SETs from the same client.

    Neither touches a worker. The attempts renewed are as many as are on their way together.
    """
    leases = [f"{HOME.lease_prefix('bench')}{number}" for number in range(AT_ONCE)]
    for key in leases:
        client.hset(key, mapping={"attempt": 1, "lease": LEASE, "tokens": 1000})
    beats = [("FCALL", "planner_heartbeat", 1, key, 1, LEASE, "ctl-1") for key in leases]
    sets = [("SET", key + ":plain", "ctl-1") for key in leases]
    figures = {"heartbeat_per_s": _rate(client, beats, calls), "set_per_s": _rate(client, sets, calls)}
    client.delete(*leases, *(key + ":plain" for key in leases))
    return figures


def _rate(client: Redis, commands: list[tuple[Any, ...]], calls: int) -> float:
    begin = time.perf_counter()
    with functions.Talk(client) as talk:
        for _ in range(calls // len(commands)):
            talk.send(commands)
            talk.receive(len(commands))
    return calls / (time.perf_counter() - begin)
