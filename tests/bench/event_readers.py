"""What readers of events over HTTP cost: the gateway's CPU, and how long an event takes to them.

The readers are a process of their own (`python -m tests.bench.event_readers PORT TOKEN READERS`). When its input ends,
it prints how long each event took to one of them, in ms.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from datetime import datetime
from statistics import quantiles

from redis import Redis

from schemas import codec
from tests.bench import cpu, fleet
from tests.bench.gateway import RunningGateway
from worker.store import keys

FEW, MANY = 1, 200
STEPS = 300
PAUSE_S = 0.005  # between outcomes: the machine is not to be busy
EVENTS = 2 * STEPS  # about: a step starts, and is done
SETTLED_S = 0.5


def costs(client: Redis, at: RunningGateway) -> dict[str, float]:
    """Measure with FEW and MANY readers: the gateway's CPU for an event, and p50 and p99 of an event's way to one."""
    figures = {}
    for number, readers in enumerate((FEW, MANY)):
        before = client.zcard(fleet.HOME.plans)
        client.xadd(keys.GOALS, {"data": fleet.goal(50_000 + number, STEPS)})
        fleet.wait_for(lambda before=before: client.zcard(fleet.HOME.plans) == before + 1)
        spent, took = _with_readers(client, at, readers)
        cuts = quantiles(took, n=100)
        figures[f"events_{readers}_readers_cpu_us"] = spent * 1e6 / EVENTS
        figures[f"events_{readers}_readers_p50_ms"] = cuts[49]
        figures[f"events_{readers}_readers_p99_ms"] = cuts[98]
    return figures


def _with_readers(client: Redis, at: RunningGateway, readers: int) -> tuple[float, list[float]]:
    """Work on a plan while so many read; returns the gateway's seconds of CPU, and the ms that events took."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.bench.event_readers", str(at.port), at.token, str(readers)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()  # all are there
        before = cpu.usage(client, at.pid).worker
        with fleet.Fleet(client) as controllers:
            for _ in controllers.pings(PAUSE_S):
                pass
        time.sleep(SETTLED_S)
        spent = cpu.usage(client, at.pid).worker - before
        process.stdin.close()
        took: list[float] = codec.loads(process.stdout.read())
    return spent, took


async def _read(port: int, token: str, took: list[float] | None, ready: asyncio.Semaphore) -> None:
    """Read events for ever; note how long each took, if asked."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
    await reader.readuntil(b"\nretry: ")
    ready.release()
    while piece := await reader.read(65536):
        if took is None:
            continue
        now = time.time()
        for line in piece.split(b"\n"):
            if line.startswith(b"data: ") and line.endswith(b"}"):
                at = codec.loads(line[6:])["at"]
                took.append(1000 * (now - datetime.fromisoformat(at).timestamp()))


async def _readers(port: int, token: str, count: int) -> None:
    took: list[float] = []
    ready = asyncio.Semaphore(0)
    reading = [asyncio.create_task(_read(port, token, None if n else took, ready)) for n in range(count)]
    for _ in reading:
        await ready.acquire()
    print("ready", flush=True)  # noqa: T201
    await asyncio.to_thread(sys.stdin.read)
    print(json.dumps(took))  # noqa: T201
    for task in reading:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(_readers(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
