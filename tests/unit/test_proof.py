"""A success needs proof: what shows none is told of and marked, and fails where receipts are required."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from schemas.event import EventData
from tasks.features.unverified import is_verified
from tests.support.plans import PARTITION, PYTEST, Running, a_failure, a_report, a_step
from worker.store.history import story_of

RUFF = PYTEST.model_copy(update={"tool": "ruff", "argv": ("ruff", "check")})
PASSED = {"tool": "pytest", "exit_code": 0}
LINTED = {"tool": "ruff", "exit_code": 0}
ELSE = {"tool": "true", "exit_code": 0}

# what is said beside the success, the tools of the step, whether it is verified, whether it counts where receipts are
# required
SAID: list[tuple[dict[str, Any], tuple[Any, ...], bool | None, bool]] = [
    ({}, (), None, True),
    ({}, (PYTEST,), False, False),
    ({"verify": []}, (PYTEST,), False, False),
    ({"tests_passed": True}, (PYTEST,), True, False),
    ({"verify": [PASSED]}, (PYTEST,), True, True),
    ({"verify": [PASSED], "tests_passed": True}, (PYTEST,), True, True),
    ({"verify": [ELSE]}, (PYTEST,), False, False),
    ({"verify": [ELSE], "tests_passed": True}, (PYTEST,), False, False),
    ({"verify": [ELSE, PASSED]}, (PYTEST,), True, True),
    ({"verify": [PASSED]}, (PYTEST, RUFF), False, False),
    ({"verify": [PASSED], "tests_passed": True}, (PYTEST, RUFF), True, False),
    ({"verify": [PASSED, LINTED]}, (PYTEST, RUFF), True, True),
]


def reported(said: dict[str, Any], tools: tuple[Any, ...], **born: Any) -> Running:
    plan = Running(a_step("a", tools=tools), a_step("z", "a"), **born)
    plan.report(a_report("a", 1, plan.active["a"].lease, **said))
    return plan


def verified(plan: Running, step: str = "a") -> bool | None:
    return is_verified(plan.steps[step], plan.facts[step])


def doubts(plan: Running) -> list[dict[str, Any]]:
    entries = plan.store.stream(PARTITION.events).entries.values()
    return [codec.loads(each[b"data"]) for each in entries if each[b"type"] == b"dev.planner.outcome.unverified.v1"]


@pytest.mark.parametrize(("said", "tools", "is_proved", "counts"), SAID)
def test_a_success_without_proof_counts_and_is_told_of_and_marked(
    said: dict[str, Any], tools: tuple[Any, ...], is_proved: bool | None, counts: bool
) -> None:
    plan = reported(said, tools)

    assert plan.states["a"] == "DONE"
    assert verified(plan) is is_proved
    assert [event["verified"] for event in doubts(plan)] == ([False] if is_proved is False else [])
    assert all(EventData.model_validate(event).reason for event in doubts(plan))


@pytest.mark.parametrize(("said", "tools", "is_proved", "counts"), SAID)
def test_where_receipts_are_required_a_success_without_them_fails(
    said: dict[str, Any], tools: tuple[Any, ...], is_proved: bool | None, counts: bool
) -> None:
    plan = reported(said, tools, requires_receipts=True)

    assert plan.states["a"] == ("DONE" if counts else "ACTIVE")
    assert verified(plan) is (True if counts and tools else None)
    assert len(doubts(plan)) == (not counts)
    if not counts:
        previous = plan.steps["a"].previous or {}
        assert previous["category"] == "UNKNOWN"
        assert "receipt" in previous["suggestion"]
        assert plan.specs[-1]["context"]["previous_failure"] == previous


def test_a_receipt_that_failed_contradicts_the_success_whatever_is_required() -> None:
    for required in (False, True):
        plan = reported({"verify": [{"tool": "pytest", "exit_code": 1}]}, (PYTEST,), requires_receipts=required)

        assert (plan.steps["a"].previous or {})["category"] == "TEST_REGRESSION"
        assert doubts(plan) == []


def test_what_is_required_is_kept_among_the_limits_of_the_plan() -> None:
    kept = reported({}, (PYTEST,), requires_receipts=True).record
    free = reported({}, (PYTEST,)).record

    assert {name for name in kept.head.limits if name not in free.head.limits} == {"unproven_successes"}


def test_a_preparation_without_proof_hands_on_what_it_found_and_nothing_else() -> None:
    plan = Running(a_step("a", tools=(PYTEST,)), a_step("z", "a"))
    plan.report(a_failure("a", category="COMPILATION_ERROR"))
    (preparation,) = (step for step in plan.active if step != "a")

    plan.report(a_report(preparation))

    assert verified(plan, preparation) is False
    assert (plan.steps["a"].previous or {})["suggestion"] is None
    assert "verified" not in plan.specs[-1]["context"]["previous_failure"]


def test_explain_says_why_a_success_failed() -> None:
    plan = reported({}, (PYTEST,), requires_receipts=True)
    facts = {"a": plan.facts["a"]}

    (attempt,) = story_of(plan.log, facts)["a"]

    assert (attempt["result"], attempt["category"]) == ("RETRIED", "UNKNOWN")
    assert "receipt" in attempt["reason"]
