"""`planner review`: what waits for a person, the oldest first, with minutes of reading."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.plan import PlanSummary
from worker.render.review import to_review

LINE = {"limit": None, "reserved": 0, "spent": 0}
BUDGET = dict.fromkeys(("tokens", "patch_cycles", "failing_outcomes", "wall_clock_s"), LINE)
ENDED = "2026-11-20T12:00:00Z"


def a_plan(number: int = 1, **fields: Any) -> PlanSummary:
    usual: dict[str, Any] = {
        "plan_id": f"plan_00-{number:032x}", "goal_id": "g", "tenant": "default", "repo": "acme/shop", "kind": "task",
        "goal": "Fix it", "state": "COMPLETED", "revision": 1, "paused": False, "waiting": None, "halt": None,
        "budget": BUDGET, "counts": {}, "created_at": "2026-11-19T12:00:00Z", "ended_at": ENDED, "branch": "planner/x",
    }  # fmt: skip
    return PlanSummary.model_validate(usual | fields)


def delivered(state: str, **more: Any) -> dict[str, Any]:
    return {"delivery": {"state": state, "since": "2026-11-21T12:00:00Z", "times": {}, **more}}


@pytest.mark.parametrize(
    ("fields", "what", "minutes"),
    [
        ({}, "review its branch", 5),
        ({"lines": 3}, "review its branch", 1),
        ({"lines": 400, **delivered("OPEN")}, "review", 60),
        (delivered("CHECKS_RED"), None, 0),
        (delivered("CHECKS_RED", handed_over="two rounds did not help"), "go on: two rounds did not help", 5),
        (delivered("MERGED"), None, 0),
        ({"branch": None}, None, 0),
        ({"state": "HALTED"}, None, 0),
        (
            {"state": "EXECUTING", "ended_at": None, "waiting": {"kind": "approval", "questions": ["May it?", "And?"]}},
            "approve or reject",
            4,
        ),
        ({"state": "CREATED", "ended_at": None, "waiting": {"kind": "draft", "questions": []}}, None, 0),
    ],
)
def test_what_waits_for_a_person_has_minutes_and_nothing_else_is_listed(
    fields: dict[str, Any], what: str | None, minutes: int
) -> None:
    found = to_review([a_plan(**fields)])

    assert [(each.what, each.minutes) for each in found] == ([(what, minutes)] if what else [])


def test_the_oldest_comes_first_and_each_plan_once() -> None:
    late, early = a_plan(1, **delivered("OPEN")), a_plan(2)

    assert [each.plan_id for each in to_review([late, early, late])] == [early.plan_id, late.plan_id]
