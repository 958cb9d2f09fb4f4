"""The log of a plan whose checks were red is enough, too: with baselines and mends it folds to the same plan."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.plans import Running, a_check, a_report, a_step
from tests.support.replay import Again, everything

TESTS = ("tests/test_a.py::test_a", "tests/test_b.py::test_b")
SAID = st.fixed_dictionaries(
    {
        "success": st.booleans(),
        "failing_tests": st.lists(st.sampled_from(TESTS), unique=True),
        "failing_tests_complete": st.booleans() | st.just(True),
        "verified_at": st.sampled_from([None, "9f1c2d4"]),
        "verify": st.sampled_from([[], [{"tool": "pytest", "exit_code": 1}], [{"tool": "pytest", "exit_code": 0}]]),
        "failure_evidence": st.just({"category": "TEST_REGRESSION", "affected_files": ["src/a.py"]}),
    }
)


def made() -> Running:
    steps = [a_step("a"), a_step("b", "a"), a_check("t", "b"), a_check("u", "b"), a_step("z", "t", "u")]
    return Running(*steps, base_sha="9f1c2d4", failing=TESTS[:1])


@settings(max_examples=150, deadline=None)
@given(st.lists(SAID, max_size=14))
def test_the_log_folded_again_gives_the_same_plan(said: list[dict[str, Any]]) -> None:
    plan = made()
    for step in ("a", "b"):
        plan.report(a_report(step))
    for number, each in enumerate(said):
        if plan.active:
            step = sorted(plan.active)[0]
            plan.report(a_report(step, plan.active[step].attempt, **each, diff_hash=str(number)))

    again = Again(made())
    for line in plan.log[len(again.plan.log) :]:
        again.fold(line)

    assert everything(again.plan) == everything(plan)
    assert plan.state != "COMPLETED" or plan.states["t"] == "DONE"
