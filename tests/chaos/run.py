"""A run of chaos: what it is asked for, what lives through it, and what has to hold of every plan at its end."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import RedisError

from tests.chaos import goals
from tests.chaos.controllers import Specs, fleet
from tests.chaos.machine import Killer, Workers
from tests.chaos.people import People
from tests.conftest import wait_until
from tests.support.recount import ENDED, HOME, Recount, left_over, plans
from tests.support.servers import Server
from worker.store import keys

PLANS_A_MINUTE = 100
PATIENCE_S = 240  # with plans that run side by side
REFUSALS = ("duplicate", "late", "refused", "unknown")


@dataclass
class Run:
    """What a run was asked for, and what it came to."""

    seed: int
    minutes: float
    tally: Counter[str]
    began: float
    newer_share: float
    patience_s: int = PATIENCE_S
    specs: Specs = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many plans there are."""
        return int(PLANS_A_MINUTE * self.minutes)

    @property
    def faults_s(self) -> float:
        """For how long faults happen; the rest is for what is left to come to its end."""
        return 40 * self.minutes


@contextmanager
def machines(directory: Path, run: Run) -> Iterator[tuple[Server, Workers]]:
    """Run a server and workers; nothing of them is left afterwards."""
    with Server(directory, fsync="always") as server:
        workers = Workers(server.url, directory, run.seed, run.tally, run.newer_share)
        try:
            yield server, workers
        finally:
            workers.kill_all()


def say(capsys: pytest.CaptureFixture[str], text: str) -> None:
    """Print past pytest, which keeps what tests print to itself."""
    with capsys.disabled():
        sys.stdout.write(f"\n{text}\n")


def live_through(run: Run, server: Server, workers: Workers, redis: Redis) -> None:
    """Have faults for a time, then calm until every plan has ended and no stream holds anything."""
    people = People(server.url, run.seed, run.count, 0.65 * run.faults_s, run.tally)
    killer = Killer(server, workers, run.seed, run.faults_s, run.tally)

    def over() -> bool:
        assert people.is_alive()
        workers.replace_the_dead()
        return people.done and not open_goals(redis, run)

    with fleet(server.url, run.seed, run.tally, run.specs):
        people.start()
        killer.start()
        try:
            killer.join()
            assert killer.failure is None, killer.failure
            wait_until(over, timeout=run.patience_s, what="every plan has ended")
        finally:
            killer.stop()
            people.finish()
    wait_until(lambda: not left_over(redis), timeout=120, what="every stream is empty")


def open_goals(redis: Redis, run: Run) -> list[str]:
    """Name the goals whose plan has not ended, or is not there."""
    pipeline = redis.pipeline(transaction=False)
    names = [goals.goal_id(number, run.seed) for number in range(run.count)]
    for name in names:
        pipeline.hmget(keys.goal_id(name), "verdict", "plan_id")
    records = pipeline.execute()
    for _, plan_id in records:
        pipeline.hget(HOME.plan((plan_id or b"none").decode()).plan, "state")
    states = pipeline.execute()
    return [
        name
        for name, (verdict, _), state in zip(names, records, states, strict=True)
        if verdict != b"PLANNED" or not state or state.decode() not in ENDED
    ]


def recounts(redis: Redis, run: Run) -> dict[str, Recount]:
    """Count every plan again; by its goal."""
    names = [goals.goal_id(number, run.seed) for number in range(run.count)]
    found: list[Any] = [redis.hget(keys.goal_id(name), "plan_id") for name in names]
    return {name: Recount(redis, plan_id.decode()) for name, plan_id in zip(names, found, strict=True) if plan_id}


def check(run: Run, redis: Redis, found: dict[str, Recount]) -> None:
    """Hold what is stored against the logs and against what the seed explains."""
    assert {name: faults for name in found if (faults := faults_of(name, found[name]))} == {}
    assert sorted(each.plan_id for each in found.values()) == sorted(plans(redis))
    assert left_over(redis) == []
    applied = sum(1 for each in found.values() for *_, outcome, _ in each.ends() if outcome)
    counted: Any = redis.hget(HOME.stats, "applied")
    assert int(counted) <= applied  # counters travel beside a commit: what died between the two is not counted
    assert {name: redis.xlen(name) for name in (HOME.dead, keys.GOALS_DEAD) if redis.xlen(name)} == {}
    leases = [key for key in redis.scan_iter("planner:{0}:lease:*", count=1000) if redis.ttl(key) < 0]
    assert leases == []


