"""The route table is the wiring: who reads it knows which task, stream and handler there are."""

from __future__ import annotations

import ast
import math
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from schemas.contract import streams
from tasks.routes import CALLBACKS, GOALS, OUTCOMES, ROUTES, UPKEEP, Route
from worker.celery import app
from worker.process import jobs, watches
from worker.store.keys import Partition

ROOT = Path(__file__).parents[2]
ADDRESSES = [stream.address for stream in streams.STREAMS]
Watched = tuple[str, str, str, tuple[int, ...], str]


@cache
def constants() -> Counter[str]:
    """Count the string constants of the sources, docstrings and logger names aside."""
    found: Counter[str] = Counter()
    for ring in ("schemas", "tasks", "worker"):
        for path in (ROOT / ring).rglob("*.py"):
            tree = ast.parse(path.read_text())
            loggers = {
                argument
                for node in ast.walk(tree)
                if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "getLogger"
                for argument in node.args
            }
            found.update(
                node.value
                for node in ast.walk(tree)
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in loggers
            )
    return found


def watched(consumed: set[str], partitions: int) -> list[Watched]:
    """What is watched by a worker that consumes these queues: stream, task, sweeper, arguments and timers."""
    parts = [Partition(number) for number in range(partitions)]
    found = watches.watches(frozenset(consumed), parts)
    assert all(bool(one.work.args) == bool(one.timers) == math.isfinite(one.stuck_s) for one in found)
    return [
        (one.stream, one.work.task, one.upkeep.task if one.upkeep else "", one.work.args, one.timers) for one in found
    ]


def test_no_task_queue_or_stream_is_named_twice() -> None:
    found, names = constants(), [*(route.task for route in ROUTES), *ADDRESSES]

    assert {name: found[name] for name in names} == dict.fromkeys(names, 1)


def test_celery_has_a_task_and_a_queue_for_each_route() -> None:
    tasks = {route.task for route in ROUTES}

    assert {name for name in app.tasks if not name.startswith("celery.")} == tasks
    assert {queue.name for queue in app.conf.task_queues} == tasks
    assert app.conf.task_routes == {task: {"queue": task} for task in tasks}


def test_every_route_has_its_job() -> None:
    assert list(jobs.JOBS) == [
        GOALS.task,
        OUTCOMES.task,
        UPKEEP.task,
        "planner.commands",
        CALLBACKS.task,
        "planner.webhooks",
    ]
    assert set(jobs.JOBS) == {route.task for route in ROUTES}


def test_every_stream_of_a_route_is_watched_and_swept_once() -> None:
    found = watched({route.task for route in ROUTES}, partitions=2)

    assert sorted(found) == [
        ("planner:commands", "planner.commands", "planner.commands", (), ""),
        ("planner:goals", "planner.decompose", "planner.decompose", (), ""),
        ("planner:{0}:commands", "planner.outcomes", "", (0,), "planner:{0}:timers"),
        ("planner:{0}:outbox", "planner.callbacks", "planner.callbacks", (0,), "planner:{0}:callbacks"),
        ("planner:{0}:outcomes", "planner.outcomes", "planner.upkeep", (0,), "planner:{0}:timers"),
        ("planner:{1}:commands", "planner.outcomes", "", (1,), "planner:{1}:timers"),
        ("planner:{1}:outbox", "planner.callbacks", "planner.callbacks", (1,), "planner:{1}:callbacks"),
        ("planner:{1}:outcomes", "planner.outcomes", "planner.upkeep", (1,), "planner:{1}:timers"),
        ("{planner:goals}:webhook:jobs", "planner.webhooks", "planner.webhooks", (), ""),
    ]


@pytest.mark.parametrize("route", [route for route in ROUTES if route.streams])
def test_a_worker_of_one_queue_pollers_its_streams_alone(route: Route) -> None:
    assert {task for _, task, *_ in watched({route.task}, partitions=1)} == {route.task}
