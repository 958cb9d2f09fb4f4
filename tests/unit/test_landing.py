"""Before its delivery a plan lands on what its target is by then: what conflicts or is red there is patched."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import RiskLevel
from schemas.times import DAY_MS
from tests.support.commands import order
from tests.support.halts import halt_in_conflict
from tests.support.plans import PYTEST, Running, a_check, a_failure, a_report, a_step, some_steps

BASE, TARGET, RESULT = 40 * "0", 40 * "1", 40 * "2"
DIGEST = 64 * "d"
DONE = {"branch": "planner/x", "pull_request": None}
RECEIPT: dict[str, Any] = {"verify": [{"tool": "pytest", "exit_code": 0}], "tests_passed": True}
RED: dict[str, Any] = {
    **RECEIPT,
    "verify": [{"tool": "pytest", "exit_code": 1}],
    "tests_passed": False,
    "verified_at": TARGET,
}
SIDES = [{"path": "src/a.py", "ours": "-old\n+ours", "theirs": "-old\n+theirs"}]


def moved(*conflicts: str, **more: Any) -> dict[str, Any]:
    """What a controller answers whose target has moved."""
    commits = [] if conflicts else [{"step_id": "a", "attempt": 1, "diff_hash": DIGEST}]
    found = {"target_sha": TARGET, "result_sha": RESULT, "conflicts": list(conflicts), "target": "main"}
    return {**found, "commits": commits, "sides": SIDES, "between": ["abc Rename add"], **more}


def landing(**more: Any) -> Running:
    """A plan that is about to land: a step that patched, and a check behind it."""
    goal = {"files": ["src/**"], "context": {"base_sha": BASE}, "delivery": {"push": True}, **more}
    plan = Running(a_step("a"), a_check("all", "a"), **goal)
    plan.report(a_report("a", diff_hash="sha256:a", touched_files=["src/a.py"]))
    plan.report(a_report("all", **RECEIPT))
    return plan


def red_twice(plan: Running, step: str = "land", message: str = "no add in calc") -> None:
    """Have the verification of a landing be red on top of the target, and again."""
    for attempt in (1, 2):
        plan.report(a_failure(step, attempt, output=moved(), error_message=message, **RED))
        plan.rest()


def spec_of(plan: Running, step_id: str) -> dict[str, Any]:
    waiting = [*plan.specs, *plan.waiting("deliver")]
    return next(spec for spec in reversed(waiting) if spec["step_id"] == step_id)


def test_it_comes_before_the_delivery_on_the_queue_of_deliveries_with_the_plans_last_verification() -> None:
    plan = landing()

    (spec,) = plan.waiting("deliver")
    assert (spec["step_id"], spec["controller_task_spec"]["type"], spec["mode"]) == ("land", "LAND", "test")
    assert (spec["requires"], spec["queue"]) == (["land"], "deliver")
    assert [tool["tool"] for tool in spec["verify_tools"]] == [PYTEST.tool]
    assert [row["step_id"] for row in spec["input"]["accepted"]] == ["a"]
    assert spec["input"]["target"] is None
    plan.report(a_report("land", output={"target_sha": BASE, "result_sha": RESULT, "conflicts": []}))
    assert spec_of(plan, "deliver")["input"]["landed"] == {"target_sha": BASE, "result_sha": RESULT}
    assert spec_of(plan, "deliver")["input"]["accepted"][0]["diff_hash"] == "sha256:a"


def test_what_was_moved_is_delivered_from_where_it_landed_with_the_digests_that_it_has_there() -> None:
    plan = landing()

    plan.report(a_report("land", output=moved(), **RECEIPT, verified_at=TARGET))

    spec = spec_of(plan, "deliver")
    assert spec["context"]["base_sha"] == TARGET
    assert spec["input"]["accepted"][0]["diff_hash"] == DIGEST
    plan.report(a_report("deliver", output=DONE))
    assert (plan.state, plan.record.delivery.target) == ("COMPLETED", "main")


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"output": {"target_sha": "main", "result_sha": RESULT, "conflicts": []}},
        {"output": {"target_sha": TARGET, "result_sha": RESULT}},
        {"output": moved(), **RECEIPT},
        {"output": moved(), **RECEIPT, "verified_at": BASE},
    ],
)
def test_a_landing_that_names_no_commits_or_was_not_verified_there_is_tried_again(said: dict[str, Any]) -> None:
    plan = landing()

    for attempt in (1, 2, 3):
        plan.report(a_report("land", attempt, **said))
        plan.rest()

    assert (plan.state, plan.record.spent["failing_outcomes"]) == ("COMPLETED", 0)
    assert "the delivery failed 3 times" in plan.record.delivery.undelivered


def test_files_in_conflict_are_patched_with_both_sides_as_data_and_then_it_lands_again() -> None:
    plan = landing()

    plan.report(a_report("land", output=moved("src/a.py")))

    spec = spec_of(plan, "bring-up-to-date")
    assert (spec["allowed_files"], spec["mode"], spec["queue"]) == (["src/a.py"], "patch", "default")
    assert spec["context"]["base_sha"] == TARGET
    assert spec["context"]["documents"] == {
        "commits-of-the-target.txt": "abc Rename add",
        "src/a.py.ours.diff": "-old\n+ours",
        "src/a.py.theirs.diff": "-old\n+theirs",
    }
    assert [tool["tool"] for tool in spec["verify_tools"]] == [PYTEST.tool]
    assert "still" not in plan.record.times  # it is work as any other
    plan.report(a_report("bring-up-to-date", diff_hash="sha256:b", touched_files=["src/a.py"], **RECEIPT))
    again = spec_of(plan, "land-2")
    assert [(row["step_id"], row["diff_hash"]) for row in again["input"]["accepted"]] == [
        ("a", None),
        ("bring-up-to-date", "sha256:b"),
    ]
    assert again["context"]["base_sha"] == TARGET
    plan.report(a_report("land-2", output={"target_sha": TARGET, "result_sha": RESULT, "conflicts": []}))
    plan.report(a_report("deliver", output=DONE))
    assert plan.state == "COMPLETED"


def test_a_verification_that_is_red_once_on_top_of_the_target_runs_again_before_a_step_is_paid() -> None:
    plan = landing()

    plan.report(a_failure("land", output=moved(), error_message="no add in calc", **RED))
    plan.rest()
    plan.report(a_report("land", 2, output=moved(), **RECEIPT, verified_at=TARGET))

    assert "bring-up-to-date" not in plan.states
    plan.report(a_report("deliver", output=DONE))
    assert (plan.state, plan.record.spent["failing_outcomes"]) == ("COMPLETED", 0)


def test_what_stays_red_on_top_of_the_target_is_mended_in_the_files_of_the_plan() -> None:
    plan = landing()

    red_twice(plan)

    spec = spec_of(plan, "bring-up-to-date")
    assert spec["allowed_files"] == ["src/a.py"]
    assert spec["context"]["previous_failure"]["trace"] == "no add in calc"
    assert plan.states["land"] == "FAILED"
    plan.report(a_report("bring-up-to-date", diff_hash="sha256:b", touched_files=["src/a.py"], **RECEIPT))
    plan.report(a_report("land-2", output=moved(), **RECEIPT, verified_at=TARGET))
    plan.report(a_report("deliver", output=DONE))
    assert plan.state == "COMPLETED"


@pytest.mark.parametrize(
    ("paths", "told"),
    [(["src/a.py", "docs/a.md"], "docs/a.md may not be changed"), ([f"src/{n}.py" for n in range(51)], "both changed")],
)
def test_a_conflict_beyond_the_allowlist_halts_with_paths_and_both_sides(paths: list[str], told: str) -> None:
    plan = landing()

    plan.report(a_report("land", output=moved(*paths)))

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "conflict")
    assert told in plan.halt["reason"]
    assert plan.halt["evidence"]["paths"] == paths[:50]
    assert plan.halt["evidence"]["sides"]["src/a.py.theirs.diff"] == "-old\n+theirs"


def test_a_person_who_looks_after_the_plan_is_asked_and_it_lands_from_what_was_accepted() -> None:
    plan = landing(approvals=("HIGH",))

    plan.report(a_report("land", output=moved("docs/a.md")))

    assert (plan.state, dict(plan.active), list(plan.record.waits)) == ("EXECUTING", {}, ["land-2"])
    plan.store.wait(2 * DAY_MS)  # longer than a delivery may go unclaimed
    plan.sweep()
    assert order(plan, "approve", "land-2") == "obeyed"
    spec = spec_of(plan, "land-2")
    assert [(row["step_id"], row["diff_hash"]) for row in spec["input"]["accepted"]] == [("a", "sha256:a")]
    assert spec["context"]["base_sha"] == BASE
    plan.report(a_report("land-2", output=moved("docs/a.md")))
    order(plan, "reject", "land-3", order_id="o-2")
    assert plan.halt["rule"] == "approval_rejected"


def test_a_plan_is_brought_up_to_date_twice_and_halts_then() -> None:
    plan = landing()
    for number in ("", "-2"):
        plan.report(a_report(f"land{number}", output=moved("src/a.py")))
        told: dict[str, Any] = {"diff_hash": f"sha256:b{number}", "touched_files": ["src/a.py"]}
        plan.report(a_report(f"bring-up-to-date{number}", **told, **RECEIPT))

    plan.report(a_report("land-3", output=moved("src/a.py")))

    assert (plan.state, plan.halt["rule"], plan.halt["evidence"]["value"]) == ("HALTED", "conflict", 2)


def test_a_plan_that_nobody_brings_up_to_date_halts() -> None:
    plan = halt_in_conflict()

    assert plan.halt["rule"] == "conflict"
    assert plan.halt["evidence"]["paths"] == ["src/a.py"]


def test_a_change_that_the_target_has_already_is_not_delivered() -> None:
    plan = landing()

    plan.report(a_report("land", output=moved(result_sha=TARGET, commits=[])))

    assert (plan.state, plan.record.delivery.undelivered) == ("COMPLETED", "the target branch has all of it already")


def test_a_step_that_brings_the_plan_up_to_date_is_as_risky_as_the_riskiest_of_eight_changes() -> None:
    steps = [*some_steps(7), a_step("s-7", risk=RiskLevel.MED)]
    goal = {"files": ["src/**"], "context": {"base_sha": BASE}, "delivery": {"push": True}}
    plan = Running(*steps, a_check("all", *(step.step_id for step in steps)), **goal)
    for step in steps:
        plan.report(a_report(step.step_id, diff_hash="sha256:a", touched_files=[f"src/{step.step_id}.py"], **RECEIPT))
    plan.report(a_report("all", **RECEIPT))
    plan.report(a_report("land", output=moved("src/s-0.py")))

    assert spec_of(plan, "bring-up-to-date")["risk_level"] == "MED"
