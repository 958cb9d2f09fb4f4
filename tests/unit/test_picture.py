"""How plans are drawn: the tree of steps, and what fits on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from schemas.plan import PlanView, StepView
from worker.render.explanation import draw as explain
from worker.render.explanation import explanation
from worker.render.plan import arrange, overview, plain, portrait
from worker.render.result import result_of
from worker.render.summary import page_of_plan

CREATED = "2026-11-21T22:00:00.000Z"
LINE = {"limit": 100_000, "reserved": 20_000, "spent": 40_000}


def step(step_id: str, *depends_on: str, **fields: Any) -> StepView:
    known = {"state": "PENDING", "attempt": 0, "allowed_files": (), "verify": "", "risk_level": "LOW", "title": "T"}
    kind = {"mode": "patch", "type": "PATCH", "queue": "default"}
    return StepView.model_validate({**known, **kind, "step_id": step_id, "depends_on": depends_on, **fields})


def plan(*steps: StepView, **fields: Any) -> PlanView:
    names = ("tokens", "patch_cycles", "failing_outcomes", "wall_clock_s")
    known = {
        "plan_id": "plan_3c-0199aaaabbbbccccddddeeeeffff0000", "goal_id": "ci-1", "kind": "task", "goal": "Fix it",
        "tenant": "acme", "repo": None, "state": "EXECUTING", "revision": 1, "paused": False, "waiting": None,
        "halt": None, "counts": {"DONE": 1},
        "budget": dict.fromkeys(names, LINE), "created_at": CREATED, "ended_at": None, "steps": steps,
    }  # fmt: skip
    return PlanView.model_validate({**known, **fields})


def drawn(picture: Any, width: int = 80) -> str:
    page = StringIO()
    Console(file=page, width=width).print(picture)
    return page.getvalue()


def tree(steps: Sequence[StepView]) -> list[str]:
    return [branch + each.step_id for branch, each in arrange(steps)]


@pytest.mark.parametrize(
    ("steps", "lines"),
    [
        ([], []),
        ([step("a")], ["a"]),
        ([step("a"), step("b", "a"), step("c", "b")], ["a", "b", "c"]),
        ([step("a"), step("b")], ["├ a", "└ b"]),
        (
            [step("a"), step("b", "a"), step("b2", "b"), step("c", "a"), step("d", "b2", "c")],
            ["a", "├ b", "│ b2", "│ d", "└ c"],
        ),
        (
            [step("a"), step("b", "a"), step("c", "b"), step("d", "b"), step("e", "a")],
            ["a", "├ b", "│ ├ c", "│ └ d", "└ e"],
        ),
        ([step("a", "not-shown")], ["a"]),
    ],
)
def test_what_follows_stands_flat_and_what_branches_is_indented(steps: list[StepView], lines: list[str]) -> None:
    assert tree(steps) == lines


def test_a_chain_of_thousands_is_drawn_without_indentation_or_recursion() -> None:
    chain = [step("s0"), *(step(f"s{number}", f"s{number - 1}") for number in range(1, 5000))]
    assert tree(list(reversed(chain))) == [f"s{number}" for number in range(5000)]


@pytest.mark.parametrize("width", [80, 120])
def test_a_plan_fits_on_the_terminal(width: int) -> None:
    files = tuple(f"src/a/rather/long/path/to/file_{number}.py" for number in range(10))
    steps = [step("a" * 64, title="t" * 100, allowed_files=files, verify="pytest " + "x" * 200)]
    halt = {"rule": "wall_clock", "reason": "r" * 300, "evidence": {}}
    picture = drawn(portrait(plan(*steps, goal="g" * 300, halt=halt)), width)
    assert max(map(len, picture.splitlines())) <= width
    assert picture.replace("\n", "").replace(" ", "").count("t" * 20) >= 1


@pytest.mark.parametrize("width", [80, 120])
def test_plans_fit_on_the_terminal_one_a_line(width: int) -> None:
    picture = drawn(overview([plan(goal="g" * 300), plan(state="COMPLETED", paused=True)]), width)
    assert len(picture.splitlines()) == 3
    assert max(map(len, picture.splitlines())) <= width


def test_a_plans_age_is_told_in_one_unit() -> None:
    ages = {datetime(2026, 11, 21, 22, 0, 5, tzinfo=UTC): "5 s", datetime(2026, 11, 22, 3, tzinfo=UTC): "5 h"}
    for now, age in ages.items():
        assert f" {age} " in drawn(overview([plan()], now))


def test_a_bar_shows_what_is_spent_and_what_is_held() -> None:
    picture = drawn(portrait(plan(step("a"))))
    assert "████████▒▒▒▒░░░░░░░░  40,000 of 100,000, 20,000 held" in picture


def test_steps_that_a_halted_plan_never_ran_are_shown_as_not_run() -> None:
    halted = plan(step("a", state="HALTED"), step("b", "a", state="BLOCKED"), state="HALTED")
    assert "not run" in drawn(portrait(halted))
    assert "not run" not in drawn(portrait(halted.model_copy(update={"state": "EXECUTING"})))


def test_a_step_that_waited_for_another_attempt_when_its_plan_ended_is_shown_as_not_run_again() -> None:
    halted = plan(step("a", state="ACTIVE", attempt=1), step("b", "a", state="BLOCKED"), state="HALTED")
    tried = {"at": "2026-11-21T22:00:00.000Z", "attempt": 1, "result": "FAILED", "category": None, "reason": None}

    explained = explanation(halted, {"a": [tried]}, None)
    result = result_of(halted, (), {}, {}, datetime.now(UTC))

    for shown in (drawn(portrait(halted)), drawn(explain(explained)), page_of_plan(halted, explained, result)):
        assert "not run again" in shown
        assert "ACTIVE" not in shown
        assert "BLOCKED" not in shown


def test_a_success_that_nothing_proves_is_shown_as_such() -> None:
    done = [step(name, state="DONE", verified=known) for name, known in (("a", True), ("b", False), ("c", None))]

    assert drawn(portrait(plan(*done))).count("not verified") == 1


def test_an_explanation_names_what_nothing_proves() -> None:
    view = plan(step("a", state="DONE", verified=False), step("b", state="DONE", verified=True))
    explained = explanation(view, {}, None)

    assert [each["verified"] for each in explained["steps"]] == [False, True]
    assert drawn(explain(explained)).count("not verified") == 1


def test_a_long_plan_says_how_many_steps_are_left_out() -> None:
    long = plan(*(step(f"s{number}") for number in range(300)))
    assert "... and 100 more steps (--all)" in drawn(portrait(long, most_steps=200))


def test_a_plan_that_waits_shows_its_questions() -> None:
    waiting = {"kind": "CLARIFY", "questions": ["Which file?"], "until": None}
    assert "Which file?" in drawn(portrait(plan(waiting=waiting)))


def test_texts_cannot_steer_the_terminal() -> None:
    assert plain("a\x1b[31mb\r\nc\x9bd\u202ee") == "a [31mb  c d e"
    hostile = plan(step("a", title="\x1b]0;x\x07[red]", answer="\x1b[2Jsaid " * 90), goal="\x1b[2J[bold]")
    assert "\x1b" not in drawn(portrait(hostile)) + drawn(overview([hostile]))
    assert "[bold]" in drawn(portrait(hostile))
    assert "answered:  [2Jsaid" in drawn(portrait(hostile))
