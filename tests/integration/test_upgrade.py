"""Workers of two versions on one server: plans in flight survive an upgrade, and the way back."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest
from redis import Redis
from redis.exceptions import ResponseError

from schemas import codec
from tests.chaos import controllers, goals
from tests.chaos.people import People
from tests.conftest import connect, wait_until
from tests.support import faults, launch, planning_backend
from tests.support.recount import ENDED, Recount, left_over, plans
from tests.support.scripted import Says, Spec
from tests.support.scripts import campaign, evolution, gap_report, reviewed_plan
from tests.support.servers import Server
from worker.store import keys
from worker.store.keys import CONTROLLERS, Partition

pytestmark = pytest.mark.outages

HOME = Partition(0)
SEED = 11
SUPPLIED = 160  # plans of chaos goals: chains, fans, diamonds; failures, revisions, approvals, pauses, halts
EACH = 10  # plans of each other kind
QUEUES = ("default", *reviewed_plan.ROLES)
LONG_S = 60.0  # publishing goes on while the workers are exchanged
BAD = (
    "plan unreadable",
    "decision failed",
    "plain decision failed",
    "goal failed",
    "commit refused",
    "entry dead",
    "goal dead",
    "ingress failed",
)
LAST = f"s-{goals.STEPS - 1}"  # without it no supplied plan is completed
ENDS = {"broken": "HALTED", "poor": "HALTED", "halted": "HALTED"}  # of supplied plans; all else is completed


def goals_of_other_kinds() -> Iterator[tuple[str, dict[str, Any]]]:
    for number in range(EACH):
        named = {
            "gap_report": gap_report.a_goal(gap_report.RUFF, allowed=["src/a.py"], repo=f"acme/gaps-{number}"),
            "campaign": campaign.a_goal(drafter="queue"),
            "evolution": evolution.a_goal("strict"),
            "reviewed_plan": reviewed_plan.a_goal(),
        }
        for kind, goal in named.items():
            yield kind, {**goal, "goal_id": f"upgrade-{number}-{kind}"}


def answers_of(kind: str) -> Says:
    """Make what the controllers of one plan of this kind say."""
    if kind == "campaign":
        return campaign.scripted({"EXPLORE": campaign.EXPLORATION, "DRAFT": {"tasks": campaign.TASKS}})
    if kind == "evolution":
        return evolution.answering(planning_backend.BAD, planning_backend.GOOD)
    return gap_report.succeeds if kind == "gap_report" else reviewed_plan.Roles()


class Fleet(threading.Thread):
    """Controllers of every queue, which answer at most `allowed` specs; every tenth outcome is sent twice.

    Nobody answers for the last step of a plan that people halt: it would be completed before they have come round to it
    where controllers are fast, and it does not end where their order is lost.
    """

    def __init__(self, url: str) -> None:
        super().__init__(name="fleet", daemon=True)
        self._redis = connect(url)
        self._over = threading.Event()
        self._says: dict[str, Says] = {}
        self.allowed = self.sent = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Answer until told to end."""
        try:
            for queue in QUEUES:
                with suppress(ResponseError):
                    self._redis.xgroup_create(HOME.steps(queue), CONTROLLERS, id="0", mkstream=True)
            while not self._over.is_set():
                if self.sent >= self.allowed:
                    time.sleep(0.02)
                else:
                    self._serve(min(32, self.allowed - self.sent))
        except BaseException as error:
            self.failure = error

    def _serve(self, count: int) -> None:
        streams: Any = dict.fromkeys(map(HOME.steps, QUEUES), ">")
        reply: Any = self._redis.xreadgroup(CONTROLLERS, "fleet", streams, count=count, block=100)
        for stream, found in reply or ():
            for entry, fields in found:
                spec = codec.loads(fields[b"data"])
                if is_held(spec):
                    continue
                outcome: Any = {"data": codec.dumps(self._outcome(spec))}
                for _ in range(2 if self.sent % 10 == 0 else 1):
                    self._redis.xadd(spec["reply_to"], outcome)
                self._redis.xack(stream, CONTROLLERS, entry)
                self.sent += 1

    def _outcome(self, spec: Spec) -> dict[str, Any]:
        head: Any = self._redis.hget(HOME.plan(spec["plan_id"]).plan, "head")
        kind = codec.loads(head)["kind"]
        if kind == "task":
            return controllers.outcome_of(spec, SEED)
        says = self._says.setdefault(spec["plan_id"], answers_of(kind))
        own = {name: spec[name] for name in ("step_id", "plan_id", "attempt", "lease")}
        metrics = {"tokens_used": 100, "patch_cycles": int(spec["mode"] == "patch"), "duration_ms": 1}
        return {"success": True, "metrics": metrics, "diff_hash": spec["lease"][:12], **says(spec), **own}

    def answered(self, count: int) -> None:
        """Allow so many answers and wait until nearly all of them are given."""
        self.allowed = count
        wait_until(lambda: self.failure or self.sent >= count - 50, 120, f"{count} specs are answered")
        assert self.failure is None, self.failure

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(10)
        self._redis.close()


