"""A success that changed the test that it was to make pass is told as unverified, before anything else."""

from __future__ import annotations

from tests.support.plans import Running, a_report
from tests.support.wide_steps import GLOBS, a_wide_step

TEST = "tests/test_it.py"
DOUBT = f"unverified: the failing test itself was changed ({TEST})"


def test_a_change_of_the_failing_test_is_no_violation_and_told() -> None:
    plan = Running(a_wide_step(excluded=(TEST,)), files=GLOBS)

    plan.report(a_report("a", touched_files=["src/a.py", TEST]))

    assert plan.state == "COMPLETED"
    assert plan.record.changed_tests.doubt == DOUBT
    assert (plan.steps["a"].previous or {})["verified"] is False
    assert "dev.planner.outcome.unverified.v1" in plan.events


def test_a_test_that_the_goal_names_may_be_changed() -> None:
    step = a_wide_step(excluded=(TEST,), files=["src/a.py", TEST])
    plan = Running(step, files=[*GLOBS, TEST])

    plan.report(a_report("a", touched_files=["src/a.py", TEST]))

    assert (plan.state, plan.record.changed_tests.doubt) == ("COMPLETED", None)


def test_an_attempt_that_failed_casts_no_doubt() -> None:
    plan = Running(a_wide_step(excluded=(TEST,)), files=GLOBS)

    plan.report(a_report("a", success=False, touched_files=[TEST]))
    plan.report(a_report("a", touched_files=["src/a.py"]))

    assert (plan.state, plan.record.changed_tests.doubt) == ("COMPLETED", None)
