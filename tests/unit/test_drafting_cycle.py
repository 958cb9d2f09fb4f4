"""Draft, judge, repair, fall back: the one cycle, for a drafter that the worker asks and for a step that asks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schemas.base import Mode, StepType
from schemas.envelope import field_error
from schemas.goal import Goal
from tasks.rules.strategy import Answer, Consult, Draft, Drafted, End, Expansion, Rejected
from tasks.rules.validation import MAX_RETRIES, validate
from tasks.strategies.drafting.cycle import (
    MAX_ATTEMPTS,
    QueueCycle,
    Refusal,
    WorkerCycle,
    attempts_within,
    draft_step,
    failure,
)
from tasks.strategies.drafting.project import Project, project_of, read_test_command
from tasks.strategies.drafting.steps import crowd, room_for
from tasks.toolchain.catalogue import CATALOGUE

GOOD, ALSO_GOOD, BAD, AWAY = "plan a", "plan b", "nonsense", "HTTP 500"
REFUSAL = Refusal((field_error("/steps", "no_plan", "This is no plan."), field_error("/", "x", "And more.")))


def a_goal(**fields: Any) -> Goal:
    return Goal.model_validate({"goal": "Fix it"} | fields)


def judge(output: Any) -> str | Refusal:
    return output.removeprefix("plan ") if output.startswith("plan ") else REFUSAL


def said(output: str) -> Drafted:
    return Drafted(None, output, 10) if output == AWAY else Drafted(output, None, 10)


def answer(*outputs: str, attempts: int = 2, asks_again: bool = True) -> Answer:
    """Ask a kind that repairs with what was wrong, and rejects a goal without a draft."""

    def repair(last: Drafted, refusal: Refusal) -> Consult | None:
        return Consult(f"again, {last.output or last.error}: {refusal.message}") if asks_again else None

    return WorkerCycle(
        attempts=attempts,
        ask=Consult("first"),
        judge=judge,
        silence=failure,
        repair=repair,
        accept=lambda plan, drafted: Draft((), {"plan": plan, "attempts": len(drafted)}),
        fall_back=lambda refusal, drafted: Rejected(f"after {len(drafted)}", refusal.errors),
    ).answer([said(output) for output in outputs])


TOLD = "/steps: This is no plan.; /: And more."


@pytest.mark.parametrize(
    ("outputs", "attempts", "found"),
    [
        ((), 2, Consult("first")),
        ((GOOD,), 2, Draft((), {"plan": "a", "attempts": 1}, tokens=10)),
        ((BAD,), 2, Consult(f"again, {BAD}: {TOLD}")),
        ((AWAY,), 2, Consult(f"again, {AWAY}: /drafter: {AWAY}")),
        ((BAD, ALSO_GOOD), 2, Draft((), {"plan": "b", "attempts": 2}, tokens=20)),
        ((BAD, BAD), 2, Rejected("after 2", REFUSAL.errors, tokens=20)),
        ((BAD, AWAY), 2, Rejected("after 2", (failure(AWAY),), tokens=20)),
        ((BAD, BAD), 3, Consult(f"again, {BAD}: {TOLD}")),
        ((BAD,), 1, Rejected("after 1", REFUSAL.errors, tokens=10)),
    ],
)
def test_a_worker_asks_until_an_answer_is_of_use_or_the_attempts_are_over(
    outputs: tuple[str, ...], attempts: int, found: Answer
) -> None:
    assert answer(*outputs, attempts=attempts) == found


@pytest.mark.parametrize("output", [BAD, AWAY])
def test_where_asking_again_is_no_use_the_kind_falls_back_at_once(output: str) -> None:
    assert isinstance(answer(output, attempts=5, asks_again=False), Rejected)


def unfolding(why: str) -> Expansion:
    return Expansion({}, None, why)


QUEUED: QueueCycle[str] = QueueCycle(
    judge=judge,
    accept=lambda plan, end: unfolding(f"{plan} at attempt {end.attempt}"),
    fall_back=lambda end, refusal: unfolding(f"{end.state}: {refusal.message if refusal else 'no answer'}"),
)


@pytest.mark.parametrize(("output", "refused"), [(GOOD, None), (BAD, REFUSAL)])
def test_an_answer_of_a_step_is_refused_by_the_same_judge(output: str, refused: Refusal | None) -> None:
    assert QUEUED.refusal(output) == refused


@pytest.mark.parametrize(
    ("state", "output", "why"),
    [
        ("DONE", GOOD, "a at attempt 2"),
        ("DONE", BAD, f"DONE: {TOLD}"),
        ("FAILED", GOOD, "FAILED: no answer"),
        ("SKIPPED", None, "SKIPPED: no answer"),
    ],
)
def test_only_a_step_that_is_done_has_a_draft(state: str, output: str | None, why: str) -> None:
    is_drafted = (state, output) == ("DONE", GOOD)

    assert QUEUED.go_on(End("draft-plan", {}, state, output, attempt=2)) == replace(
        unfolding(why), is_drafted=is_drafted
    )


@pytest.mark.parametrize("attempts", [-1, 0, 1, 2, 4, 9])
def test_the_step_that_asks_only_reads_and_may_be_retried_as_any_step(attempts: int) -> None:
    goal = a_goal(allowed_files=["a.py"])

    step = draft_step(goal, "ask", title="Ask", intent="Ask", guidance="Answer", attempts=attempts, read=4000)

    assert (step.controller_task_spec.type, step.mode, step.allowed_files) == (StepType.DRAFT, Mode.READ_ONLY, ())
    assert 0 <= step.retry_limit == min(max(attempts, 1), MAX_ATTEMPTS) - 1 <= MAX_RETRIES
    assert (
        step.estimate.tokens
        == 1000 + draft_step(goal, "ask", title="Ask", intent="Ask", guidance="Answer", attempts=1).estimate.tokens
    )
    assert validate(goal, [step]) == ()


@pytest.mark.parametrize(
    ("failures", "wanted", "attempts"), [(None, 2, 2), (None, 9, 2), (1, 2, 1), (2, 2, 1), (9, 9, 4), (9, 0, 1)]
)
def test_a_step_asks_no_more_often_than_a_plan_may_fail_in_a_row(
    failures: int | None, wanted: int, attempts: int
) -> None:
    assert attempts_within(a_goal(limits={"consecutive_failures": failures}), wanted) == attempts


@pytest.mark.parametrize(("before", "room"), [(0, 10), (1, 9), (10, 0)])
def test_there_is_room_for_as_many_steps_as_the_goal_allows(before: int, room: int) -> None:
    assert room_for(a_goal(limits={"max_steps": 10}), before) == room


def test_nobody_adds_more_than_one_commit_takes() -> None:
    assert room_for(a_goal(limits={"max_steps": 1000}), 1) == 64


def test_a_crowd_says_what_makes_it_and_what_there_is_room_for() -> None:
    step = draft_step(a_goal(), "ask", title="Ask", intent="Ask", guidance="Answer", attempts=1)

    assert crowd([step, step], 2) == ()
    (error,) = crowd([step, step], 1, "These tasks", "/tasks")
    assert (error.pointer, error.code) == ("/tasks", "too_many_steps")
    assert error.message == "These tasks make 2 steps, and there is room for 1."


@pytest.mark.parametrize("command", [None, "", "  "])
def test_a_goal_need_not_say_how_it_is_tested(command: str | None) -> None:
    assert read_test_command(a_goal(context={"test_command": command}), CATALOGUE.match) == (None, ())


def test_a_test_command_that_nobody_knows_is_an_error_of_the_goal() -> None:
    goal = a_goal(allowed_files=["../x"], context={"test_command": "rm -r ."})

    tool, (error,) = read_test_command(goal, CATALOGUE.match)
    found = project_of(goal, CATALOGUE)

    assert tool is None
    assert (error.pointer, error.code) == ("/context/test_command", "unknown_test_command")
    assert not isinstance(found, Project)
    assert {each.pointer for each in found} == {"/allowed_files/0", "/context/test_command"}