def is_held(spec: Spec) -> bool:
    """Whether a spec is the last step of a plan that people halt."""
    return bool(spec["step_id"] == LAST and spec["title"].startswith("halted "))


@dataclass
class Fleetless:
    """Worker processes and the log that all of them write."""

    url: str
    log: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, version: str) -> subprocess.Popen[bytes]:
        """Start a worker of this version, or of one that is `newer`; returns it once it consumes."""
        before = self._consuming()
        command = launch.command(faults.HASTE, newer=version == "newer")
        process = faults.spawn(command, self.url, self.log, PLANNER_CLAIM_IDLE_S="10")
        self.processes.append(process)
        wait_until(lambda: process.poll() is not None or self._consuming() > before, 90, "a worker consumes")
        assert process.poll() is None, self.log.read_text()[-3000:]
        return process

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Stop a worker as a deployment does."""
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, self.log.read_text()[-3000:]

    def logged(self, event: str) -> int:
        """Count the log records with this event."""
        return self.log.read_bytes().count(b'"event":"%s"' % event.encode())

    def _consuming(self) -> int:
        lines = self.log.read_bytes().splitlines() if self.log.exists() else []
        return sum(b'"ingress consumes"' in line and b'"planner:{0}:outcomes"' in line for line in lines)


@contextmanager
def machines(directory: Path) -> Iterator[tuple[Fleetless, Redis]]:
    """Run a server; nothing of it or of workers is left afterwards."""
    with Server(directory) as server, connect(server.url) as redis:
        workers = Fleetless(server.url, directory / "workers.log")
        try:
            yield workers, redis
        finally:
            for process in workers.processes:
                faults.kill(process)


def live_through(directory: Path, before: str, after: str, told: str = "") -> None:
    """Exchange two workers one after the other while 200 plans go on; each ends as it would have with any of them.

    What the first of them called `told` in the records that it wrote, stands in them to the end.
    """
    with machines(directory) as (workers, redis), Fleet(workers.url) as fleet:
        first, second = workers.start(before), workers.start(before)
        people = People(workers.url, SEED, SUPPLIED, LONG_S / 4, Counter())
        people.start()
        others = list(goals_of_other_kinds())
        publish(redis, others[: len(others) // 2])
        fleet.answered(500)
        written = [plan for plan in plans(redis) if state_of(redis, plan) != "CREATED"]  # by the first two alone
        fleet.allowed = 700  # goes on while the first is exchanged
        workers.stop(first)
        third = workers.start(after)
        publish(redis, others[len(others) // 2 :])
        fleet.answered(1600)
        fleet.allowed = 1800
        workers.stop(second)
        fourth = workers.start(after)
        fleet.allowed = 10**9
        try:
            wait_until(lambda: fleet.failure or has_ended(redis, len(others)), 240, "every plan has ended")
            assert fleet.failure is None, fleet.failure
        finally:
            people.finish()
        with suppress(pytest.fail.Exception):  # what is left over says more
            wait_until(lambda: left_over(redis, QUEUES) == [], 60)
        assert (left_over(redis, QUEUES), stray(redis)) == ([], [])
        workers.stop(third)
        workers.stop(fourth)
        check(redis, workers, others)
        if told:
            assert len(written) > 10
            assert [plan for plan in written if not all(told in record for record in records(redis, plan))] == []


def stray(redis: Redis) -> list[str]:
    """Tell all about the plans whose specs are still in a queue."""
    queues: list[Any] = [redis.xrange(HOME.steps(queue)) for queue in QUEUES]
    found = [codec.loads(fields[b"data"]) for queue in queues for _, fields in queue]
    return [f"{spec['step_id']} {spec['attempt']} of {Recount(redis, spec['plan_id']).history()}" for spec in found]


def records(redis: Redis, plan_id: str) -> Iterator[Any]:
    """Yield what is kept of a plan and rewritten: its head, its changing part, its strategy's state, its statuses."""
    found: Any = redis.hmget(HOME.plan(plan_id).plan, "head", "live", "strategy_state")
    head, live, strategy_state = (codec.loads(raw or b"null") for raw in found)
    yield from (head, live, *([strategy_state] if strategy_state else []))
    statuses: Any = redis.hvals(HOME.plan(plan_id).status)
    yield from (codec.loads(raw)[-1] for raw in statuses if len(codec.loads(raw)) > 11)


