"""Why a plan halted, for a person: the sentence, the failing tests, and the ways on with their values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from schemas.plan import PlanView
from worker.render.failure import failure_of, sentence_of
from worker.render.time_line import AttemptTimes

LINE = {"limit": None, "reserved": 0, "spent": 7}
BUDGET = dict.fromkeys(("tokens", "patch_cycles", "failing_outcomes", "wall_clock_s"), LINE)
STEP = {
    "step_id": "fix", "state": "HALTED", "attempt": 2, "depends_on": (), "allowed_files": ("a.py",), "title": "Fix",
    "verify": "pytest", "risk_level": "LOW", "mode": "patch", "type": "PATCH", "queue": "default",
}  # fmt: skip


def view(rule: str, **evidence: Any) -> PlanView:
    known = {
        "plan_id": "plan_3c-0199aaaabbbbccccddddeeeeffff0000", "goal_id": "ci-1", "tenant": "default", "repo": None,
        "kind": "task", "goal": "Fix b", "state": "HALTED", "revision": 0, "paused": False, "waiting": None,
        "halt": {"rule": rule, "reason": "the rule's own words", "evidence": evidence}, "budget": BUDGET, "counts": {},
        "created_at": "2026-11-23T10:00:00Z", "ended_at": "2026-11-23T10:03:10Z", "steps": (STEP,),
    }  # fmt: skip
    return PlanView.model_validate(known)


def failed(number: int = 1, **told: Any) -> AttemptTimes:
    return AttemptTimes("fix", number, "ctl", 0, 0, 0, 9, "FAILED", "", {"step_id": "fix", "success": False, **told})


def sentence(rule: str, *attempts: AttemptTimes, **evidence: Any) -> str:
    halt = view(rule, **evidence).halt
    assert halt is not None
    return sentence_of(halt, attempts)


def test_the_sentence_is_for_a_person() -> None:
    red = [failed(number, failing_tests=["t.py::test_a"]) for number in (1, 2)]

    assert sentence("identical_failure", *red) == "The tests still fail after 2 attempts."
    assert sentence("cannot_revise", failed()) == "Step fix still fails after 1 attempt."
    assert sentence("budget", limit_name="tokens") == "It used up its tokens before it was done."
    assert sentence("manual", actor="ann") == "ann ended it."
    assert sentence("security", value="ALLOWLIST_VIOLATION") == "An attempt changed files that its step may not change."
    assert sentence("a_rule_of_tomorrow") == "the rule's own words"


def test_the_last_failure_is_told_with_its_tests_and_the_end_of_its_output() -> None:
    trace = "\n".join(f"line {number}" for number in range(40))
    first = failed(1, failing_tests=["old"])
    last = failed(2, failing_tests=[f"t{number}" for number in range(25)], failure_evidence={"stack_trace_head": trace})

    done = replace(last, result="DONE")

    found = failure_of(view("identical_failure"), [first, last])

    assert failure_of(view("budget"), [first, done]).tests == ()  # type: ignore[union-attr]
    assert found is not None
    assert (found.step_id, found.attempt, found.tests[0], found.more_tests) == ("fix", 2, "t0", 5)
    assert found.output.splitlines() == [f"line {number}" for number in range(25, 40)]


@pytest.mark.parametrize(
    ("rule", "evidence", "told", "ways"),
    [
        (
            "budget",
            {"unblock": "Raise what? Or raise limits.tokens from 10 to at least 20 and send the goal again."},
            {},
            [{"limit": "tokens", "limit_value": "20"}, {}],
        ),
        ("security", {}, {"touched_files": ["a.py", "b.py", "../etc/passwd"]}, [{"allow": "b.py"}, {}]),
        ("flaky", {"unblock": "Make the verification reliable."}, {}, [{}]),
    ],
)
def test_a_way_on_has_its_values(
    rule: str, evidence: dict[str, Any], told: dict[str, Any], ways: list[dict[str, str]]
) -> None:
    found = failure_of(view(rule, **evidence), [failed(**told)])

    assert found is not None
    assert [way.values for way in found.ways] == ways


def test_a_plan_that_did_not_halt_has_no_failure() -> None:
    assert failure_of(view("x").model_copy(update={"halt": None}), [failed()]) is None
