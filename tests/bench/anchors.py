"""What our figures are measured against, in the same run: Celery's own speed, and the raw Lua loop.

Also the Celery app of the first: `celery -A tests.bench.anchors worker`.
"""

from __future__ import annotations

import os
import time
from functools import cache
from statistics import median
from typing import Any

from celery import Celery
from redis import Redis

from tests.bench.latency import IDLE_S
from tests.bench.site import Site
from worker.store import functions

ARGUMENT = "x" * 503  # as long as an outcome
DONE, REPLY = "bench:done", "bench:reply"
FLOOR_BATCH = 64
ROUNDTRIPS = 200

app = Celery("bench", broker=os.environ.get("PLANNER_REDIS_URL"))
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    worker_prefetch_multiplier=64,
    task_default_queue="bench",
    broker_connection_retry_on_startup=True,
)

# KEYS 1 plan, 2 outcomes, 3 specs | ARGV 1 entry, 2 step, 3 next spec | the least that applies an outcome at all
FLOOR = """#!lua name=bench_floor
redis.register_function{function_name = 'bench_floor', callback = function(keys, args)
  if redis.call('HINCRBY', keys[1], 'version', 1) < 0 then return 0 end
  redis.call('HSET', keys[1], args[2], 'DONE')
  redis.call('XADD', keys[3], '*', 'data', args[3])
  redis.call('XACK', keys[2], 'planner', args[1])
  redis.call('XDEL', keys[2], args[1])
  return 1
end}
"""


@app.task(name="bench.noop")
def noop(_: str) -> None:
    """Do nothing."""


@app.task(name="bench.mark")
def mark(key: str) -> None:
    """Say that everything before this was done."""
    _client().rpush(key, time.time())


@cache
def _client() -> Redis:
    return Redis.from_url(app.conf.broker_url)


def rates(site: Site) -> dict[str, float]:
    """Measure Celery's no-op tasks, its way to a reply back to back and after a pause, and the raw loop."""
    tasks = site.sizes.tasks
    site.client.flushdb()
    site.say("Celery: no-op tasks")
    enqueue(tasks)
    with site.workers(app="tests.bench.anchors"):
        noop = noop_per_s(site.client, tasks)
        site.say("Celery: send_task to reply")
        reply = roundtrip_ms(site.client, ROUNDTRIPS)
        site.say("Celery: send_task to reply, from an idle worker")
        idle = roundtrip_ms(site.client, site.sizes.idle_pings, IDLE_S)
    site.say("The raw Lua loop")
    return {
        "celery_noop_per_s": noop,
        "celery_roundtrip_p50_ms": reply,
        "celery_roundtrip_idle_p50_ms": idle,
        "floor_per_s": floor_per_s(site.client, site.sizes.plans * site.sizes.steps),
    }


def enqueue(tasks: int) -> None:
    """Put `tasks` no-op tasks between two marks, before a worker starts.

    Publishing must not slow the worker down.
    """
    for task, argument in [(mark, DONE), *[(noop, ARGUMENT)] * tasks, (mark, DONE)]:
        task.delay(argument)


def noop_per_s(client: Redis, tasks: int) -> float:
    """Measure the no-op tasks a second of a worker that works off what was enqueued."""
    begin, end = (float(_wait(client, DONE)) for _ in range(2))
    return tasks / (end - begin)


def roundtrip_ms(client: Redis, tries: int, pause_s: float = 0.0) -> float:
    """Measure send_task -> run -> reply, each after a pause: the median of `tries`."""
    taken = []
    for _ in range(tries):
        time.sleep(pause_s)
        begin = time.perf_counter()
        mark.delay(REPLY)
        _wait(client, REPLY)
        taken.append(1000 * (time.perf_counter() - begin))
    return median(taken)


def floor_per_s(client: Redis, outcomes: int) -> float:
    """Measure the raw loop: one Lua call for each outcome, in batches.

    The call applies the outcome and hands out the next spec.
    """
    client.function_load(FLOOR, replace=True)
    stream, specs, spec = "bench:{0}:outcomes", "bench:{0}:specs", b'{"step_id":"s-00001","pad":"%s"}' % (b"x" * 480)
    client.xgroup_create(stream, "planner", id="0", mkstream=True)
    pipeline = client.pipeline(transaction=False)
    for _ in range(outcomes):
        pipeline.xadd(stream, {"data": ARGUMENT})
    pipeline.execute()
    begin, done = time.perf_counter(), 0
    while done < outcomes:
        reply: Any = client.xreadgroup("planner", "bench", {stream: ">"}, count=FLOOR_BATCH)
        with functions.Talk(client) as talk:
            calls = [
                ("FCALL", "bench_floor", 3, f"bench:{{0}}:{done % 1000}", stream, specs, entry, done, spec)
                for entry, _ in reply[0][1]
            ]
            talk.send(calls)
            done += sum(talk.receive(len(calls)))
    taken = time.perf_counter() - begin
    client.delete(stream, specs)
    client.function_delete("bench_floor")
    return outcomes / taken


def _wait(client: Redis, key: str) -> bytes:
    found: Any = client.blpop([key], timeout=120)
    if found is None:
        raise TimeoutError(f"nothing came on {key}")
    return bytes(found[1])
