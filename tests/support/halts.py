"""Every rule that halts a plan, with a function that makes a plan of the memory store break it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from schemas.base import RiskLevel
from tasks.policy.starts import SILENT_MS
from tasks.rules.strategy import Question
from tests.support.commands import WEEK_MS, order
from tests.support.growing import Script, goes_on, growing
from tests.support.plans import PYTEST, Running, a_check, a_failure, a_report, a_step, plan_id, some_steps


def fail(plan: Running, step: str, trace: str = "", category: str = "TEST_REGRESSION", **said: Any) -> None:
    evidence = {"category": category, "stack_trace_head": trace or None}
    plan.report(a_report(step, plan.steps[step].attempt, success=False, failure_evidence=evidence, **said))


def die(plan: Running, step: str) -> None:
    plan.store.claim(plan.plan_id, step)
    plan.store.wait(SILENT_MS)
    plan.sweep()


def fail_in_a_row(count: int, **limits: Any) -> Running:
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


def hand_back(plan: Running, step: str, controller: str, reason: str = "no such repository", **said: Any) -> None:
    """Have a controller claim the live attempt of a step, and hand it back."""
    plan.store.claim(plan.plan_id, step, controller)
    live = plan.active[step]
    said = {"success": False, "released": {"reason": reason}, **said}
    assert plan.report(a_report(step, live.attempt, live.lease, **said)) == ["applied"]


def be_nobodys() -> Running:
    plan = Running(a_step("a"))
    for controller in ("ctl-1", "ctl-2", "ctl-3"):
        hand_back(plan, "a", controller)
        plan.rest()
    return plan


def cannot_verify(plan: Running, step: str, controller: str, **said: Any) -> None:
    """Have a controller claim the live attempt of a step, and report that its verification could not run."""
    plan.store.claim(plan.plan_id, step, controller)
    live = plan.active[step]
    body = {"success": False, "cannot_verify": {"tool": "pytest", "reason": "No module named pytest"}, **said}
    assert plan.report(a_report(step, live.attempt, live.lease, **body)) == ["applied"]


def be_unverifiable() -> Running:
    plan = Running(a_step("a", tools=(PYTEST,)))
    for _ in range(2):
        cannot_verify(plan, "a", "ctl-1")
        plan.rest()
    return plan


def be_refused() -> Running:
    """Have a repair delete a test, and delete it again after the planner has refused that."""
    plan = Running(a_step("a"), sentence="Fix the crash in src/a.py")
    for attempt in (1, 2):
        place = {"kind": "test_removed", "path": "tests/test_a.py", "line": 3, "what": "test_a"}
        said = {"counts": {"test_removed": 1}, "places": [place]}
        plan.report(a_report("a", attempt, touched_files=["src/a.py"], integrity=said))
    return plan


def fail_held_out_tests() -> Running:
    plan = Running(a_check("t"), holdout=f"sha256:{0:064x}")
    plan.report(a_report("t"))
    fail(plan, "t-holdout")
    return plan


def pass_at_base() -> Running:
    first = a_check("r").model_copy(update={"at_base": ("halt",)})
    plan = Running(first, a_step("a", "r"), base_sha="9f1c2d4")
    plan.report(a_report("r", verified_at="9f1c2d4", verify=[{"tool": "pytest", "exit_code": 0}]))
    return plan


def pass_at_target() -> Running:
    first = a_check("r").model_copy(update={"at_base": ("halt",)})
    plan = Running(first, a_step("a", "r"), base_sha="9f1c2d4", delivery={"push": True})
    told = {"target_sha": 40 * "1", "verify": [{"tool": "pytest", "exit_code": 0}]}
    plan.report(a_report("r", verified_at="9f1c2d4", verify=[{"tool": "pytest", "exit_code": 1}], at_target=told))
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
    """Have a strategy give up its plan, or add steps that break a rule."""
    halt: tuple[str, str, dict[str, object]] | None = None if rule == "invalid_unfolding" else (rule, "why", {})
    with pytest.MonkeyPatch.context() as patch:
        plan = growing(patch, Script(on_end=lambda *_: goes_on(a_step("a"), halt=halt)), a_step("a"))
        plan.report(a_report("a"))
    return plan


def overlap() -> Running:
    """A plan that refuses overlaps is to have a step about a file that another plan claims."""
    with pytest.MonkeyPatch.context() as patch:
        added = Script(on_end=lambda *_: goes_on(a_step("b", files=["src/b.py"])))
        plan = growing(patch, added, a_step("a"), overlap="refuse")
        Running(a_step("b"), plan=plan_id(2), store=plan.store, repo="acme/shop")
        plan.report(a_report("a"))
    return plan


STRATEGIES_HALT = ("invalid_unfolding", "plan_unfit", "planning_failed", "clarification_limit", "review_stopped")


# Every rule that halts, with a plan that it has halted.
def halt_in_conflict() -> Running:
    """A plan whose target moved, and that its step to bring it up to date cannot follow."""
    delivers = {"files": ["src/**"], "delivery": {"push": True}}
    plan = Running(a_step("a"), **delivers)
    plan.report(a_report("a", diff_hash="sha256:a", touched_files=["src/a.py"]))
    landed = {"target_sha": 40 * "1", "result_sha": 40 * "2", "conflicts": ["src/a.py"], "commits": []}
    plan.report(a_report("land", output=landed))
    for number in (1, 2):
        plan.report(a_failure("bring-up-to-date", error_message=f"wrong {number}"))
        plan.rest()
    return plan


EVERY_HALT: dict[str, Callable[[], Running]] = {
    **{rule: partial(drive, count + beyond, **{limit: count}) for rule, limit, drive, count, beyond in TABLE},
    "security": violate,
    "budget": use_up,
    "wall_clock": take_long,
    "nobody_can": be_nobodys,
    "cannot_verify": be_unverifiable,
    "passes_at_base": pass_at_base,
    "integrity": be_refused,
    "holdout": fail_held_out_tests,
    "already_fixed": pass_at_target,
    "conflict": halt_in_conflict,
    "cannot_revise": lead_nowhere,
    "manual": be_ordered,
    "approval_rejected": partial(be_ordered, "reject"),
    "approval_deadline": be_forgotten,
    "answer_deadline": ask_in_vain,
    "overlap": overlap,
    **{rule: partial(go_wrong, rule) for rule in STRATEGIES_HALT},
}
