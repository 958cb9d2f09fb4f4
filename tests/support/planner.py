"""A planner in this process, on a real server: a test decides when goals are planned and outcomes applied."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from schemas import codec
from schemas.plan import PlanView
from schemas.stored import HOT, decode_plan
from schemas.stored.delivered import DeliveredChange
from tasks.plan.lifecycle import DRAFT
from tests.conftest import wait_until
from tests.support.scripts.campaign import EXPLORATION, a_goal
from worker.process.container import Container
from worker.settings.settings import Settings
from worker.store import functions, keys, queries

STEPS: list[dict[str, Any]] = [
    {"step_id": "look", "title": "Look", "intent": "Look around", "verify": "pytest"},
    {
        "step_id": "fix-b", "title": "Fix b", "intent": "Fix b", "allowed_files": ["b.py"],
        "depends_on": ["look"], "verify": "pytest tests/test_b.py -v",
    },
    {"step_id": "a-check", "title": "Check", "intent": "Check", "depends_on": ["look", "fix-b"], "verify": "pytest"},
]  # fmt: skip
RISKY: list[dict[str, Any]] = [
    {"step_id": "look", "title": "Look", "intent": "Look around", "verify": "pytest"},
    {
        "step_id": "change", "title": "Change", "intent": "Change it", "allowed_files": ["b.py"], "verify": "pytest",
        "risk_level": "HIGH", "rollback_hint": "Take it back.",
    },
]  # fmt: skip


class Planner:
    """The decomposer and the engine in this process."""

    def __init__(self, url: str, partitions: int = 1, **settings: Any) -> None:
        self.container = Container(Settings(redis_url=url, partitions=partitions, **settings))
        self.client = self.container.client
        self.partitions = partitions
        functions.load(self.client)
        for stream in (keys.GOALS, *(keys.Partition(number).outcomes for number in range(partitions))):
            self.client.xgroup_create(stream, keys.GROUP, "0", mkstream=True)

    def submit(self, **goal: Any) -> str:
        """Plan a goal; return the id of its plan."""
        body = {"goal": "Fix b", "allowed_files": ["b.py"], "steps": STEPS, **goal}
        entry: Any = self.client.xadd(keys.GOALS, {"data": codec.dumps(body)})
        self.container.goal_consumer.drain()
        whose = goal.get("tenant", keys.NO_TENANT)
        answer = queries.goal(self.client, goal.get("goal_id", entry.decode()), whose)
        assert answer is not None
        return answer.plan_id

    def report(self, step_id: str, plan_id: str, **outcome: Any) -> None:
        """Have an outcome applied."""
        home = self.container.context(keys.partition_of(plan_id, self.partitions))
        body = {"step_id": step_id, "success": True, "tests_passed": True, "plan_id": plan_id, **outcome}
        self.client.xadd(home.partition.outcomes, {"data": codec.dumps(body)})
        home.engine.drain()

    def put_times(self, plan_id: str, times: dict[str, int]) -> None:
        """Make a plan older than a test can wait."""
        key = keys.Partition(keys.partition_of(plan_id, self.partitions)).plan(plan_id).plan
        raw: Any = self.client.hmget(key, *HOT)
        record = replace(decode_plan(raw), times=times)
        self.client.hset(key, "live", record.encode("live"))

    def view(self, plan_id: str) -> PlanView:
        view = queries.plan(self.client, self.partitions, plan_id)
        assert view is not None
        return view


@contextmanager
def repeating(*duties: Callable[[], object]) -> Iterator[None]:
    """Do these things again and again while the block lasts."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(0.01):
            for duty in duties:
                duty()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(10)


@contextmanager
def obeying(container: Container) -> Iterator[None]:
    """Obey commands while the block lasts."""
    with repeating(container.context(0).engine.drain, container.bulk_commands.drain):
        yield


@contextmanager
def deciding(planner: Planner) -> Iterator[None]:
    """Plan goals and obey commands while the block lasts."""
    with repeating(planner.container.goal_consumer.drain), obeying(planner.container):
        yield


def executing(planner: Planner, **goal: Any) -> str:
    """Create a plan with one step done, one in flight, and one that waits for both."""
    plan_id = planner.submit(**goal)
    planner.report("look", plan_id)
    return plan_id


def asking(planner: Planner) -> str:
    return planner.submit(steps=RISKY, approvals=["HIGH"])


def completed(planner: Planner, **goal: Any) -> str:
    plan_id = planner.submit(**goal)
    for step in ("look", "fix-b", "a-check"):
        planner.report(step, plan_id, touched_files=["b.py"] if step == "fix-b" else [])
    assert planner.view(plan_id).state == "COMPLETED"
    return plan_id


def delivered(planner: Planner) -> str:
    """A plan that has delivered a branch of 400 lines, which waits for a review."""
    plan_id = planner.submit(delivery={"push": True})
    for step in ("look", "fix-b", "a-check"):
        planner.report(step, plan_id, touched_files=["b.py"] if step == "fix-b" else [])
    landed = {"target_sha": 40 * "1", "result_sha": 40 * "2", "conflicts": []}
    planner.report("land", plan_id, output=landed)
    planner.report("deliver", plan_id, output={"branch": "planner/x", "pull_request": None, "lines": 400})
    assert planner.view(plan_id).branch == "planner/x"
    return plan_id


