"""The halt conditions: each at, below and above its threshold, in which order, and what is left behind."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from schemas import codec
from schemas.stored.counters import Counters
from tasks.base.policy_version import POLICY_VERSION
from tasks.plan.snapshot import Snapshot
from tasks.policy.flips import MAX_VERIFICATIONS
from tasks.policy.halt_rules import (
    AT_ONCE,
    MAX_REMEMBERED,
    RULES,
    Seen,
    all_fired,
    count_success,
    success_of,
)
from tasks.policy.pipeline import ADVICE
from tasks.toolchain.classify import HALTS_AT_ONCE
from tests.support.halts import (
    EVERY_HALT,
    TABLE,
    die,
    fail,
    fail_alike,
)
from tests.support.plans import PYTEST, Running, a_failure, a_report, a_step, some_steps
from worker.store.plans import Ask

RUFF = PYTEST.model_copy(update={"tool": "ruff-check", "argv": ("ruff", "check", "src")})


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


RESET: dict[str, Any] = {"consecutive": 1, "asked": True}  # by a success
KEPT: dict[str, Any] = {
    "lease_deaths": 1,
    "timeouts": {"z": 1},
    "failed": [["z", 1, "LINT_ERROR", 0]],
    "revised": ["z"],
}


def an_open_plan() -> Snapshot:
    plan = Running(a_step("a"))
    return plan.begin(Ask(plan.plan_id, ["a"]))


def test_a_success_resets_the_counters_that_it_has_to_and_no_other() -> None:
    """Each counter is in one of the two lists, a new one, too."""
    plan = an_open_plan()
    counters, outcome = plan.record.counters, a_report("a").outcome
    for name, value in (RESET | KEPT).items():
        setattr(counters, name, value)

    count_success(plan.record, success_of(plan.steps["a"], outcome, "", 0, 0))

    assert {each.name for each in fields(Counters) if each.init} == RESET.keys() | KEPT.keys()
    assert {name: getattr(counters, name) for name in RESET} == {name: getattr(Counters(), name) for name in RESET}
    assert {name: getattr(counters, name) for name in KEPT} == KEPT


def test_no_rule_fires_for_a_plan_that_lacks_its_limit() -> None:
    plan = an_open_plan()
    plan.record.counters.consecutive = 1000
    for limit in {rule.limit for rule in RULES}:
        del plan.record.limits[limit]

    assert [*all_fired(Seen(plan.record, plan.steps["a"]), None)] == []


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

    assert len(plan.record.streaks.flips) == MAX_VERIFICATIONS
    assert len(plan.record.counters.failed) == MAX_REMEMBERED
    assert sum(len(codec.dumps(part.stored())) for part in (plan.record.counters, plan.record.streaks)) < 2000


def test_a_halt_is_explained() -> None:
    plan = fail_alike(2, identical_failures=2)

    evidence = plan.halt["evidence"]
    assert plan.halt["reason"] == "a failed 2 times in the same way; the limit identical_failures is 2"
    assert (evidence["value"], evidence["limit"], evidence["policy_version"]) == (2, 2, POLICY_VERSION)
    assert [(e["step_id"], e["attempt"], e["category"]) for e in evidence["events"]] == [
        ("a", 1, "TEST_REGRESSION"),
        ("a", 2, "TEST_REGRESSION"),
    ]
    assert evidence["unblock"].endswith("or raise limits.identical_failures from 2 to at least 3.")


def test_every_rule_is_driven_and_says_what_would_let_the_plan_go_on() -> None:
    halted = EVERY_HALT.keys() | {"rejected"}

    assert {rule.name for rule in RULES} | set(AT_ONCE.values()) <= ADVICE.keys()
    assert halted == ADVICE.keys()


@pytest.mark.parametrize("rule", EVERY_HALT)
def test_every_halt_tells_its_values_and_what_led_to_it(rule: str) -> None:
    plan = EVERY_HALT[rule]()

    halt, evidence = plan.halt, plan.halt["evidence"]
    assert (plan.state, halt["rule"], evidence["policy_version"]) == ("HALTED", rule, POLICY_VERSION)
    assert {"value", "limit", "limit_name"} <= evidence.keys()
    assert evidence["unblock"].endswith(".")
    assert evidence["events"]
    assert all("at" in event and len({"category", "what"} & event.keys()) == 1 for event in evidence["events"])


@pytest.mark.parametrize(
    ("rule", "met", "events"),
    [
        ("manual", (1, 0, "commands"), [("command.obeyed", "ada", None)]),
        ("approval_rejected", (1, 0, "commands"), [("command.obeyed", "ada", "a")]),
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
