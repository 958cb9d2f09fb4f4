"""A fleet of controllers that do nothing but answer: every step succeeds at once.

The specs of its own goals are all alike, so it reads of each only what the outcome repeats, and packs its commands
itself: it is to cost less than what it measures.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self

from redis import Redis
from redis.exceptions import ResponseError

from schemas import codec
from tests.bench.wire import Wire, pack
from worker.store.keys import CONTROLLERS, Partition

HOME = Partition(0)
QUEUE = HOME.steps("default")
PATIENCE_S = 60.0
AT_ONCE = 512  # specs of a queue that are read together
REPOSITORIES = 20  # of plans that name theirs
OUTCOME = (
    b'{"step_id":%b,"success":true,"tests_passed":true,"touched_files":%b],"diff_hash":"9f1c2d4e5b6a7988",'
    b'"metrics":{"tokens_used":800,"duration_ms":8500,"patch_cycles":1,"tool_calls":0},'
    b'"plan_id":%b,"attempt":%b,"lease":%b,'
    b'"verify":[{"tool":"pytest","exit_code":0,"output_digest":"sha256:2c26b46b68ffc68ff99b453c1d304134"}],'
    b'"controller":"bench"}'
)


class WaitingSpec(NamedTuple):
    """A spec as it came, with its entry."""

    entry_id: bytes
    data: bytes


def goal(number: int, steps: int, chains: int = 1, *, names_repository: bool = False) -> bytes:
    """Make a supplied plan of `steps` steps in `chains` chains.

    Each step has files of its own and a verification. A plan that names its repository has them for itself, too.
    """
    folder = f"src/{number}" if names_repository else "src"
    return codec.dumps(
        {
            "goal_id": f"bench-{steps}-{number}",
            "goal": "Measure the planner",
            "allowed_files": [f"{folder}/f{place}.py" for place in range(steps)],
            "limits": {"max_steps": max(20, steps), "max_parallel": chains, "tokens": 10**9},
            "steps": [_step(folder, place, chains) for place in range(steps)],
            **({"context": {"repo": f"acme/shop-{number % REPOSITORIES}"}} if names_repository else {}),
        }
    )


def _step(folder: str, place: int, chains: int) -> dict[str, Any]:
    return {
        "step_id": f"step-{place:05d}",
        "title": "Fix failing assertion",
        "intent": "Update the expected value in the test of the login route handler",
        "allowed_files": [f"{folder}/f{place}.py"],
        "success_criteria": "The test passes.",
        "depends_on": [f"step-{place - chains:05d}"] if place >= chains else [],
        "verify": "pytest tests/test_auth.py -v",
        "estimate": {"tokens": 1000, "patch_cycles": 1},
    }


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


def encoded_outcome(spec: bytes) -> bytes:
    """Write the outcome of a spec of `goal`: the bytes that `outcome` has, without reading all of the spec."""
    first, last = spec.index, spec.rindex  # each field from the end of the spec to which it is nearer
    return OUTCOME % (
        _value(spec, first(b'"step_id":') + 10),
        _value(spec, first(b'"allowed_files":') + 16, b"]"),
        _value(spec, last(b'"plan_id":') + 10),
        _value(spec, last(b'"attempt":') + 10),
        _value(spec, last(b'"lease":') + 8),
    )


def _value(spec: bytes, start: int, end: bytes = b",") -> bytes:
    return spec[start : spec.index(end, start)]


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


class Fleet:
    """The controllers of the default queue in so many partitions, on one connection."""

    def __init__(self, client: Redis, partitions: int = 1) -> None:
        self._client = client
        self._homes = [Partition(number) for number in range(partitions)]
        self._queues = [home.steps("default") for home in self._homes]
        self._addresses = {
            home.outcomes.encode(): pack("XADD", home.outcomes, "*", "data", "")[:-6]  # without the data
            for home in self._homes
        }
        self._wire = Wire(client)

    def __enter__(self) -> Self:
        for queue in self._queues:
            with suppress(ResponseError):  # it is there
                self._client.xgroup_create(queue, CONTROLLERS, "0", mkstream=True)
        self._wire.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._wire.__exit__(*error)

    def read(self, count: int, block_ms: int) -> list[WaitingSpec]:
        """Wait for specs, and read at most `count` of each queue."""
        return _specs(*self._wire.ask(self._read_command(count, block_ms), 1))

    def answer(self, specs: Sequence[WaitingSpec]) -> list[bytes]:
        """Report that each step succeeded; returns the entries of the outcomes."""
        return self._wire.ask(self._outcomes(specs), len(specs))

    def work(self, outcomes: int) -> float:
        """Answer `outcomes` specs as they come; returns seconds.

        Until the planner had applied all of them.
        """
        begin, left = time.perf_counter(), outcomes
        wait = self._read_command(AT_ONCE, 1000)
        specs: list[WaitingSpec] = []
        while left:
            *_, reply = self._wire.ask(self._outcomes(specs) + wait, len(specs) + 1)
            specs = _specs(reply)[:left]
            left -= len(specs)
            if time.perf_counter() - begin > PATIENCE_S + outcomes / 100:
                raise TimeoutError(f"{left} of {outcomes} outcomes are missing")
        self.answer(specs)
        wait_for(lambda: not any(self._client.xlen(home.outcomes) for home in self._homes))
        return time.perf_counter() - begin

    def pings(self, pause_s: float = 0.0) -> Iterator[float]:
        """Answer a plan that has one step in flight; yields ms.

        Each from an outcome published to the next step read.
        """
        specs = self.read(1, 5000)
        while specs:
            time.sleep(pause_s)
            begin = time.perf_counter()
            self.answer(specs)
            specs = self.read(1, 1000)
            if specs:
                yield 1000 * (time.perf_counter() - begin)

    def _read_command(self, count: int, block_ms: int) -> bytes:
        group = ("GROUP", CONTROLLERS, "fleet", "COUNT", count, "BLOCK", block_ms)
        return pack("XREADGROUP", *group, "STREAMS", *self._queues, *[">"] * len(self._queues))

    def _outcomes(self, specs: Sequence[WaitingSpec]) -> bytes:
        return b"".join([self._publish(spec.data) for spec in specs])

    def _publish(self, spec: bytes) -> bytes:
        """Pack the XADD of an outcome to where its spec says."""
        body = encoded_outcome(spec)
        command = self._addresses[_value(spec, spec.rindex(b'"reply_to":"') + 12, b'"')]
        return b"%b$%d\r\n%b\r\n" % (command, len(body), body)


def _specs(reply: Any) -> list[WaitingSpec]:
    if isinstance(reply, Exception):
        raise reply
    queues = reply.values() if isinstance(reply, dict) else [found for _, found in reply or ()]  # RESP3 has a map
    return [WaitingSpec(entry, fields[1]) for found in queues for entry, fields in found]


def work(client: Redis, outcomes: int) -> float:
    """Answer so many specs of one partition as they come; returns seconds."""
    with Fleet(client) as fleet:
        return fleet.work(outcomes)


def wait_for(condition: Any, timeout_s: float = 300.0, pause_s: float = 0.002) -> None:
    """Poll until `condition` holds; raises TimeoutError."""
    end = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the benchmark waited in vain")
        time.sleep(pause_s)
