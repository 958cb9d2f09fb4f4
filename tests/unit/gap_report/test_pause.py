"""After so many failed iterations in a row, of whatever gaps, a person is asked before the next one begins."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.rules.strategy import Draft
from tasks.strategies.gap_report.history import GapHistory
from tests.corpus.goals import scene
from tests.corpus.play import Player
from tests.support.commands import order
from tests.support.kinds.gap_report import a_gap, a_goal, answered, drafted, records
from tests.support.plans import a_report

A, B, C = (a_gap(f"Create src/{name}.py") for name in "abc")
ALLOWED = ["src/a.py", "src/b.py", "src/c.py"]


def goal_after(*outcomes: str, **more: Any) -> Any:
    told = [(gap, outcome) for gap, outcome in zip((A, B, C) * 3, outcomes, strict=False)]
    return a_goal(C, allowed=ALLOWED, recent_records=records(*told), **more)


@pytest.mark.parametrize(
    ("outcomes", "counted", "after", "asks"),
    [
        (["failure", "rollback", "failure"], 0, 3, True),
        (["failure", "failure", "failure"], 0, 0, False),
        (["failure", "failure"], 0, 3, False),
        (["failure", "success", "failure", "failure"], 0, 3, False),
        (["failure", "partial", "failure", "failure"], 0, 3, False),
        ([], 3, 3, True),
        ([], 2, 3, False),
        (["success"], 5, 3, False),  # its number says that it is the newest of all
    ],
)
def test_failures_of_any_gaps_count_in_a_row(outcomes: list[str], counted: int, after: int, asks: bool) -> None:
    recall = {"failed": counted, "iterations": len(outcomes)}

    made = answered(goal_after(*outcomes), recall, gap_pause_after=after)

    assert isinstance(made, Draft)
    assert (made.question is not None, made.steps == ()) == (asks, asks)
    assert (made.streak or "").split()[1:] == (["failed"] if after else [])


def test_a_yes_lets_the_iteration_begin_and_nothing_else_does() -> None:
    body = goal_after(*["failure"] * 3, context={"repo": "acme/shop"}).model_dump(mode="json", exclude_unset=True)
    plan = Player(scene(body, options={"gap_pause_after": 3}))
    assert (plan.state, plan.states) == ("CREATED", {})

    assert order(plan, "answer", value="not yet") == "refused"
    assert (plan.state, plan.states) == ("CREATED", {})

    assert order(plan, "answer", value="Yes.", order_id="second") == "obeyed"
    assert list(plan.states) == ["action-1", "verify"]
    plan.report(a_report("action-1", touched_files=["src/c.py"], created_files=["src/c.py"]))
    plan.report(a_report("verify", touched_files=[]))
    assert plan.state == "COMPLETED"


def test_an_iteration_that_ends_counts_for_all_and_for_its_gap() -> None:
    made = drafted(goal_after(), {}, gap_pause_after=3)

    assert GapHistory.of((), {"failed": 2, (made.streak or "").split()[0]: 1}).failed_in_a_row == 2