def publish(redis: Redis, named: list[tuple[str, dict[str, Any]]]) -> None:
    for _, goal in named:
        redis.xadd(keys.GOALS, {"data": codec.dumps(goal)})


def has_ended(redis: Redis, others: int) -> bool:
    found = plans(redis)
    return len(found) == SUPPLIED + others and all(state_of(redis, plan) in ENDED for plan in found)


def state_of(redis: Redis, plan_id: str) -> str:
    found: Any = redis.hget(HOME.plan(plan_id).plan, "state")
    return str(found.decode())


def check(redis: Redis, workers: Fleetless, others: list[tuple[str, dict[str, Any]]]) -> None:
    """Hold what is stored against the logs, and against what becomes of such goals."""
    supplied = {goals.goal_id(number, SEED): goals.kind_of(number, SEED) for number in range(SUPPLIED)}
    expected = {name: ENDS.get(kind, "COMPLETED") for name, kind in supplied.items()}
    expected |= {goal["goal_id"]: "COMPLETED" for _, goal in others}
    found: dict[str, Recount] = {}
    for name in expected:
        plan_id: Any = redis.hget(keys.goal_id(name), "plan_id")
        found[name] = Recount(redis, plan_id.decode())

    assert {name: plan.halt for name, plan in found.items() if plan.state != expected[name]} == {}
    assert {name: faults for name, plan in found.items() if (faults := plan.faults())} == {}
    assert {event: workers.logged(event) for event in BAD if workers.logged(event)} == {}
    assert {name: redis.xlen(name) for name in (HOME.dead, keys.GOALS_DEAD) if redis.xlen(name)} == {}
    told: Any = redis.hgetall(HOME.stats)
    applied = sum(1 for plan in found.values() for *_, outcome, _ in plan.ends() if outcome)
    assert int(told[b"applied"]) <= applied  # counters travel with the next commit: those of a last one are not sent
    assert int(told.get(b"unknown", 0)) == 0


@pytest.mark.long
def test_workers_of_this_version_go_on_with_what_those_of_one_to_come_have_written(tmp_path: Path) -> None:
    live_through(tmp_path, before="newer", after="", told="newer")


@pytest.mark.long
def test_plans_go_on_when_workers_are_replaced_by_those_of_a_version_to_come(tmp_path: Path) -> None:
    live_through(tmp_path, before="", after="newer")
