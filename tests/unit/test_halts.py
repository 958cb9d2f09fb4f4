"""The halt conditions: each at, below and above its threshold, in which order, and what is left behind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from schemas import codec
from schemas.base import RiskLevel
from tasks.base.policy_version import POLICY_VERSION
from tasks.policy.halt import UNBLOCK
from tasks.policy.halt_rules import AT_ONCE, MAX_REMEMBERED, MAX_VERIFICATIONS, RULES
from tasks.policy.schedule import SILENT_MS
from tasks.rules.strategy import Question
from tasks.toolchain.classify import HALTS_AT_ONCE
from tests.support.growing import Script, goes_on, growing
from tests.support.plans import PYTEST, Running, a_failure, a_report, a_step, some_steps
from tests.unit.test_commands import WEEK_MS, order

RUFF = PYTEST.model_copy(update={"tool": "ruff-check", "argv": ("ruff", "check", "src")})


def fail(plan: Running, step: str, trace: str = "", category: str = "TEST_REGRESSION", **said: Any) -> None:
    evidence = {"category": category, "stack_trace_head": trace or None}
    plan.report(a_report(step, plan.steps[step].attempt, success=False, failure_evidence=evidence, **said))


def die(plan: Running, step: str) -> None:
    plan.store.claim(plan.plan_id, step)
    plan.store.wait(SILENT_MS)
    plan.sweep()


def fail_in_a_row(count: int, **limits: int) -> Running:
    plan = Running(*some_steps(count + 1, retries=0), max_parallel=count + 1, **limits)
    for number in range(count):
        fail(plan, f"s-{number}")
    return plan


def fail_alike(count: int, **limits: int) -> Running:
    plan = Running(a_step("a", retries=3), a_step("z"), **limits)
    for number in range(count):
        fail(plan, "a", f"AssertionError in /tmp/x{number}/test_a.py line {number}: nope")
    return plan


def flip(count: int, **limits: int) -> Running:
    """Pass, fail, pass, fail, ... of steps with the same verification."""
    plan = Running(*some_steps(count + 2, retries=0, tools=(PYTEST,)), max_parallel=count + 2, **limits)
    for number in range(count + 1):
        if number % 2:
            fail(plan, f"s-{number}")
        else:
            plan.report(a_report(f"s-{number}"))
    return plan


def create_files(count: int, **limits: int) -> Running:
    files = [f"src/{number}.py" for number in range(count)]
    plan = Running(a_step("a", files=files), a_step("z"), **limits)
    plan.report(a_report("a", created_files=files))
    return plan


def grow(count: int, **limits: int) -> Running:
    plan = Running(a_step("a"), a_step("b"), a_step("z"), **limits)
    plan.report(a_report("a", growth_kb=count - 1))
    plan.report(a_report("b", growth_kb=1))
    return plan


def lose_controllers(count: int, **limits: int) -> Running:
    plan = Running(*some_steps(count + 1), wall_clock_s=86_400, **limits)
    for number in range(count):
        die(plan, f"s-{number % 2}")
    return plan


TABLE = [
    ("consecutive_failures", "consecutive_failures", fail_in_a_row, 3, 0),
    ("identical_failure", "identical_failures", fail_alike, 2, 0),
    ("flaky", "flaky_flips", flip, 3, 0),
    ("file_growth", "max_new_files", create_files, 5, 1),
    ("file_growth", "max_growth_kb", grow, 1000, 1),
    ("lease_deaths", "lease_deaths", lose_controllers, 5, 0),
]


@pytest.mark.parametrize(("rule", "limit", "drive", "threshold", "beyond"), TABLE)
@pytest.mark.parametrize("distance", [-1, 0, 1])
def test_a_plan_halts_at_a_threshold_and_not_below(
    rule: str, limit: str, drive: Any, threshold: int, beyond: int, distance: int
) -> None:
    """The limit is moved around what happens, so that a plan goes as far above it as it can: not at all."""
    count = threshold + beyond

    plan = drive(count, **{limit: threshold - distance})

    if distance < 0:
        assert plan.state == "EXECUTING"
    else:
        assert (plan.state, plan.halt["rule"]) == ("HALTED", rule)
        assert plan.halt["evidence"]["limit"] == threshold - distance
        assert plan.active == {}
        assert plan.specs == []


def test_the_table_of_tests_has_every_rule() -> None:
    assert {(rule.name, rule.limit) for rule in RULES} == {(rule, limit) for rule, limit, *_ in TABLE}


@pytest.mark.parametrize("category", sorted(HALTS_AT_ONCE))
def test_a_violation_halts_at_once(category: str) -> None:
    plan = Running(a_step("a", retries=3), a_step("b"), a_step("z", "a"))

    fail(plan, "a", category=category)

    assert (plan.state, plan.halt["rule"]) == ("HALTED", AT_ONCE[category])  # type: ignore[index]
    assert plan.halt["evidence"]["value"] == category
    assert plan.states == {"a": "HALTED", "b": "HALTED", "z": "BLOCKED"}
    moves = [move for move in plan.log[-1]["moves"] if move[0] == "a"]
    assert moves == [["a", "ACTIVE", "FAILED"], ["a", "FAILED", "HALTED"]]


@pytest.mark.parametrize(
    "said",
    [
        {"touched_files": ["src/z.py"]},
        {"created_files": ["src/new.py"]},
        {"success": False, "touched_files": ["/etc/passwd"]},
    ],
)
def test_a_file_outside_the_allowlist_halts_at_once_whatever_was_claimed(said: dict[str, Any]) -> None:
    plan = Running(a_step("a"), a_step("z"))

    plan.report(a_report("a", **said))

    assert (plan.halt["rule"], plan.halt["evidence"]["value"]) == ("security", "ALLOWLIST_VIOLATION")
    assert next(iter([*said.get("touched_files", []), *said.get("created_files", [])])) in plan.halt["evidence"]["told"]


SANDBOX: dict[str, Any] = {"success": False, "failure_evidence": {"category": "SANDBOX_VIOLATION"}}


def test_the_failed_outcome_is_recorded_and_paid_for_before_the_halt() -> None:
    plan = Running(a_step("a"), a_step("b"))

    lease, metrics = plan.active["a"].lease, {"tokens_used": 321, "patch_cycles": 1}
    plan.report(a_report("a", 1, lease, **SANDBOX, metrics=metrics))

    assert plan.record.spent == {"tokens": 321 + 1000, "patch_cycles": 2, "tool_calls": 0, "failing_outcomes": 1}
    assert not any(plan.record.reserved.values())
    assert (plan.steps["a"].failures, (plan.steps["a"].previous or {})["category"]) == (1, "SANDBOX_VIOLATION")
    assert plan.log[-1]["in"][0][0] == "outcome"


def test_what_comes_behind_a_halt_in_the_same_batch_is_late() -> None:
    plan = Running(*some_steps(4), max_parallel=4)

    verdicts = plan.report(
        a_report("s-0", 1), a_failure("s-1", 1, "HYGIENE_VIOLATION"), a_report("s-2", 1), a_failure("s-3", 1)
    )

    assert verdicts == ["applied", "applied", "late", "late"]
    assert plan.states == {"s-0": "DONE", "s-1": "HALTED", "s-2": "HALTED", "s-3": "HALTED"}


def test_security_is_named_before_any_other_rule() -> None:
    plan = Running(a_step("a", retries=3), a_step("z"), consecutive_failures=1, identical_failures=1)

    fail(plan, "a", "same", category="SANDBOX_VIOLATION")

    assert plan.halt["rule"] == "security"


def test_a_halt_rule_is_named_before_the_budget_that_ran_out() -> None:
    plan = Running(a_step("a"), a_step("z", "a"), consecutive_failures=1, failing_outcomes=1)

    fail(plan, "a")

    assert plan.halt["rule"] == "consecutive_failures"


def test_a_success_makes_the_row_of_failures_begin_anew() -> None:
    plan = Running(*some_steps(6, retries=0), max_parallel=6, consecutive_failures=3)

    for number, succeeds in enumerate([False, False, True, False, False]):
        plan.report(a_report(f"s-{number}")) if succeeds else fail(plan, f"s-{number}")

    assert plan.state == "EXECUTING"


def test_a_dead_controller_is_no_failure_in_the_row_and_does_not_interrupt_it() -> None:
    plan = Running(*some_steps(4, retries=3), consecutive_failures=3, wall_clock_s=86_400)
    fail(plan, "s-0")
    die(plan, "s-1")
    fail(plan, "s-0")
    before = plan.state

    fail(plan, "s-2")

    assert (before, plan.halt["rule"]) == ("EXECUTING", "consecutive_failures")
    assert {event["category"] for event in plan.halt["evidence"]["events"]} == {"TEST_REGRESSION"}


@pytest.mark.parametrize(
    ("traces", "halts"),
    [
        (("KeyError: a", "KeyError: a"), True),
        (("KeyError: a", "KeyError: b", "KeyError: a"), False),  # another failure in between
        (("KeyError: a", "", "KeyError: a"), True),  # nothing was said in between
        (("", "", ""), False),  # no evidence is no evidence of sameness
        (("took 3.1s at 0xdeadbeef", "took 4.2s at 0xcafecafe"), True),
    ],
)
def test_failures_are_the_same_by_their_normalised_signature(traces: tuple[str, ...], halts: bool) -> None:
    plan = Running(a_step("a", retries=3), a_step("z"), identical_failures=2)

    for trace in traces:
        fail(plan, "a", trace)

    assert (plan.state == "HALTED") == halts


def test_the_same_failure_of_two_steps_is_not_identical() -> None:
    plan = Running(a_step("a"), a_step("b"), a_step("z"), identical_failures=2)

    fail(plan, "a", "KeyError: a")
    fail(plan, "b", "KeyError: a")

    assert plan.state == "EXECUTING"


def test_flips_of_different_verifications_are_counted_apart() -> None:
    plan = Running(
        *(a_step(f"s-{n}", retries=0, tools=(PYTEST if n % 2 else RUFF,)) for n in range(6)),
        max_parallel=6,
        flaky_flips=2,
    )

    for number in range(5):
        plan.report(a_report(f"s-{number}")) if number // 2 % 2 else fail(plan, f"s-{number}")

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "flaky")
    assert plan.halt["evidence"]["step_id"] == "s-4"


def test_a_step_without_a_verification_does_not_flip() -> None:
    plan = Running(*some_steps(6, retries=0), max_parallel=6, flaky_flips=1)

    for number in range(5):
        plan.report(a_report(f"s-{number}")) if number % 2 else fail(plan, f"s-{number}")

    assert plan.state == "EXECUTING"


def test_a_last_success_completes_the_plan_though_its_verification_flipped() -> None:
    plan = Running(a_step("a", tools=(PYTEST,)), flaky_flips=1)
    fail(plan, "a")

    plan.report(a_report("a"))

    assert plan.state == "COMPLETED"


def test_a_last_success_that_floods_the_tree_does_not_complete_the_plan() -> None:
    plan = Running(a_step("a", files=["x", "y"]), max_new_files=1)

    plan.report(a_report("a", created_files=["x", "y"]))

    assert (plan.state, plan.halt["rule"], plan.states) == ("HALTED", "file_growth", {"a": "DONE"})


def test_files_of_attempts_that_failed_are_not_counted_again() -> None:
    plan = Running(a_step("a", files=["x", "y"], retries=3), a_step("z"), max_new_files=2)

    for _ in range(3):
        fail(plan, "a", created_files=["x", "y"])
    plan.report(a_report("a", created_files=["x", "y"]))

    assert plan.state == "EXECUTING"


def test_the_counters_of_a_plan_stay_small() -> None:
    tools = [(PYTEST.model_copy(update={"argv": ("pytest", f"t{n}.py")}),) for n in range(200)]
    plan = Running(*(a_step(f"s-{n}", retries=0, tools=tool) for n, tool in enumerate(tools)))

    while len(plan.active) > 1:
        step = min(plan.active)
        fail(plan, step) if int(step[2:]) % 3 else plan.report(a_report(step))

    assert len(plan.record.halting["flaky"]) == MAX_VERIFICATIONS
    assert len(plan.record.halting["failed"]) == MAX_REMEMBERED
    assert len(codec.dumps(plan.record.halting)) < 2000


def test_a_halt_is_explained() -> None:
    plan = fail_alike(2, identical_failures=2)

    evidence = plan.halt["evidence"]
    assert plan.halt["reason"] == "a failed 2 times in the same way; the limit identical_failures is 2"
    assert (evidence["value"], evidence["limit"], evidence["policy_version"]) == (2, 2, POLICY_VERSION)
    assert [(e["step_id"], e["attempt"], e["category"]) for e in evidence["events"]] == [
        ("a", 1, "TEST_REGRESSION"),
        ("a", 2, "TEST_REGRESSION"),
    ]
    assert evidence["unblock"] == UNBLOCK["identical_failure"]


def violate() -> Running:
    plan = Running(a_step("a"))
    fail(plan, "a", category="SANDBOX_VIOLATION")
    return plan


def use_up() -> Running:
    plan = Running(a_step("a"), a_step("b", "a"), tokens=1000)
    plan.report(a_report("a", metrics={"tokens_used": 1000}))
    return plan


def take_long() -> Running:
    plan = Running(a_step("a"), wall_clock_s=600)
    plan.store.wait(600_000)
    plan.sweep()
    return plan


def lead_nowhere() -> Running:
    plan = Running(a_step("a", retries=0), a_step("b", "a"))
    fail(plan, "a")
    return plan


def be_ordered(name: str = "halt") -> Running:
    plan = Running(a_step("a", risk=RiskLevel.HIGH), approvals=("HIGH",))
    order(plan, name, "a" if name == "reject" else None)
    return plan


def be_forgotten() -> Running:
    plan = Running(a_step("a", risk=RiskLevel.HIGH), approvals=("HIGH",))
    plan.store.wait(WEEK_MS)
    plan.sweep()
    return plan


def ask_in_vain() -> Running:
    with pytest.MonkeyPatch.context() as patch:
        plan = growing(patch, Script(on_end=lambda *_: goes_on(question=Question("clarify", ("What?",)))), a_step("a"))
        plan.report(a_report("a"))
        plan.store.wait(WEEK_MS)
        plan.sweep()
    return plan


def go_wrong(rule: str) -> Running:
    """A strategy says that its plan cannot go on, or goes on with what breaks a rule."""
    halt: tuple[str, str, dict[str, object]] | None = None if rule == "invalid_unfolding" else (rule, "why", {})
    with pytest.MonkeyPatch.context() as patch:
        plan = growing(patch, Script(on_end=lambda *_: goes_on(a_step("a"), halt=halt)), a_step("a"))
        plan.report(a_report("a"))
    return plan


STRATEGIES_HALT = ("invalid_unfolding", "plan_unfit", "planning_failed", "clarification_limit", "review_stopped")

# Every rule that halts, with a plan that it has halted.
EVERY_HALT: dict[str, Callable[[], Running]] = {
    **{rule: partial(drive, count + beyond, **{limit: count}) for rule, limit, drive, count, beyond in TABLE},
    "security": violate,
    "budget": use_up,
    "wall_clock": take_long,
    "cannot_revise": lead_nowhere,
    "manual": be_ordered,
    "approval_rejected": partial(be_ordered, "reject"),
    "approval_deadline": be_forgotten,
    "answer_deadline": ask_in_vain,
    **{rule: partial(go_wrong, rule) for rule in STRATEGIES_HALT},
}


def test_every_rule_is_driven_and_says_what_would_let_the_plan_go_on() -> None:
    halted = EVERY_HALT.keys() | {"rejected"}

    assert {rule.name for rule in RULES} | set(AT_ONCE.values()) <= UNBLOCK.keys()
    assert halted == UNBLOCK.keys()


@pytest.mark.parametrize("rule", EVERY_HALT)
def test_every_halt_tells_its_values_and_what_led_to_it(rule: str) -> None:
    plan = EVERY_HALT[rule]()

    halt, evidence = plan.halt, plan.halt["evidence"]
    assert (plan.state, halt["rule"], evidence["policy_version"]) == ("HALTED", rule, POLICY_VERSION)
    assert {"value", "limit", "limit_name"} <= evidence.keys()
    assert evidence["unblock"] == UNBLOCK[rule]
    assert evidence["events"]
    assert all("at" in event and len({"category", "what"} & event.keys()) == 1 for event in evidence["events"])


@pytest.mark.parametrize(
    ("rule", "met", "events"),
    [
        ("manual", (1, 0, "orders"), [("command.obeyed", "ada", None)]),
        ("approval_rejected", (1, 0, "orders"), [("command.obeyed", "ada", "a")]),
        (
            "approval_deadline",
            ("2027-01-22T08:00:00.000Z", "2027-01-22T08:00:00.000Z", "until"),
            [("step.approval_requested", None, "a")],
        ),
        ("invalid_unfolding", (1, 0, "errors"), [("step.done", None, "a")]),
        (
            "answer_deadline",
            ("2027-01-22T08:00:00.000Z", "2027-01-22T08:00:00.000Z", "until"),
            [("plan.input_requested", None, None)],
        ),
        ("wall_clock", (600, 600, "wall_clock_s"), [("plan.ready", None, None)]),
    ],
)
def test_a_halt_by_people_or_by_time_tells_who_or_since_when(rule: str, met: Any, events: Any) -> None:
    evidence = EVERY_HALT[rule]().halt["evidence"]

    assert (evidence["value"], evidence["limit"], evidence["limit_name"]) == met
    assert [(e["what"], e.get("actor"), e.get("step_id")) for e in evidence["events"]] == events


def test_a_plan_that_grew_too_much_names_the_steps_that_made_it_grow() -> None:
    evidence = EVERY_HALT["file_growth"]().halt["evidence"]

    assert [(event["step_id"], event["category"]) for event in evidence["events"]] == [
        ("a", "FILES_CREATED"),
        ("b", "FILES_CREATED"),
    ]


def test_a_plan_of_an_older_policy_goes_on_under_that_version() -> None:
    plan = Running(a_step("a", tools=(PYTEST,), retries=3), a_step("z"))
    head = codec.loads(plan.store.hash(plan.keys.plan)["head"])
    plan.store.hash(plan.keys.plan)["head"] = codec.dumps({**head, "policy_version": 0})

    fail(plan, "a")
    fail(plan, "a", category="SANDBOX_VIOLATION")

    (revised,) = [told for line in plan.log for told in line.get("revisions", ())]
    assert (revised["policy_version"], plan.halt["evidence"]["policy_version"]) == (0, 0)
