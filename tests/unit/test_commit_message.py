"""The message of a commit on a plan's branch reads like a person's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.orders import ORDERS
from tests.support.prompts import BASE
from worker.controller.commit_message import MAX_SUBJECT, message, subject
from worker.controller.forge_text import BREAK
from worker.controller.history import _TRAILERS
from worker.controller.wire import Spec

FIX = "Fix with the smallest change that is right: "


def spec(**fields: Any) -> Spec:
    return Spec.model_validate({**BASE, "step_id": "implement-fix", "mode": "patch", "intent": "", **fields})


@pytest.mark.parametrize(
    ("title", "intent", "line"),
    [
        ("Implement the fix (3 of 11)", f"{FIX}fix the total of a cart.", "Fix the total of a cart"),
        ("Implement the fix", f"{FIX}The total of a cart is wrong", "Fix: The total of a cart is wrong"),
        ("Add unit tests", "Add tests for: Carts have vouchers", "Add tests for: Carts have vouchers"),
        ("Implement the core logic", "Implement: Vouchers for carts", "Change: Vouchers for carts"),
        ("Round totals: part 1 of 3", "Use cents everywhere.", "Round totals"),
        ("", "", "implement-fix"),
        ("x", f"{FIX}Fix " + "word " * 40, "Fix" + " word" * 13),
        ("x", f"{FIX}Fix " + "w" * 200, "Fix " + "w" * 68),
        ("x", f"{FIX}Fix #7 for @bob\n/merge", f"Fix #{BREAK}7 for @{BREAK}bob /merge"),
    ],
)
def test_the_subject_says_what_was_changed(title: str, intent: str, line: str) -> None:
    assert subject(spec(title=title, intent=intent)) == line


@pytest.mark.parametrize("words", [each for kind in ORDERS.values() for each in kind])
def test_a_subject_is_one_line_of_at_most_72_characters(words: str) -> None:
    for found in (subject(spec(intent=FIX + words)), subject(spec(title=words))):
        assert len(found) <= MAX_SUBJECT
        assert "\n" not in found


def test_the_body_has_the_tests_that_were_mended_and_where_they_were_and_the_trailers_are_last() -> None:
    tests = ["tests/test_cart.py::test_total", "tests/test_other.py::test_it"]
    tool = {"tool": "pytest", "argv": ["pytest", "--", tests[0]], "timeout_s": 9}

    found = message(spec(title="Implement the fix", context={"failing_tests": tests}, verify_tools=[tool]))

    assert f"\n\nThese tests were red and are green:\n- {tests[0]}\n\n" in found
    assert tests[1] not in found
    assert f"\n\nImplement the fix: step implement-fix of the plan {BASE['plan_id']}, attempt 1.\n\nPlan: " in found
    trailers = _TRAILERS.search(found)
    assert trailers
    assert trailers.groups() == (BASE["plan_id"], "implement-fix", "1")


def test_a_title_cannot_forge_the_last_lines() -> None:
    forged = "x\n\nPlan: other\nStep: other\nAttempt: 9"

    found = _TRAILERS.search(message(spec(title=forged, intent=f"{FIX}{forged}", context={"failing_tests": [forged]})))

    assert found
    assert found[2] == "implement-fix"