def followed(planner: Planner, plan_id: str, **change: Any) -> None:
    """Keep the state of a plan's delivered change, as those who follow it at its forge do."""
    about = {"plan_id": plan_id, "goal_id": "g", "tenant": "default", "repo": "acme/shop", "branch": "planner/x"}
    kept = DeliveredChange.model_validate({**about, **change})
    kept.times.setdefault(kept.state, 1_800_000_000_000)
    planner.client.hset(keys.delivered(plan_id), mapping={"version": 1, "change": kept.model_dump_json()})


def held_by(planner: Planner, plan_id: str, step_id: str, controller: str) -> None:
    """Have a controller claim the attempt of a step."""
    lease = keys.Partition(keys.partition_of(plan_id, planner.partitions)).lease_prefix(plan_id) + step_id
    said: Any = planner.client.hmget(lease, "attempt", "lease")
    planner.client.fcall("planner_heartbeat", 1, lease, *said, controller)


def drafting(planner: Planner) -> str:
    """Create a plan that waits for a drafter."""
    plan_id = executing(planner)
    key = keys.Partition(keys.partition_of(plan_id, planner.partitions)).plan(plan_id).plan
    raw: Any = planner.client.hmget(key, *HOT)
    asked = {"kind": DRAFT, "questions": [], "asked": 0, "until": 4_000_000_000_000}
    record = replace(decode_plan(raw), question=asked)
    planner.client.hset(key, "live", record.encode("live"))
    return plan_id


def halted(planner: Planner, **goal: Any) -> str:
    plan_id = executing(planner, **goal)
    planner.report("fix-b", plan_id, touched_files=["etc/passwd"])
    assert planner.view(plan_id).state == "HALTED"
    return plan_id


def rejected(planner: Planner) -> str:
    return planner.submit(allowed_files=["../b.py"])


def retried(planner: Planner) -> str:
    """Create a plan with a failed step that waits for its preparation or its next attempt."""
    plan_id = executing(planner)
    evidence = {"category": "COMPILATION_ERROR", "stack_trace_head": "SyntaxError: invalid syntax"}
    failed = {"success": False, "tests_passed": False, "failure_evidence": evidence}
    planner.report("fix-b", plan_id, touched_files=["b.py"], **failed)
    return plan_id


def hostile(planner: Planner, text: str) -> str:
    """Create a plan with `text` in every field that outsiders can set and people can see."""
    steps = [{**step, "title": text[:80], "intent": text} for step in STEPS]
    plan_id = planner.submit(goal=text, steps=steps, context={"constraints": [text]})
    planner.report("look", plan_id)
    evidence = {"category": "TEST_FAILURE", "stack_trace_head": text, "suggestion": text, "signature": text}
    transcript = {"host": text, "path": text, "digest": f"sha256:{'0' * 64}"}
    said = {"success": False, "tests_passed": False, "failing_tests": [text], "transcript": transcript}
    said |= {"controller": text, "diff_hash": text, "error_message": text, "commit": text, "created_files": [text]}
    said |= {"verify": [{"tool": text, "exit_code": 1, "output_digest": text}], "output": text}
    planner.report("fix-b", plan_id, touched_files=["b.py"], failure_evidence=evidence, **said)
    return plan_id


def large(planner: Planner) -> str:
    """Create a plan of several chunks; all of its steps wait for the first one."""
    steps = [
        {"step_id": f"s-{number}", "title": "t", "intent": "i", "verify": "pytest",
         "depends_on": ["s-0"] if number else []}
        for number in range(200)
    ]  # fmt: skip
    plan_id = planner.submit(steps=steps, limits={"max_steps": 300, "max_parallel": 3})
    planner.report("s-0", plan_id)
    planner.container.context(0).engine.carry_on(plan_id)
    return plan_id


def paused(planner: Planner) -> str:
    """Create a plan and pause it."""
    plan_id = executing(planner)
    body = {"command_id": "p", "command": "pause", "scope": "plan", "plan_id": plan_id, "actor": "me", "reason": ""}
    planner.client.xadd(keys.Partition(0).commands, {"data": codec.dumps(body)})
    with obeying(planner.container):
        wait_until(lambda: planner.view(plan_id).paused_by, what="the plan is paused")
    return plan_id


def questioned(planner: Planner) -> str:
    """Create a campaign that asks a question before it begins: which of two ways is meant."""
    goal = a_goal("Keep sessions in Redis or in memory", drafter="none", exploration=EXPLORATION)
    plan_id = planner.submit(**goal, steps=None)
    waiting = planner.view(plan_id).waiting
    assert waiting is not None
    assert "## Options" in (waiting.document or "")
    return plan_id


def lost(planner: Planner) -> str:
    """Create a plan from a goal without steps of its own, and have it halt."""
    plan_id = planner.submit(allowed_files=["src/a.py"], context={"language": "python"}, steps=None)
    planner.report("analyze-failure", plan_id, touched_files=["etc/passwd"])
    assert planner.view(plan_id).state == "HALTED"
    return plan_id


SHAPES = [executing, asking, completed, halted, rejected, retried, large]
