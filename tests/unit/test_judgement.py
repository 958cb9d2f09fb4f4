"""What becomes of an outcome: the verdicts of docs/wire.md, as a table."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from schemas.base import MODE_OF_TYPE, StepType
from schemas.outcome import Outcome
from schemas.step import VerifyTool
from tasks.handlers import outcomes
from tasks.policy.outcome_verdict import failure_of
from tests.support.plans import PARTITION, PLAN, PYTEST, Running, a_failure, a_report, a_step
from worker.store.plans import Ask, Write

OBSERVING = PYTEST.model_copy(update={"pass_codes": (0, 1)})
SECOND = "lease of the second attempt"
FIRST = "lease of the first attempt"
SAME = "what the first attempt reported"


def in_second_attempt() -> tuple[Running, dict[str, str]]:
    """A plan whose step `a` failed once and is in flight again; `z` waits, `b` is done."""
    plan = Running(a_step("a"), a_step("b"), a_step("z", "a"), max_parallel=2)
    leases = {FIRST: plan.active["a"].lease}
    plan.report(a_failure("a", 1), a_report("b", 1))
    return plan, leases | {SECOND: plan.active["a"].lease}


@pytest.mark.parametrize(
    ("step", "attempt", "lease", "said", "verdict"),
    [
        # the live attempt, named in every way
        ("a", 2, SECOND, "", "applied"),
        ("a", 2, None, "", "applied"),
        ("a", None, SECOND, "", "applied"),
        ("a", None, None, "", "applied"),
        # the same bytes as the last applied outcome of the step
        ("a", None, None, SAME, "duplicate"),
        ("a", 1, None, SAME, "duplicate"),
        ("a", 1, FIRST, SAME, "duplicate"),
        ("a", None, FIRST, SAME, "duplicate"),
        ("a", 2, None, SAME, "applied"),  # it says which attempt it means: a second failure just like the first
        ("a", None, SECOND, SAME, "applied"),
        # an attempt that is over
        ("a", 1, None, "", "late"),
        ("a", 1, FIRST, "", "late"),
        ("a", 1, SECOND, "", "late"),
        ("b", 1, None, "", "late"),
        # no live attempt, or not with this lease
        ("a", 2, FIRST, "", "refused"),
        ("a", 2, "guessed", "", "refused"),
        ("a", None, FIRST, "", "refused"),
        ("a", None, "guessed", "", "refused"),
        ("a", 3, None, "", "refused"),
        ("a", 3, SECOND, "", "refused"),
        ("z", None, None, "", "refused"),
        ("z", 1, None, "", "refused"),
        ("b", None, None, "", "refused"),
        # no such step
        ("nobody", None, None, "", "unknown"),
        ("nobody", 1, "x", "", "unknown"),
    ],
)
def test_an_outcome_has_its_verdict(step: str, attempt: int | None, lease: str | None, said: str, verdict: str) -> None:
    plan, leases = in_second_attempt()
    before = (plan.record.version, plan.states, plan.log)
    report = a_failure(step, attempt) if said == SAME else a_report(step, attempt, diff_hash="new")
    report = a_report(step, attempt, leases.get(lease or "", lease), **_said(report))

    (found,) = plan.report(report)

    assert found == verdict
    assert ((plan.record.version, plan.states, plan.log) == before) == (verdict != "applied")


@pytest.mark.parametrize(
    ("attempt", "lease", "verdict"),
    [(2, None, "refused"), (None, None, "refused"), (2, SECOND, "applied"), (None, SECOND, "applied")],
)
def test_an_attempt_that_a_controller_has_claimed_is_ended_only_with_its_lease(
    attempt: int | None, lease: str | None, verdict: str
) -> None:
    plan, leases = in_second_attempt()
    plan.store.claim(PLAN, "a")

    assert plan.report(a_report("a", attempt, leases.get(lease or ""), diff_hash="new")) == [verdict]
    assert plan.states["a"] == ("DONE" if verdict == "applied" else "ACTIVE")


def test_the_refusal_says_what_is_missing() -> None:
    plan = Running(a_step("a"))
    plan.store.claim(PLAN, "a")
    plan.report(a_report("a"))

    (*_, last) = plan.store.stream(PARTITION.events).entries.values()
    assert last[b"type"] == b"dev.planner.outcome.refused.v1"
    assert "its lease" in codec.loads(last[b"data"])["reason"]


def test_a_lease_of_an_attempt_before_is_no_claim() -> None:
    plan, _ = in_second_attempt()
    plan.store.lease(PLAN, "a").update({"attempt": 1, "claimed": 1, "renewed": 1})

    assert plan.report(a_report("a", 2, diff_hash="new")) == ["applied"]


def test_who_claims_while_an_outcome_without_a_lease_is_decided_has_it_decided_anew() -> None:
    plan = Running(a_step("a"))
    view = plan.begin(Ask(PLAN, ["a"], leases=True))
    change = outcomes.apply(view, [a_report("a")])
    plan.store.wait(1)
    plan.store.claim(PLAN, "a")

    assert plan.store.commit([Write(change)]) == ["stale"]


@pytest.mark.parametrize(
    ("step", "attempt", "said", "verdict"),
    [
        ("a", 1, {}, "late"),
        ("a", None, {"diff_hash": "new"}, "late"),
        ("a", None, {}, "duplicate"),
        ("nobody", 1, {}, "unknown"),
    ],
)
def test_nothing_applies_to_a_plan_that_is_over(
    step: str, attempt: int | None, said: dict[str, Any], verdict: str
) -> None:
    plan = Running(a_step("a"))
    plan.report(a_report("a"))
    version = plan.record.version

    (found,) = plan.report(a_report(step, attempt, diff_hash="other") if attempt else a_report(step, **said))

    assert found == verdict
    assert plan.record.version == version


def test_the_same_outcome_sent_twice_with_its_lease_applies_once() -> None:
    plan = Running(a_step("a"), a_step("b", "a"))
    report = a_failure("a", 1)
    sent = a_report("a", 1, plan.active["a"].lease, **_said(report))

    assert [*plan.report(sent, sent), *plan.report(sent)] == ["applied", "duplicate", "duplicate"]
    assert plan.steps["a"].failures == 1


def test_a_verdict_other_than_applied_is_told_as_an_event_and_not_logged() -> None:
    plan = Running(a_step("a"))
    lines = len(plan.log)

    plan.report(a_report("a", 9), a_report("nobody"))

    assert plan.events[-2:] == ["dev.planner.outcome.refused.v1", "dev.planner.outcome.unknown.v1"]
    assert len(plan.log) == lines


@pytest.mark.parametrize(
    ("said", "tools", "category"),
    [
        ({"success": True}, (), None),
        ({"success": True, "tests_passed": True}, (PYTEST,), None),
        ({"success": True, "touched_files": ["src/a.py"], "created_files": ["src/a.py"]}, (), None),
        ({"success": True, "tests_passed": False}, (), None),  # nothing was to be verified
        ({"success": True, "tests_passed": False}, (PYTEST,), "TEST_REGRESSION"),
        ({"success": True, "verify": [{"tool": "pytest", "exit_code": 0}]}, (PYTEST,), None),
        ({"success": True, "verify": [{"tool": "pytest", "exit_code": 1}]}, (PYTEST,), "TEST_REGRESSION"),
        ({"success": True, "verify": [{"tool": "pytest", "exit_code": 1}]}, (OBSERVING,), None),
        ({"success": True, "verify": [{"tool": "someone-elses", "exit_code": 9}]}, (PYTEST,), None),
        ({"success": False, "verify": [{"tool": "pytest", "exit_code": 1}]}, (PYTEST,), "UNKNOWN"),
        ({"success": True, "touched_files": ["src/b.py"]}, (), "ALLOWLIST_VIOLATION"),
        ({"success": True, "touched_files": ["src/a.py", "../x"]}, (), "ALLOWLIST_VIOLATION"),
        ({"success": True, "created_files": ["src/new.py"]}, (), "ALLOWLIST_VIOLATION"),
        ({"success": False, "touched_files": ["src/b.py"]}, (), "ALLOWLIST_VIOLATION"),
        ({"success": True, "tests_passed": False, "touched_files": ["b"]}, (PYTEST,), "ALLOWLIST_VIOLATION"),
        ({"success": False}, (), "UNKNOWN"),
        ({"success": False, "failure_evidence": {"category": "TYPE_ERROR"}}, (), "TYPE_ERROR"),
        ({"success": False, "failure_evidence": {"category": "lint error"}}, (), "LINT_ERROR"),
        ({"success": False, "failure_evidence": {"category": "no such word"}}, (), "UNKNOWN"),
        ({"success": False, "failure_evidence": {"category": "LEASE_EXPIRED"}}, (), "UNKNOWN"),
        ({"success": False, "failure_evidence": {}}, (), "UNKNOWN"),
        ({"success": False, "verify": [{"tool": "pytest", "exit_code": 124}]}, (PYTEST,), "TEST_TIMEOUT"),
        ({"success": True, "verify": [{"tool": "pytest", "exit_code": 124}]}, (PYTEST,), "TEST_TIMEOUT"),
        ({"success": False, "error_message": "pytest timed out after 300 s"}, (), "TEST_TIMEOUT"),
    ],
)
def test_a_success_that_contradicts_itself_is_a_failure(
    said: dict[str, Any], tools: tuple[VerifyTool, ...], category: str | None
) -> None:
    facts = a_step("a", tools=tools).model_dump(mode="json")

    found = failure_of(facts, Outcome.model_validate({"step_id": "a", **said}))

    assert (found and found["category"]) == category


@pytest.mark.parametrize("kind", [StepType.TEST, StepType.READ, StepType.REVIEW])
def test_a_step_that_does_not_patch_may_touch_no_file(kind: StepType) -> None:
    planned = a_step("a").model_copy(update={"mode": MODE_OF_TYPE[kind]})  # its list is left as it was

    found = failure_of(
        planned.model_dump(mode="json"), Outcome(step_id="a", success=True, touched_files=planned.allowed_files)
    )

    assert found
    assert found["category"] == "ALLOWLIST_VIOLATION"


def test_what_the_next_attempt_is_told_is_cut() -> None:
    evidence = {
        "top_failing_tests": [f"t{n}" for n in range(9)],
        "stack_trace_head": "x" * 4096,
        "suggestion": "y" * 999,
    }
    outcome = Outcome.model_validate({"step_id": "a", "success": False, "failure_evidence": evidence})

    found = failure_of(a_step("a").model_dump(mode="json"), outcome)

    assert found
    assert (len(found["failing_tests"]), len(found["trace"]), len(found["suggestion"])) == (5, 500, 500)


def _said(report: Any) -> dict[str, Any]:
    said: dict[str, Any] = report.outcome.model_dump(mode="json", exclude_unset=True)
    return {name: value for name, value in said.items() if name != "step_id"}
