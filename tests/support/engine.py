"""The parts of a worker in this process, on a real server: a test decides when the work of each Celery task runs."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from redis import Redis

from tasks.plan.changeset import PlainChange
from tests.support.messages import publish
from tests.support.stored import P0, plans
from worker.process.container import Container
from worker.settings.settings import Settings
from worker.store import functions
from worker.store.keys import NO_TENANT, Partition, goal_id
from worker.store.plans import PlanTalk, Write
from worker.streams.inbox import Inbox

CALL = re.compile(r"FCALL (planner_\w+)")
PLAIN, ORDINARY = "plain changes", "ordinary changes"


@contextmanager
def container(url: str, **settings: Any) -> Iterator[Container]:
    """Yield the container of a worker, as its Celery tasks use it."""
    made = Container(Settings(redis_url=url, **settings))
    functions.load(made.client)
    made.goals.create_group()
    made.context(0).engine.catch_up()  # as before everything else
    create_group(made, Partition(0).outcomes)
    yield made
    made.client.close()


def create_group(here: Container, stream: str) -> None:
    """Create the planner's group on a stream, as a worker does before it first reads there."""
    Inbox(here.client, stream, "", here.name).create_group()


def chain(count: int) -> list[dict[str, Any]]:
    return [
        {
            "step_id": f"s-{n}",
            "title": "t",
            "intent": "i",
            "allowed_files": [f"src/f{n}.py"],
            "depends_on": [f"s-{n - 1}"] if n else [],
        }
        for n in range(count)
    ]


def a_goal(count: int = 2, **more: Any) -> dict[str, Any]:
    limits = {"max_steps": 10_000, "tokens": 10**8, "patch_cycles": 100_000, **more.pop("limits", {})}
    files = [f"src/f{n}.py" for n in range(count)]
    return {"goal": "Do it", "allowed_files": files, "steps": chain(count), "limits": limits, **more}


def plan(here: Container, redis: Redis, *published: dict[str, Any]) -> list[str]:
    """Publish goals and decompose all that wait.

    Return the ids of all plans, with those of these goals last, in order.
    """
    keys_of = []
    for goal in published:
        entry = publish(redis, goal)
        keys_of.append(goal_id(goal.get("goal_id", entry), goal.get("tenant", NO_TENANT)))
    while here.goal_consumer.drain():
        pass
    found: list[Any] = [redis.hget(key, "plan_id") for key in keys_of]
    place = {plan_id.decode(): number for number, plan_id in enumerate(found) if plan_id}
    return sorted(plans(redis), key=lambda plan_id: place.get(plan_id, -1))


def drain(here: Container) -> None:
    while here.context(0).engine.drain():
        pass


def calls_of(redis: Redis, here: Container, *answers: dict[str, bytes]) -> Counter[str]:
    """Publish outcomes and apply them; return how often each Redis function was called for them.

    The counter also has the number of committed changes of each kind, PLAIN and ORDINARY.
    """
    for said in answers:
        redis.xadd(P0.outcomes, said)  # type: ignore[arg-type]
    seen: Counter[str] = Counter()
    commit = PlanTalk.commit

    def counting(talk: PlanTalk, writes: Sequence[Write | PlainChange]) -> None:
        seen.update([ORDINARY if isinstance(write, Write) else PLAIN for write in writes])
        commit(talk, writes)

    with patch.object(PlanTalk, "commit", counting), redis.monitor() as monitor:
        drain(here)
        redis.ping()
        for said in monitor.listen():
            if said["command"] == "PING":
                return seen
            if found := CALL.match(said["command"]):
                seen[found[1]] += 1
    raise AssertionError


@contextmanager
def at_work(here: Container) -> Iterator[None]:
    """Apply outcomes as they arrive, during the block."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.02):
            drain(here)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
