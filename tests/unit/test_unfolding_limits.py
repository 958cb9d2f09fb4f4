"""A plan that unfolds is held to what every plan is held to: halts, clocks, ids, and its drafting is paid for once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schemas import codec
from schemas.command import Command
from schemas.goal import Goal
from tasks.handlers import goals
from tasks.plan.changeset import Changeset
from tasks.plan.snapshot import Clocks, Grant
from tasks.policy import waits
from tasks.rules.strategy import Draft, Question, Rejected
from tests.support.growing import Script, goes_on, growing
from tests.support.memory_store import EPOCH_MS, MemoryStore
from tests.support.plans import (
    PARTITION,
    PLAN,
    PYTEST,
    Running,
    a_failure,
    a_goal,
    a_plan_seed,
    a_report,
    a_step,
    some_steps,
)
from worker.store.plans import Write

HOUR_MS = 3_600_000
PATIENCE_MS = HOUR_MS
ASKED = Question("clarify", ("Which file?",))
BUDGET = {"tenant:acme": Grant(10**6)}


def order(name: str, step: str | None = None, value: Any = None) -> Command:
    about = {"scope": "step" if step else "plan", "plan_id": PLAN, "step_id": step, "value": value}
    who = {"command_id": f"{name}-{step}", "actor": "ada", "reason": "because"}
    return Command.model_validate({**about, **who, "command": name})


def test_a_flaky_verification_halts_a_plan_that_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    following = {"a": "b", "b": "c"}
    script = Script(on_end=lambda _, end: goes_on(a_step(following[end.step_id], tools=(PYTEST,), retries=3)))
    plan = growing(monkeypatch, script, a_step("a", tools=(PYTEST,), retries=3), flaky_flips=3)

    for number, step in enumerate("aabb"):
        said = a_report if number % 2 else a_failure
        plan.report(said(step, tests_passed=bool(number % 2), diff_hash=str(number)))

    assert plan.halt["rule"] == "flaky"


def test_outages_while_it_asks_lengthen_no_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(on_answer=lambda *_: goes_on(a_step("a")))
    plan = growing(monkeypatch, script, question=ASKED, wall_clock_s=1800)
    plan.outage(6 * HOUR_MS)
    plan.look()
    plan.outage(6 * HOUR_MS)  # nobody has noticed this one yet

    plan.obey(order("answer", value="this one"))
    plan.look()

    assert waits.wall_clock_ends(plan.record) == plan.record.times["ready"] + 1_800_000


def test_what_is_added_cannot_take_the_name_of_a_preparation(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = goes_on(a_step("b-1-syntax-check", files=["src/c.py"]))
    script = Script(on_end=lambda _, end: taken if end.step_id == "z" else None)
    plan = growing(
        monkeypatch, script, a_step("b-1", files=["src/b.py"], tools=(PYTEST,)), a_step("z", files=["src/d.py"])
    )
    plan.report(a_failure("b-1", category="COMPILATION_ERROR"))
    assert "b-1-syntax-check" in plan.states

    plan.report(a_report("z"))

    assert [error["code"] for error in plan.halt["evidence"]["errors"]] == ["duplicate_step_id"]


def test_a_plan_that_was_rescued_before_its_first_step_can_use_up_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    rescued = goes_on(a_step("b", files=["src/b.py"]), replaces=True)
    script = Script(on_stuck=lambda _: rescued)
    plan = growing(monkeypatch, script, a_step("a", files=["src/a.py"]), approvals=["LOW"], tokens=1000)
    plan.obey(order("tighten", value={"allowed_files": ["src/b.py"]}))
    plan.obey(order("approve", "a"))
    plan.obey(order("approve", "b"))
    assert plan.active.keys() == {"b"}

    plan.report(a_failure("b", metrics={"tokens_used": 5000}))
    if plan.record.waits:
        plan.obey(order("approve", "b"))

    assert plan.halt["rule"] == "budget"


@pytest.mark.parametrize("tokens", [999, 1000, 120_000])
def test_a_draft_as_dear_as_the_plan_leaves_nothing_for_its_steps(tokens: int) -> None:
    plan = Running(*some_steps(2), draft={"tokens": tokens}, tokens=1000)

    assert plan.record.spent["tokens"] == min(tokens, 1000)  # no plan costs more than its limit
    assert plan.state == ("EXECUTING" if tokens < 1000 else "HALTED")
    assert tokens < 1000 or plan.halt["rule"] == "budget"


def made(name: str) -> list[Changeset]:
    """The commits of a goal whose draft took 5000 tokens and is counted."""
    plan_seed, goal = replace(a_plan_seed(), grants=BUDGET), a_goal(tenant="acme", repo="acme/shop", kind="campaign")
    steps = {"a step": 1, "one commit": 3, "several commits": 200}.get(name, 0)
    draft = Draft(tuple(some_steps(steps)), tokens=5000, counted="iterations")
    if name == "a question":
        return list(goals.accept(plan_seed, goal, replace(draft, state={}, question=ASKED)))
    if name == "a refusal":
        return [goals.refuse(plan_seed, goal, Rejected("no_use", (), tokens=5000))]
    return list(goals.accept(plan_seed, goal, draft))


@pytest.mark.parametrize("name", ["a step", "one commit", "several commits", "a question", "a refusal"])
def test_a_draft_is_paid_for_once_by_the_plan_and_the_day(name: str) -> None:
    changes = made(name)

    spent = [codec.loads(change.fields["live"])["spent"]["tokens"] for change in changes]
    assert spent == [0] * (len(changes) - 1) + [5000]
    held = codec.loads(changes[-1].fields["live"])["reserved"]["tokens"]
    assert [change.taken for change in changes] == [{}] * (len(changes) - 1) + [{"tenant:acme": 5000 + held}]


@pytest.mark.parametrize("name", ["one commit", "several commits", "a question"])
def test_a_draft_is_counted_by_the_commit_that_makes_its_plan(name: str) -> None:
    assert [len(change.history) for change in made(name)] == [0] * (len(made(name)) - 1) + [1]


def drafting() -> Running:
    """A plan in CREATED that a drafter is asked about."""
    plan = Running.__new__(Running)
    plan.plan_id, plan.store, plan.keys = PLAN, MemoryStore(PARTITION), PARTITION.plan(PLAN)
    plan.clocks, plan.short_of_memory, plan.changes = Clocks(), False, []
    plan.store.commit([Write(goals.await_draft(a_plan_seed(), a_goal(), PATIENCE_MS))])
    return plan


def test_a_drafter_that_says_nothing_in_time_ends_the_plan() -> None:
    plan = drafting()

    plan.store.wait(PATIENCE_MS)
    plan.sweep()

    assert plan.state == "REJECTED"
    assert plan.halt["rule"] == "answer_deadline"
    assert plan.halt["evidence"]["events"][0]["what"] == "plan.drafting"


def test_no_drafter_is_late_because_the_planner_was_away() -> None:
    plan = drafting()
    plan.outage(3 * HOUR_MS)

    plan.sweep()
    assert plan.state == "CREATED"
    plan.store.wait(PATIENCE_MS)
    plan.sweep()
    assert plan.state == "REJECTED"


def test_a_plan_is_as_old_as_what_was_asked_about_it() -> None:
    plan_seed = replace(a_plan_seed(), created=EPOCH_MS - HOUR_MS)

    (change,) = goals.accept(plan_seed, a_goal(), Draft(tuple(some_steps(1))))

    assert codec.loads(change.fields["live"])["times"]["created"] == EPOCH_MS - HOUR_MS


def test_what_a_goal_says_beyond_its_fields_is_not_read_with_every_decision() -> None:
    junk = {"junk": "x" * 1000}
    goal = Goal.model_validate(
        {**a_goal(kind="campaign").model_dump(mode="json"), **junk, "context": junk, "limits": junk}
    )

    (change,) = goals.accept(a_plan_seed(), goal, Draft((), state={}, question=ASKED))

    assert b"xxx" not in change.fields["strategy_state"]