def faults_of(name: str, plan: Recount) -> list[str]:
    """Say what is wrong with a plan that should have ended."""
    faults = plan.faults()
    if missing := {f"s-{place}" for place in range(goals.STEPS)} - plan.steps.keys():
        faults.append(f"steps were lost: {sorted(missing)}")
    if plan.state not in ENDED:
        faults.append(f"it has not ended: {plan.state}")
    elif plan.state != "COMPLETED" and not is_explained(name, plan):
        faults.append(f"nothing explains why it is {plan.state}: {plan.halt}")
    return faults


def is_explained(name: str, plan: Recount) -> bool:
    """Whether the seed, or the deaths of controllers that the log tells of, had to halt this plan."""
    kind, rule = name.rpartition("-")[2], plan.halt.get("rule")
    deaths = Counter(step for step, _, outcome, claimed in plan.ends() if outcome is None and claimed)
    return {
        "manual": kind == "halted",
        "budget": kind == "poor",
        "consecutive_failures": kind == "broken",
        "lease_deaths": kind == "fragile" and deaths.total() >= 2,
        "cannot_revise": kind == "broken" or any(deaths[step] for step in steps_in(plan, "FAILED")),
    }.get(str(rule), False)


def steps_in(plan: Recount, state: str) -> list[str]:
    """Name the steps in this state."""
    return [name for name, record in plan.status.items() if record[1] == state]


def complaint(run: Run, redis: Redis) -> str:
    """Tell the seed, and all about the first plan that something is wrong with."""
    said = [f"seed {run.seed}: run it again with --chaos-seed {run.seed}", f"tally: {dict(run.tally)}"]
    try:
        said.append(f"left over: {left_over(redis)}; open: {open_goals(redis, run)[:20]}")
        for name, plan in recounts(redis, run).items():
            if faults := faults_of(name, plan):
                said += [f"{name}: {'; '.join(faults)}", plan.history()]
                break
    except RedisError as error:
        said.append(f"the server is away: {error}")
    return "\n".join(said)


def figures(run: Run, redis: Redis, workers: Workers, found: dict[str, Recount]) -> str:
    """Tell what happened, a figure a line."""
    ends = [end for plan in found.values() for end in plan.ends()]
    stats: Any = redis.hgetall(HOME.stats)
    told = run.tally
    ended = Counter(f"{plan.state} {plan.halt.get('rule', '')}".strip() for plan in found.values())
    lines = {
        "seed": run.seed,
        "time": f"{time.monotonic() - run.began:.0f} s",
        "plans": f"{len(found)}: {', '.join(f'{count} {what}' for what, count in ended.most_common())}",
        "workers killed, stalled": f"{told['workers killed']}, {told['workers stalled']}",
        "workers of this version": told["of this version"],
        "workers of a version to come": told["of a version to come"],
        "killed within a commit": workers.logged("dies"),
        "Redis killed and restarted": told["Redis killed"],
        "controllers died, went silent": f"{told['dies']}, {told['silent'] + told['zombie'] + told['forgets']}",
        "outcomes sent": f"{told['outcomes sent']}; duplicates {told['duplicates sent']}, resent {told['resent']}",
        "outcomes applied": sum(1 for *_, outcome, _ in ends if outcome),
        "not applied": ", ".join(f"{word} {int(stats.get(word.encode(), 0))}" for word in REFUSALS),
        "attempts taken back": sum(1 for *_, outcome, _ in ends if outcome is None),
        "take-overs from dead workers": workers.logged("entries taken over"),
        "orders sent": told["orders sent"],
    }
    return "\n".join(f"{name:32}{value}" for name, value in lines.items())
