"""What would let a plan go on: changed as the advice says, it does not end for the same reason at the same place."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest

from schemas.base import RiskLevel
from schemas.step import StepEstimate
from tasks.base.policy_text import read_policy
from tasks.policy.advice_facts import MOST
from tasks.policy.starts import SILENT_MS
from tests.support.commands import WEEK_MS, order
from tests.support.growing import Script, goes_on, growing
from tests.support.halts import EVERY_HALT, TABLE, be_ordered, fail, fail_in_a_row, lead_nowhere
from tests.support.plans import PYTEST, Running, a_report, a_step
from tests.support.surroundings import alter

ADVISED = re.compile(r"limits\.(\w+) from (\d+) to at least (\d+)")


def unblock(plan: Running) -> str:
    return str(plan.halt["evidence"]["unblock"])


def advised(plan: Running) -> dict[str, int]:
    """The limits to which the advice would raise those of the plan."""
    found = ADVISED.findall(unblock(plan))
    assert all(plan.record.limits[name] == int(was) for name, was, _ in found)
    return {name: int(value) for name, _, value in found}


@pytest.mark.parametrize(("rule", "limit", "drive", "count", "beyond"), TABLE)
def test_the_limit_that_is_named_is_the_smallest_that_lets_the_plan_go_on(
    rule: str, limit: str, drive: Any, count: int, beyond: int
) -> None:
    raised = advised(drive(count + beyond, **{limit: count}))

    assert raised == {limit: count + 1}
    again = drive(count + beyond, **raised)
    assert (again.state, rule) == ("EXECUTING", rule)


@pytest.mark.parametrize(("limit", "drive"), [(limit, drive) for _, limit, drive, _, _ in TABLE[:2]])
def test_a_limit_that_no_goal_may_set_is_not_named(limit: str, drive: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.policy.advice_facts.MOST", {**MOST, limit: 3})

    assert advised(drive(3, **{limit: 3})) == {}


def spend(limits: dict[str, Any], **metrics: int) -> Running:
    plan = Running(a_step("a"), a_step("b", "a"), a_step("c", "b"), **limits)
    plan.report(a_report("a", metrics=metrics))
    return plan


@pytest.mark.parametrize(
    ("name", "limit", "metrics"),
    [
        ("tokens", 1000, {"tokens_used": 1000}),
        ("tokens", 1000, {"tokens_used": 50_000}),  # 49 000 of which were not booked
        ("patch_cycles", 3, {"patch_cycles": 7}),
        ("tool_calls", 5, {"tool_calls": 6}),
    ],
)
def test_a_budget_is_raised_by_what_was_used_and_what_is_left_to_do(name: str, limit: int, metrics: Any) -> None:
    plan = spend({name: limit}, **metrics)
    (used,) = metrics.values()

    raised = advised(plan)
    assert (plan.halt["rule"], raised[name]) == ("budget", 3 * used)
    assert plan.halt["evidence"]["spent_by"][0]["step_id"] == "a"
    again = spend(raised, **metrics)
    assert again.state == "EXECUTING"
    for step in "bc":
        again.report(a_report(step, metrics=metrics))
    assert again.state == "COMPLETED"


def test_the_attempts_that_used_most_of_a_budget_are_named_largest_first() -> None:
    plan = Running(*(a_step(name, tokens=100) for name in "abcd"), a_step("z", *"abcd"), tokens=1000)
    for step, used in zip("abcd", (50, 200, 150, 600), strict=True):
        plan.report(a_report(step, metrics={"tokens_used": used}))

    spent_by = plan.halt["evidence"]["spent_by"]
    assert [(each["step_id"], each["attempt"], each["used"]) for each in spent_by] == [
        ("d", 1, 600),
        ("b", 1, 200),
        ("c", 1, 150),
    ]
    assert unblock(plan).endswith("Most was used by attempt 1 of d (600), attempt 1 of b (200), attempt 1 of c (150).")


def test_an_attempt_whose_controller_died_is_among_those_that_spent() -> None:
    plan = Running(a_step("a", tokens=1000), a_step("b", "a"), tokens=1000)
    plan.store.claim(plan.plan_id, "a")
    plan.store.wait(SILENT_MS)
    plan.sweep()
    plan.rest()

    assert plan.halt["evidence"]["spent_by"] == [{"step_id": "a", "attempt": 1, "used": 1000}]


def test_a_plan_whose_attempts_use_little_each_keeps_nothing_of_them() -> None:
    plan = Running(*(a_step(f"s-{number}") for number in range(20)), tokens=100_000, patch_cycles=1000)
    for number in range(19):
        plan.report(a_report(f"s-{number}", metrics={"tokens_used": 4000, "patch_cycles": 1}))

    assert plan.record.spending.spenders == {}


def wait_claimed(plan: Running, ms: int) -> None:
    for _ in range(0, ms, 30_000):
        for step in plan.active:
            plan.store.claim(plan.plan_id, step)
        plan.store.wait(30_000)
        plan.sweep()


def work_slowly(**limits: Any) -> Running:
    """The second of four steps takes too long; in the first the plan was paused for an hour."""
    plan = Running(a_step("a"), a_step("b", "a"), a_step("c", "b"), a_step("d", "c"), **limits)
    order(plan, "pause", order_id="p")
    plan.store.wait(3_600_000)
    order(plan, "resume", order_id="r")
    wait_claimed(plan, 300_000)
    plan.report(a_report("a", plan.active["a"].attempt, plan.active["a"].lease))
    wait_claimed(plan, 300_000)
    return plan


def test_the_wall_clock_is_told_without_the_time_that_was_given_back() -> None:
    plan = work_slowly(wall_clock_s=600)

    evidence = plan.halt["evidence"]
    assert (evidence["value"], evidence["given_back_s"]) == (600, 3600)
    raised = advised(plan)
    assert raised == {"wall_clock_s": 2400}
    assert work_slowly(**raised).state == "EXECUTING"


BEYOND = "(its policy allows {} at most: an operator has to apply another one first)"


@pytest.mark.parametrize(
    ("name", "limit", "wanted", "drive"),
    [
        ("consecutive_failures", 3, 4, partial(fail_in_a_row, 3)),
        ("tokens", 1000, 3000, lambda **said: spend(said, tokens_used=1000)),
        ("wall_clock_s", 600, 2400, work_slowly),
    ],
)
def test_a_limit_that_the_policy_of_the_plan_does_not_allow_is_named_with_what_it_allows(
    name: str, limit: int, wanted: int, drive: Any
) -> None:
    tight = read_policy(f"[most]\n{name} = {wanted}\n[tenant.default.most]\n{name} = {wanted - 1}".encode())
    wide = read_policy(f"[most]\n{name} = {wanted}\n[tenant.other.most]\n{name} = {wanted - 1}".encode())

    plan = drive(policy=tight, **{name: limit})

    assert f"limits.{name} from {limit} to at least {wanted} {BEYOND.format(wanted - 1)}" in unblock(plan)
    assert "policy" not in unblock(drive(policy=wide, **{name: limit}))


def test_a_wait_for_a_person_is_no_wait_for_a_controller() -> None:
    plan = Running(a_step("a"), a_step("b", "a"), wall_clock_s=600)
    wait_claimed(plan, 480_000)
    plan.report(a_report("a", plan.active["a"].attempt, plan.active["a"].lease))
    order(plan, "pause", order_id="p")
    plan.store.wait(3_600_000)
    order(plan, "resume", order_id="r")
    plan.store.wait(120_000)
    plan.sweep()

    assert advised(plan) == {"wall_clock_s": 1200}


def test_a_step_that_nobody_takes_needs_a_controller_and_no_time() -> None:
    plan = EVERY_HALT["wall_clock"]()

    assert advised(plan) == {}
    assert unblock(plan).startswith("Start controllers for the queue default: no controller took a in 600 s.")


@pytest.mark.parametrize(("risk", "allowed"), [(RiskLevel.LOW, 3), (RiskLevel.MED, 2), (RiskLevel.HIGH, 1)])
def test_a_retry_limit_is_named_only_as_far_as_the_risk_allows(risk: RiskLevel, allowed: int) -> None:
    def play(retries: int) -> Running:
        plan = Running(a_step("a", retries=retries, risk=risk, tools=(PYTEST,)))
        fail(plan, "a")
        return plan

    plan = play(0)
    assert (plan.halt["rule"], f"retry_limit of {allowed} instead of 0" in unblock(plan)) == ("cannot_revise", True)
    assert play(allowed).state == "EXECUTING"


def fail_till_the_end(risk: RiskLevel, retries: int, category: str = "TYPE_ERROR") -> Running:
    plan = Running(a_step("a", retries=retries, risk=risk, tools=(PYTEST,)))
    for number in range(4):
        if plan.state == "EXECUTING":
            fail(plan, "a", f"error {'xyzw'[number]}", category)
            plan.rest()
            for step in plan.active.keys() - {"a"}:
                plan.report(a_report(step))
    return plan


@pytest.mark.parametrize(
    ("risk", "retries", "category"),
    [(RiskLevel.HIGH, 1, "TYPE_ERROR"), (RiskLevel.LOW, 3, "TYPE_ERROR"), (RiskLevel.LOW, 1, "UNKNOWN")],
)
def test_a_retry_limit_that_risk_or_category_cap_is_not_named(risk: RiskLevel, retries: int, category: str) -> None:
    plan = fail_till_the_end(risk, retries, category)

    assert plan.halt["rule"] == "cannot_revise"
    assert "retry_limit" not in unblock(plan)


def test_a_dead_end_says_whether_a_revision_was_tried_and_what_failed() -> None:
    tried, not_tried = fail_till_the_end(RiskLevel.LOW, 2), lead_nowhere()

    assert tried.halt["reason"] == "steps failed and no revision is left that could help: a (TYPE_ERROR)"
    assert not_tried.halt["reason"] == (
        "steps failed, no revision was tried, and nothing else can run: a (TEST_REGRESSION)"
    )
    told = [plan.halt["evidence"]["steps"] for plan in (tried, not_tried)]
    assert [(each["failures"], each["revised"]) for (each,) in told] == [(3, True), (1, False)]


def test_what_an_attempt_was_given_less_than_expected_is_part_of_what_is_advised() -> None:
    expected = {"c": 0, "d": 0, "e": 0, "f": 0, "a": 908, "b": 259, "g": 0}

    def drive(tokens: int) -> Running:
        steps = [
            a_step(name).model_copy(update={"estimate": StepEstimate(tokens=most, patch_cycles=0)})
            for name, most in expected.items()
        ]
        plan = Running(*steps, tokens=tokens, max_parallel=2)
        for name in "cdefba":
            plan.report(a_report(name))  # without figures: what was reserved is booked
        return plan

    halted = drive(1000)
    assert halted.halt["evidence"]["limit_name"] == "tokens"
    assert advised(halted)["tokens"] > sum(expected.values())
    assert drive(advised(halted)["tokens"]).state == "EXECUTING"


def fail_once_too_often(risk: RiskLevel, retries: int, times: int, **limits: int) -> Running:
    plan = Running(a_step("a", retries=retries, risk=risk, tools=(PYTEST,)), **limits)
    for _ in range(times):
        fail(plan, "a", "the same")
    return plan


@pytest.mark.parametrize(
    ("limit", "times"), [("identical_failures", 2), ("consecutive_failures", 2), ("consecutive_failures", 1)]
)
def test_a_limit_of_failures_is_raised_with_a_retry_where_nothing_else_can_start(limit: str, times: int) -> None:
    plan = fail_once_too_often(RiskLevel.LOW, times - 1, times, **{limit: times})

    assert advised(plan) == {limit: times + 1}
    assert f"retry_limit of 3 instead of {times - 1}" in unblock(plan)
    assert fail_once_too_often(RiskLevel.LOW, 3, times, **advised(plan)).state == "EXECUTING"
    assert fail_once_too_often(RiskLevel.LOW, 3, times, **{limit: times}).state == "HALTED"


@pytest.mark.parametrize("limit", ["identical_failures", "consecutive_failures"])
def test_a_limit_of_failures_is_not_raised_where_the_risk_allows_no_more_attempts(limit: str) -> None:
    plan = fail_once_too_often(RiskLevel.HIGH, 1, 2, **{limit: 2})

    assert advised(plan) == {}
    assert "retry_limit" not in unblock(plan)


def touch(*files: str, allowed: tuple[str, ...] = ()) -> Running:
    with pytest.MonkeyPatch.context() as patch:
        script = Script(on_end=lambda *_: goes_on())
        plan = growing(patch, script, a_step("a", files=["src/a.py"]), files=["src/a.py", *allowed])
        plan.report(a_report("a", touched_files=["src/a.py", *files]))
    return plan


def test_a_file_is_to_be_allowed_only_where_it_is_not_and_may_be() -> None:
    plan = touch("src/b.py", ".env", "src/c.py", allowed=("src/b.py",))

    advice = unblock(plan)
    assert plan.halt["rule"] == "security"
    assert "No goal may allow .env." in advice
    assert "allowed_files has src/b.py already, and a does not" in advice
    assert "add src/c.py to allowed_files" in advice
    assert "add src/b.py" not in advice


def test_an_attempt_that_ran_out_is_given_more_by_what_kept_it_short() -> None:
    def play(estimate: int, tokens: int, policy: bytes = b"") -> Running:
        steps = (a_step("a", tokens=estimate), a_step("z"))
        plan = Running(*steps, tokens=tokens, max_parallel=1, policy=read_policy(policy))
        fail(plan, "a", category="BUDGET_EXCEEDED")
        return plan

    short, had_all = play(5000, 1000), play(5000, 100_000)
    assert advised(short) == {"tokens": 5000}
    assert advised(had_all) == {}
    assert "give a a higher estimate" in unblock(had_all)
    bound = b"[risk.LOW]\ntokens = 2000"
    assert advised(play(5000, 1000, bound)) == {"tokens": 2000}
    assert unblock(play(5000, 100_000, bound)).startswith(
        "Have an operator apply a policy with more than 2000 tokens for attempts at risk LOW, or give a less to do. "
    )


@pytest.mark.parametrize("rule", EVERY_HALT)
def test_no_advice_tops_up_a_plan_that_has_ended(rule: str) -> None:
    advice = unblock(EVERY_HALT[rule]())

    assert advice.endswith(".")
    assert "top" not in re.findall(r"[a-z]+", advice.lower())


def test_a_halt_that_stands_has_to_be_lifted_first() -> None:
    plan = Running(a_step("a"), tenant="acme", repo="acme/shop")
    alter(plan, 1, "stand", ("halt", "tenant"))

    assert unblock(plan).startswith("Have ada lift the halt of tenant:acme (`planner resume`)")
    assert "resume" not in unblock(be_ordered())


def test_a_risk_that_nobody_approved_is_named() -> None:
    plan = Running(a_step("a", risk=RiskLevel.HIGH), approvals=("HIGH",))
    plan.store.wait(WEEK_MS)
    plan.sweep()

    assert unblock(plan).endswith("or leave HIGH out of approvals.")
    assert Running(a_step("a", risk=RiskLevel.HIGH)).active


def revised(plan: Running) -> str:
    (told,) = [each for line in plan.log for each in line.get("revisions", ())]
    return str(told["unblock"])


def test_a_revised_step_of_a_paused_plan_waits_for_the_plan() -> None:
    plan = Running(a_step("a"))
    order(plan, "pause")
    fail(plan, "a")

    assert revised(plan) == "Resume the plan, which was paused (ada: because)."


def test_a_revised_step_without_a_budget_waits_for_a_top_up() -> None:
    plan = Running(a_step("a"), tokens=1000)
    fail(plan, "a", metrics={"tokens_used": 1000})

    assert revised(plan) == "Top the plan up with tokens: nothing of them is left for another attempt."
