"""An allowlist that is tightened while its plan runs: nothing comes back, and nothing is left hanging."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from schemas.base import RiskLevel
from tests.support.commands import an_order, order
from tests.support.plans import PARTITION, PLAN, PYTEST, Running, a_failure, a_report, a_step, some_steps

TWO = ("src/a.py", "src/b.py")


def files(plan: Running, step: str) -> list[str]:
    found: list[str] = plan.facts[step]["allowed_files"]
    return found


def tighten(plan: Running, *left: str, step: str | None = None, order_id: str = "o-1") -> str:
    return order(plan, "tighten", step, {"allowed_files": list(left)}, order_id=order_id)


@pytest.mark.parametrize("step", [None, "a"])
def test_an_attempt_that_holds_what_is_taken_away_is_cancelled_and_starts_again_with_less(step: str | None) -> None:
    plan = Running(a_step("a", files=TWO), wall_clock_s=86_400)
    plan.store.claim(PLAN, "a")

    assert tighten(plan, "src/a.py", step=step) == "obeyed"

    (spec,) = plan.specs
    assert (spec["attempt"], spec["allowed_files"]) == (2, ["src/a.py"])
    assert plan.active["a"].files == ["src/a.py"]
    assert plan.steps["a"].failures == 0
    assert plan.record.spent["tokens"] == 1000  # nobody knows what the first one used
    assert plan.store.lease(PLAN, "a") == {"attempt": 2, "lease": spec["lease"], "tokens": 1000}


def test_an_attempt_that_holds_nothing_of_it_goes_on() -> None:
    plan = Running(a_step("a"), a_step("b"))

    tighten(plan, "src/a.py", "src/b.py")

    assert {step: attempt.attempt for step, attempt in plan.active.items()} == {"a": 1, "b": 1}


def test_the_outcome_of_the_cancelled_attempt_is_late() -> None:
    plan = Running(a_step("a", files=TWO))
    lease = plan.active["a"].lease
    tighten(plan, "src/a.py")

    assert plan.report(a_report("a", 1, lease)) == ["late"]


def test_steps_yet_to_start_have_only_what_is_left() -> None:
    plan = Running(a_step("a"), a_step("b", "a", files=TWO), a_step("c", "b", files=TWO))
    tighten(plan, "src/a.py")

    plan.report(a_report("a"))
    assert plan.active["b"].files == ["src/a.py"]
    plan.report(a_report("b"))

    assert plan.active["c"].files == ["src/a.py"]


@pytest.mark.parametrize(("steps", "left"), [(1000, None), (1001, ["src/other.py", "src/s-0.py"])])
def test_only_a_plan_of_at_most_1000_steps_is_looked_through(steps: int, left: list[str] | None) -> None:
    plan = Running(*some_steps(steps))

    plan.obey(an_order("tighten", None, {"allowed_files": ["src/s-0.py", "src/other.py"]}))

    assert plan.record.head.tightened == left


@pytest.mark.parametrize("step", [None, "a"])
def test_a_refusal_names_few_files_in_short_and_harmless(step: str | None) -> None:
    plan = Running(a_step("a", files=TWO))
    odd = "\x1b[2Jsrc/\u202ex.py\n"

    assert tighten(plan, "src/a.py", *(f"{number}{odd}" + "y" * 5000 for number in range(20)), step=step) == "refused"

    reason = codec.loads([*plan.store.stream(PARTITION.events).entries.values()][-1][b"data"])["reason"]
    assert reason.isprintable()
    assert "\u202e" not in reason
    assert len(reason) <= 5 * 202 + 100
    assert plan.record.head.tightened is None


def test_a_file_never_comes_back() -> None:
    plan = Running(a_step("z"), a_step("a", "z", files=TWO))
    tighten(plan, "src/z.py", "src/a.py")
    tighten(plan, "src/z.py", "src/a.py", "src/b.py", order_id="o-2")

    plan.report(a_report("z"))

    assert plan.active["a"].files == ["src/a.py"]
    assert tighten(plan, "src/a.py", "src/b.py", step="a", order_id="o-3") == "refused"
    assert files(plan, "a") == ["src/a.py"]


def test_a_step_in_flight_that_has_nothing_left_fails_and_its_plan_cannot_be_revised() -> None:
    plan = Running(a_step("a"), a_step("b", "a"))

    tighten(plan, step="a")

    assert plan.states == {"a": "FAILED", "b": "SKIPPED"}
    assert (plan.state, plan.halt["rule"]) == ("HALTED", "cannot_revise")
    assert plan.specs == []


def test_a_step_that_waits_and_has_nothing_left_is_skipped_with_what_depends_on_it() -> None:
    plan = Running(a_step("a"), a_step("b", "a"), a_step("c", "b"), a_step("d"), max_parallel=1)

    tighten(plan, step="b")
    assert plan.states == {"a": "ACTIVE", "b": "SKIPPED", "c": "SKIPPED", "d": "PENDING"}
    plan.report(a_report("a"))
    plan.report(a_report("d"))

    assert plan.halt["rule"] == "cannot_revise"


def test_a_step_that_waits_for_an_approval_and_has_nothing_left_is_asked_about_no_more() -> None:
    plan = Running(a_step("a"), a_step("b", risk=RiskLevel.HIGH), approvals=("HIGH",))
    assert list(plan.record.waits) == ["b"]

    tighten(plan, step="b")
    plan.report(a_report("a"))

    assert (plan.record.waits, plan.states["b"]) == ({}, "SKIPPED")
    assert plan.state == "HALTED"


def test_a_step_in_backoff_that_has_nothing_left_does_not_come_back() -> None:
    plan = Running(a_step("a"), a_step("b"))
    plan.store.claim(PLAN, "a")
    plan.store.wait(60_000)
    plan.sweep()
    assert list(plan.record.backoffs) == ["a"]

    tighten(plan, step="a")
    plan.store.wait(60_000)
    plan.sweep()
    plan.report(a_report("b"))

    assert (plan.record.backoffs, plan.states["a"]) == ({}, "FAILED")
    assert plan.halt["rule"] == "cannot_revise"


def test_a_plan_that_is_paused_starts_with_less_when_it_goes_on() -> None:
    plan = Running(a_step("a", files=TWO))
    plan.store.claim(PLAN, "a")
    order(plan, "pause", order_id="o-0")
    tighten(plan, "src/a.py")
    assert plan.active == {}
    assert plan.store.lease(PLAN, "a")["action"] == "cancel"

    order(plan, "resume", order_id="o-2")

    assert plan.active["a"].files == ["src/a.py"]
    assert "action" not in plan.store.lease(PLAN, "a")


def test_a_retry_after_the_plan_was_tightened_has_less() -> None:
    plan = Running(a_step("a"), a_step("z", files=TWO), max_parallel=1)
    tighten(plan, "src/a.py", "src/b.py")
    plan.report(a_failure("a"))
    plan.report(a_report("a"))
    tighten(plan, "src/b.py", order_id="o-2")

    assert plan.active["z"].files == ["src/b.py"]


@pytest.mark.parametrize(
    ("level", "told"), [("LOW", "refused"), ("MED", "refused"), ("HIGH", "obeyed"), ("EXTREME", "refused")]
)
def test_risk_is_only_raised(level: str, told: str) -> None:
    plan = Running(a_step("z"), a_step("a", "z", risk=RiskLevel.MED, tools=(PYTEST,)))

    assert order(plan, "tighten", "a", {"risk_level": level}) == told

    found = plan.facts["a"]
    assert found["risk_level"] == ("HIGH" if told == "obeyed" else "MED")


def test_a_step_whose_risk_was_raised_waits_for_the_approval_that_it_needs_now() -> None:
    plan = Running(a_step("z"), a_step("a", "z", tools=(PYTEST,)), approvals=("HIGH",))

    order(plan, "tighten", "a", {"risk_level": "HIGH"})
    plan.report(a_report("z"))

    assert (plan.active, list(plan.record.waits)) == ({}, ["a"])


def test_what_was_approved_at_a_lower_risk_is_asked_about_again() -> None:
    plan = Running(
        a_step("z", risk=RiskLevel.LOW), a_step("a", risk=RiskLevel.MED, tools=(PYTEST,)), approvals=("MED", "HIGH")
    )
    order(plan, "pause", order_id="o-0")
    order(plan, "approve", "a", order_id="o-2")
    order(plan, "tighten", "a", {"risk_level": "HIGH"}, order_id="o-3")
    order(plan, "resume", order_id="o-4")

    assert list(plan.active) == ["z"]
    assert list(plan.record.waits) == ["a"]


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"allowed_files": "src/a.py"},
        {"allowed_files": [1]},
        {"risk_level": "HIGH"},
        {"risk_level": {}},
        {"files": []},
        ["a"],
    ],
)
def test_an_order_that_says_nothing_of_use_is_refused(value: Any) -> None:
    plan = Running(a_step("a"))

    assert order(plan, "tighten", None, value) == "refused"

    assert plan.active["a"].attempt == 1


def test_files_that_no_step_has_are_refused() -> None:
    plan = Running(a_step("a", files=TWO), *[a_step(f"b-{n}", "a") for n in range(80)])

    assert tighten(plan, "src/a.py", "src/o.py", "src/b-79.py") == "refused"

    assert plan.active["a"].attempt == 1
    assert tighten(plan, "src/a.py", "src/b-79.py", order_id="o-2") == "obeyed"


@pytest.mark.parametrize(("step", "value"), [("a", {"risk_level": "HIGH"}), ("a", {"allowed_files": ["src/o.py"]})])
def test_a_step_in_flight_keeps_its_risk_and_gets_no_other_file(step: str, value: Any) -> None:
    plan = Running(a_step("a"))

    assert order(plan, "tighten", step, value) == "refused"

    assert plan.active["a"].attempt == 1


@pytest.mark.parametrize("level", ["MED", "HIGH"])
def test_risk_is_not_raised_beyond_what_a_step_without_verification_may_have(level: str) -> None:
    plan = Running(a_step("z"), a_step("a", "z"), a_step("b", "z", tools=(PYTEST,)))

    assert order(plan, "tighten", "a", {"risk_level": level}) == "refused"
    assert order(plan, "tighten", "b", {"risk_level": level}, order_id="o-2") == "obeyed"


def test_an_order_about_files_and_risk_narrows_first() -> None:
    three = [*TWO, "src/c.py"]
    plan = Running(a_step("z"), a_step("a", "z", files=three, tools=(PYTEST,)))
    assert order(plan, "tighten", "a", {"risk_level": "HIGH"}) == "refused"
    assert order(plan, "tighten", "a", {"risk_level": "HIGH", "allowed_files": three}, order_id="o-2") == "refused"
    assert files(plan, "a") == three

    value = {"risk_level": "HIGH", "allowed_files": list(TWO)}
    assert order(plan, "tighten", "a", value, order_id="o-3") == "obeyed"

    plan.report(a_report("z"))
    (spec,) = plan.specs
    assert (spec["risk_level"], spec["allowed_files"]) == ("HIGH", list(TWO))


def test_an_order_that_leaves_nothing_to_a_step_ends_it_whatever_its_risk() -> None:
    plan = Running(a_step("z"), a_step("a", "z", tools=(PYTEST,)))

    assert order(plan, "tighten", "a", {"risk_level": "HIGH", "allowed_files": []}) == "obeyed"

    assert plan.states["a"] == "SKIPPED"


def test_an_attempt_that_nobody_had_claimed_costs_nothing_when_it_is_cancelled() -> None:
    plan = Running(a_step("a", files=TWO), a_step("b", files=["src/c.py", "src/d.py"]))
    plan.store.claim(PLAN, "b")

    tighten(plan, "src/a.py", "src/c.py")

    assert plan.record.spent["tokens"] == 1000
    assert {step: attempt.attempt for step, attempt in plan.active.items()} == {"a": 2, "b": 2}


def test_what_is_skipped_in_its_turn_cannot_be_tightened() -> None:
    plan = Running(a_step("z"), a_step("a", "z", files=TWO))
    order(plan, "skip", "a", order_id="o-0")

    assert tighten(plan, "src/a.py", step="a") == "refused"


def test_a_step_that_has_ended_cannot_be_tightened() -> None:
    plan = Running(a_step("a"), a_step("b"))
    plan.report(a_report("a"))

    assert tighten(plan, step="a") == "refused"


def test_a_plan_of_which_nothing_is_left_before_its_first_step_ends_all_the_same() -> None:
    plan = Running(a_step("a", risk=RiskLevel.HIGH), a_step("b", "a"), approvals=("HIGH",))
    assert plan.state == "READY"

    tighten(plan)
    order(plan, "approve", "a", order_id="o-2")

    assert plan.states == {"a": "SKIPPED", "b": "SKIPPED"}
    assert (plan.state, plan.halt["rule"]) == ("HALTED", "cannot_revise")


def test_a_plan_of_which_every_step_was_skipped_is_complete() -> None:
    plan = Running(a_step("a", risk=RiskLevel.HIGH), approvals=("HIGH",))

    order(plan, "skip", "a")

    assert plan.state == "COMPLETED"


def test_what_is_far_back_in_the_queue_goes_on_when_all_before_it_has_nothing_left() -> None:
    plan = Running(a_step("z"), *[a_step(f"a-{n:02}", "z") for n in range(40)], max_parallel=1)
    tighten(plan, "src/z.py", "src/a-39.py")

    plan.report(a_report("z"))

    assert list(plan.active) == ["a-39"]
