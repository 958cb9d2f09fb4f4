"""The step that runs what a plan is about at its base, before an agent is paid."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.step import PlannedStep
from tasks.handlers.goals import plan as plan_goal
from tasks.policy.starts import SILENT_MS
from tasks.rules.strategy import Draft
from tests.support.plans import Running, a_goal, a_report

SHA = "9f1c2d4"
TEST = "tests/test_cart.py::test_sum"
FILES = ("src/cart.py", "tests/test_cart.py")
RUFF = {"pyproject.toml": "[tool.ruff]\nline-length = 100\n"}
CONTEXT: dict[str, Any] = {"language": "python", "test_command": "pytest", "files": FILES, "manifests": RUFF}
FAILS, PASSES = [("pytest-focused", 1)] * 3, [("pytest-focused", 0)] * 3


def steps_of(sentence: str = "Fix the sum", **fields: Any) -> tuple[PlannedStep, ...]:
    """Plan a task whose failing test is known."""
    more: dict[str, Any] = {name: fields.pop(name) for name in ("reproduce", "steps") if name in fields}
    known = {"files": FILES, "failing": [TEST], "base_sha": SHA, "context": CONTEXT, **fields}
    goal = a_goal(sentence=sentence, **known).model_copy(update=more)
    answer = plan_goal(goal)
    assert isinstance(answer, Draft), answer
    return answer.steps


def running(**fields: Any) -> Running:
    limits = {name: fields.pop(name) for name in ("wall_clock_s", "consecutive_failures", "delivery") if name in fields}
    return Running(*steps_of(**fields), base_sha=SHA, failing=[TEST], **limits)


def receipts(*codes: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"tool": tool, "exit_code": code} for tool, code in codes]


def tools_of(plan: Running) -> list[str]:
    return [tool["tool"] for tool in plan.facts["reproduce"]["verify_tools"]]


def answer(plan: Running, *codes: tuple[str, int], **said: Any) -> None:
    """Have the step end with these exit codes of its tools, in their order."""
    live = plan.active["reproduce"]
    body = {"verified_at": SHA, "verify": receipts(*codes), "failing_tests": [TEST], **said}
    plan.report(a_report("reproduce", live.attempt, **body))
    plan.rest()


def codes_of(plan: Running, tests: int, checks: int) -> list[tuple[str, int]]:
    quick = plan.facts["reproduce"].get("quick_checks", ())
    return [(tool, checks if tool in quick else tests) for tool in tools_of(plan)]


def test_it_is_first_and_runs_the_failing_tests_three_times_and_then_the_quick_checks() -> None:
    first, *others = steps_of()

    argvs = [tool.argv for tool in first.verify_tools]
    assert first.step_id == "reproduce"
    assert argvs[0] == argvs[1] == argvs[2]
    assert any(TEST in word for word in argvs[0])
    assert first.quick_checks
    assert {tool.tool for tool in first.verify_tools[3:]} == set(first.quick_checks)
    assert all({0, 1} <= set(tool.pass_codes) for tool in first.verify_tools)
    assert others[0].depends_on == ("reproduce",)


def test_its_spec_is_of_the_base_and_needs_no_agent() -> None:
    (spec,) = running().specs

    assert (spec["step_id"], spec["mode"], spec["context"]["at"]) == ("reproduce", "test", "base")
    assert spec["limits"]["patch_cycles"] == 0
    assert "at_base" not in spec


@pytest.mark.parametrize("fields", [{"base_sha": None}, {"reproduce": "off"}, {"reproduce": False}])
def test_without_a_base_or_where_it_is_off_there_is_none(fields: dict[str, Any]) -> None:
    assert "reproduce" not in [step.step_id for step in steps_of(**fields)]


def test_what_fails_there_lets_the_plan_go_on() -> None:
    plan = running(consecutive_failures=1)

    answer(plan, *codes_of(plan, 1, 0))

    assert plan.states["reproduce"] == "DONE"
    assert plan.record.spent["failing_outcomes"] == 0
    assert list(plan.active) != []


def test_tests_that_pass_each_time_halt_the_plan_with_interpreter_and_host() -> None:
    plan = running()

    answer(plan, *codes_of(plan, 0, 0), failing_tests=[], controller="ctl-1", error_message="/opt/py/bin/pytest")

    assert plan.halt["rule"] == "passes_at_base"
    evidence = plan.halt["evidence"]
    assert (evidence["interpreter"], evidence["host"], evidence["value"]) == ("/opt/py/bin/pytest", "ctl-1", 3)
    assert TEST in evidence["command"]
    assert "ctl-1" in evidence["unblock"]


@pytest.mark.parametrize(("codes", "delivers"), [(0, True), (1, True), (0, False)])
def test_tests_that_pass_at_the_tip_of_the_target_end_a_plan_that_would_deliver(codes: int, delivers: bool) -> None:
    plan = running(delivery={"push": True} if delivers else None)
    at_target = {"target_sha": 40 * "1", "verify": receipts(*codes_of(plan, codes, 0))}

    (spec,) = plan.specs
    answer(plan, *codes_of(plan, 1, 0), **({"at_target": at_target} if delivers else {}))

    assert (spec["context"].get("then_at") == "target") is delivers
    assert (plan.state == "HALTED") is (delivers and not codes)
    if plan.state == "HALTED":
        assert (plan.halt["rule"], plan.halt["evidence"]["target_sha"]) == ("already_fixed", 40 * "1")
        assert TEST in plan.halt["evidence"]["command"]


def test_a_run_without_the_failing_test_is_no_pass() -> None:
    plan = running()
    figures = {"passed": 2, "collected": 2, "named": {TEST: "absent"}}

    plan.report(
        a_report(
            "reproduce",
            verified_at=SHA,
            verify=[
                {"tool": tool, "exit_code": code, "report": "whole", "tests": figures}
                for tool, code in codes_of(plan, tests=0, checks=0)
            ],
        )
    )

    assert (plan.state, plan.states["reproduce"]) == ("EXECUTING", "DONE")


def test_one_failure_of_three_is_a_failure() -> None:
    plan = running()

    codes = codes_of(plan, 0, 0)
    codes[1] = (codes[1][0], 1)
    answer(plan, *codes)

    assert plan.state == "EXECUTING"


def test_a_goal_may_only_want_to_be_warned() -> None:
    plan = running(reproduce="warn")

    answer(plan, *codes_of(plan, 0, 0))

    assert plan.state == "EXECUTING"
    assert "pass at the base" in (plan.record.reproduced.doubt or "")


def test_without_the_echo_nothing_is_concluded() -> None:
    plan = running()

    answer(plan, *codes_of(plan, 0, 0), verified_at=None)

    assert plan.state == "EXECUTING"
    assert plan.states["reproduce"] == "DONE"
    assert not plan.record.reproduced.stored()


def test_a_check_that_was_red_is_not_run_after_the_change() -> None:
    plan = running()
    (check,) = plan.facts["reproduce"]["quick_checks"]

    answer(plan, *codes_of(plan, 1, 1))
    finish_reading(plan)

    assert check not in [tool["tool"] for tool in plan.facts["implement-fix"]["verify_tools"]]
    assert [tool["tool"] for tool in plan.facts["implement-fix"]["verify_tools"]]


def finish_reading(plan: Running) -> None:
    """Have the steps that read end, until the patch starts."""
    while "implement-fix" not in plan.active:
        (step,) = plan.active
        plan.report(a_report(step, output="src/cart.py"))


def test_a_check_that_could_not_run_leaves_the_plan_and_is_told_as_unverified() -> None:
    plan = running()
    (check,) = plan.facts["reproduce"]["quick_checks"]
    cannot = {"tool": check, "reason": "No module named ruff"}

    answer(plan, *codes_of(plan, 1, 127), success=False, cannot_verify=cannot)
    finish_reading(plan)

    assert check not in [tool["tool"] for tool in plan.facts["implement-fix"]["verify_tools"]]
    assert "No module named ruff" in (plan.record.reproduced.doubt or "")
    assert plan.record.spent["failing_outcomes"] == 0


def test_failing_tests_that_could_not_run_are_handed_back_and_halt_the_second_time() -> None:
    plan = running()
    (tool, *_) = tools_of(plan)
    for _ in range(2):
        answer(plan, (tool, 4), success=False, cannot_verify={"tool": tool, "reason": "file or directory not found"})

    assert plan.halt["rule"] == "cannot_verify"


def test_tests_that_do_not_load_are_what_a_goal_about_that_reproduces() -> None:
    context = {**CONTEXT, "failure_log": "ImportError while importing test module 'tests/test_cart.py'."}
    plan = Running(*steps_of(context=context), base_sha=SHA, failing=[TEST])
    (tool, *_) = tools_of(plan)
    cannot = {"tool": tool, "reason": "exit code 2"}

    evidence = {"category": "IMPORT_ERROR"}
    answer(plan, (tool, 2), success=False, cannot_verify=cannot, failure_evidence=evidence)

    assert (plan.states["reproduce"], plan.state) == ("DONE", "EXECUTING")


def test_controllers_that_die_over_it_halt_nothing() -> None:
    plan = running(wall_clock_s=86_400)
    for _ in range(2):
        plan.store.claim(plan.plan_id, "reproduce")
        plan.store.wait(SILENT_MS)
        plan.sweep()
        plan.rest()

    assert (plan.states["reproduce"], plan.state, plan.record.counters.lease_deaths) == ("DONE", "EXECUTING", 0)


def test_the_wall_clock_begins_behind_it() -> None:
    plan = running(wall_clock_s=600)
    plan.store.wait(500_000)

    answer(plan, *codes_of(plan, 1, 0))
    plan.store.wait(500_000)
    plan.sweep()

    assert plan.state == "EXECUTING"


def test_supplied_steps_are_reproduced_if_the_goal_asks_for_it() -> None:
    step = {"step_id": "reproduce", "title": "t", "intent": "i", "allowed_files": ["src/cart.py"], "verify": "pytest"}
    context = {**CONTEXT, "base_sha": SHA, "failing_tests": [TEST]}
    body = {"goal": "Fix it", "allowed_files": FILES, "steps": [step], "context": context}
    goal = a_goal().__class__.model_validate(body)

    asked, plain = (plan_goal(each) for each in (goal.model_copy(update={"reproduce": True}), goal))

    assert isinstance(asked, Draft)
    assert isinstance(plain, Draft)
    assert [(each.step_id, each.depends_on) for each in asked.steps] == [
        ("reproduce-2", ()),
        ("reproduce", ("reproduce-2",)),
    ]
    assert [each.step_id for each in plain.steps] == ["reproduce"]


def test_too_many_failing_tests_for_one_command_are_reproduced_by_their_files() -> None:
    failing = [f"tests/test_cart.py::test_{number}" for number in range(30)]

    first, *_ = steps_of(failing=failing)

    assert first.verify_tools[0].argv[-1] == "tests/test_cart.py"
