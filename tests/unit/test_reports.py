"""What a report has to say, so that an exit code that passes proves something."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from tasks.toolchain.test_ids import is_aimed_at, word_of
from tests.support.plans import PYTEST, Running, a_report, a_step
from worker.controller.printed_reports import read_cargo, read_go, read_nextest

NAME = "tests/test_cart.py::test_adds"
AIMED = PYTEST.model_copy(update={"argv": ("pytest", NAME)})
WHOLE_SUITE = PYTEST.model_copy(update={"argv": ("pytest", "-q")})
LINT = PYTEST.model_copy(update={"tool": "ruff-check", "argv": ("ruff", "check", ".")})
SCRIPT = PYTEST.model_copy(update={"tool": "npm-test", "argv": ("npm", "test")})


def a_receipt(
    report: str | None = "whole", word: str | None = None, tool: str = "pytest", **tests: int
) -> dict[str, Any]:
    counts = {"passed": 1, "collected": 1, **tests}
    figures = {**counts, "named": {NAME: word}} if word else counts
    return {"tool": tool, "exit_code": 0, **({"report": report} if report else {}), "tests": figures}


def reported(tool: Any, receipt: dict[str, Any], **said: Any) -> Running:
    plan = Running(a_step("a", tools=(tool,)), a_step("z", "a"))
    plan.report(a_report("a", 1, plan.active["a"].lease, verify=[receipt], **said))
    return plan


def failure(plan: Running) -> dict[str, Any]:
    return plan.steps["a"].previous or {}


UNPROVED = {
    "no report": {"tool": "pytest", "exit_code": 0, "report": "none"},
    "no end": a_receipt("partial", passed=0),
    "a failed test": a_receipt(failed=1, collected=2),
    "fewer ended": a_receipt(collected=2),
}


@pytest.mark.parametrize("receipt", UNPROVED.values(), ids=UNPROVED)
def test_an_exit_code_that_no_whole_report_bears_out_is_no_proof(receipt: dict[str, Any]) -> None:
    plan = reported(AIMED, receipt)

    assert plan.states["a"] == "ACTIVE"
    assert failure(plan)["category"] == "NO_PROOF"
    assert "pytest ended with exit code 0" in failure(plan)["suggestion"]


@pytest.mark.parametrize("receipt", [a_receipt(), a_receipt(word="passed"), {"tool": "pytest", "exit_code": 0}])
def test_a_whole_report_and_a_controller_that_tells_of_none_are_taken(receipt: dict[str, Any]) -> None:
    plan = reported(AIMED, receipt)

    assert plan.states["a"] == "DONE"
    assert plan.record.doubt is None


@pytest.mark.parametrize("word", ["skipped", "xfailed", "deselected", "absent", "failed"])
def test_a_failing_test_of_the_goal_has_to_be_passed_by_its_id(word: str) -> None:
    plan = reported(AIMED, a_receipt(word=word))

    assert failure(plan)["category"] == "TEST_REGRESSION"
    assert failure(plan)["failing_tests"] == [NAME]
    assert failure(plan)["suggestion"].endswith(f"was not passed: {word}")


def test_a_test_that_a_whole_suite_does_not_have_casts_doubt_and_one_that_other_files_lack_does_not() -> None:
    whole = reported(WHOLE_SUITE, a_receipt(word="absent"))
    other = reported(PYTEST.model_copy(update={"argv": ("pytest", "tests/test_b.py")}), a_receipt(word="absent"))

    assert (whole.states["a"], other.states["a"]) == ("DONE", "DONE")
    assert (whole.steps["a"].previous, other.steps["a"].previous) == ({"verified": False}, None)


@pytest.mark.parametrize("receipt", [a_receipt("none", tool="npm-test"), {"tool": "npm-test", "exit_code": 0}])
def test_where_reports_are_required_a_tool_of_tests_without_one_does_not_pass(receipt: dict[str, Any]) -> None:
    usual, required = (
        Running(a_step("a", tools=(SCRIPT,)), a_step("z", "a"), requires_reports=is_on) for is_on in (False, True)
    )
    for plan in (usual, required):
        plan.report(a_report("a", 1, plan.active["a"].lease, verify=[receipt]))

    assert usual.states["a"] == "DONE"
    assert required.states["a"] == "ACTIVE"
    assert failure(required)["category"] == "NO_PROOF"
    assert failure(required)["suggestion"] == "there is no report of the tests of npm-test"


def test_a_plan_that_rests_on_exit_codes_says_so_until_a_report_is_whole() -> None:
    plan = Running(a_step("a", tools=(SCRIPT,)), a_step("b", "a", tools=(AIMED,)), a_step("z", "b"))
    plan.report(a_report("a", verify=[{"tool": "npm-test", "exit_code": 0, "report": "none"}]))
    before = plan.record.doubt
    plan.report(a_report("b", verify=[a_receipt()]))

    assert before == "unverified: exit code only (npm-test)"
    assert plan.record.doubt is None


def test_a_plan_whose_controllers_tell_of_no_report_is_completed_on_their_word() -> None:
    word, reported_, untested = (Running(a_step("a", tools=tools)) for tools in ((AIMED,), (AIMED,), (LINT,)))
    word.report(a_report("a", verify=[{"tool": "pytest", "exit_code": 0}]))
    reported_.report(a_report("a", verify=[a_receipt()]))
    untested.report(a_report("a", verify=[{"tool": "ruff-check", "exit_code": 0}]))

    assert {word.state, reported_.state, untested.state} == {"COMPLETED"}
    assert word.record.doubt == "unverified: no controller sent a report of its tests"
    assert (reported_.record.doubt, untested.record.doubt) == (None, None)


@pytest.mark.parametrize(("touched", "fails"), [([], True), (["tests/test_b.py"], True), (["tests/test_a.py"], False)])
def test_fewer_tests_in_a_file_are_told_by_it_and_fail_a_repair_that_did_not_change_it(
    touched: list[str], fails: bool
) -> None:
    """As many tests are collected as before: those that are gone count, and not those that are new."""
    files = ["src/a.py", "tests/test_a.py", "tests/test_b.py"]
    changing = a_step("a", "base", tools=(WHOLE_SUITE,), files=files)
    steps = [a_step("base", tools=(WHOLE_SUITE,)), changing, a_step("z", "a")]
    plan = Running(*steps, base_sha="9f1c", failing=[NAME])
    before, after = ({"tests/test_a.py": 3, "tests/test_b.py": 1}, {"tests/test_a.py": 1, "tests/test_b.py": 3})
    plan.report(a_report("base", verified_at="9f1c", verify=[told_by_file(before)]))

    plan.report(a_report("a", verify=[told_by_file(after)], touched_files=["src/a.py", *touched]))

    assert (plan.states["a"], failure(plan).get("category")) == (("ACTIVE", "NO_PROOF") if fails else ("DONE", None))
    reasons = [codec.loads(data).get("reason") or "" for change in plan.changes for _, data in change.events]
    told = (failure(plan).get("suggestion") or "", *reasons)
    assert any("pytest collected fewer tests: 1 in tests/test_a.py (3 before)" in each for each in told)


def told_by_file(files: dict[str, int]) -> dict[str, Any]:
    count = sum(files.values())
    receipt = a_receipt(passed=count, collected=count)
    return {**receipt, "tests": {**receipt["tests"], "files": files}}


def test_go_events_are_a_whole_report_with_the_text_that_they_came_from() -> None:
    begin = (
        '{"Action":"run","Package":"shop","Test":"TestAdds"}\n'
        '{"Action":"output","Package":"shop","Output":"=== RUN   TestAdds\\n"}\n'
    )
    end = (
        '{"Action":"pass","Package":"shop","Test":"TestAdds"}\n'
        '{"Action":"output","Package":"shop","Output":"ok  shop\\n"}\n'
    )
    over = '{"Action":"pass","Package":"shop"}\n'

    whole, cut = read_go(begin + end + over), read_go(begin + over)

    assert (whole.words, whole.ends, whole.text) == ({"shop.TestAdds": "passed"}, True, "ok  shop\n")
    assert not cut.ends
    assert not read_go("go: go.mod file not found\n").began


def test_libtest_is_whole_with_the_closing_line_of_each_part() -> None:
    part = "running 2 tests\ntest cart::adds ... ok\ntest cart::later ... ignored\n"
    end = "test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"

    assert read_cargo(part + end).ends
    assert read_cargo(part + end).words == {"cart::adds": "passed", "cart::later": "skipped"}
    assert not read_cargo(part).ends
    assert not read_cargo(part.replace("test cart::adds ... ok\n", "") + end).ends


def test_nextest_is_whole_with_a_summary_of_its_tests() -> None:
    line = "        PASS [   0.004s] (1/1) shop cart::adds\n"
    end = "     Summary [   0.005s] 1 test run: 1 passed, 2 skipped\n"

    assert read_nextest(line + end).ends
    assert read_nextest(line + end).words == {"shop cart::adds": "passed"}
    assert not read_nextest(line).ends


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("tests/test_cart.py::TestCart::test_adds", "tests.test_cart.TestCart.test_adds"),
        ("cart.test.js > cart > adds", "src/cart.test.js > cart > adds"),
        ("src/cart.test.js::adds", "src/cart.test.js > cart > adds"),
        ("src/cart.test.js::Cart empty adds", "src/cart.test.js > Cart > empty > adds"),  # mocha-junit-reporter
        ("TestAdds", "example.com/shop/cart.TestAdds"),
        ("shop cart::tests::adds", "cart::tests::adds"),
        ("tests/test_cart.py::test_adds", "tests/test_cart.py::test_adds[2-2]"),
    ],
)
def test_a_test_is_found_in_a_report_that_spells_it_otherwise(name: str, known: str) -> None:
    assert word_of(name, {known: "passed", "tests/test_b.py::test_b": "failed"}) == "passed"
    assert word_of(name, {"tests/test_b.py::test_b": "passed"}) == "absent"


def test_a_command_is_aimed_at_a_test_by_its_file_its_folder_or_its_name() -> None:
    assert is_aimed_at(["tests"], NAME)
    assert is_aimed_at(["tests/test_cart.py"], NAME)
    assert is_aimed_at([NAME], NAME)
    assert not is_aimed_at(["tests/test_b.py"], NAME)


def test_what_a_base_reported_is_held_against_later_reports() -> None:
    plan = Running(
        a_step("base", tools=(WHOLE_SUITE,)),
        a_step("a", "base", tools=(WHOLE_SUITE,)),
        a_step("z", "a"),
        base_sha="9f1c",
    )
    plan.report(a_report("base", verified_at="9f1c", verify=[a_receipt(passed=3, collected=3)]))
    plan.report(a_report("a", verify=[{"tool": "pytest", "exit_code": 0}]))
    missing = failure(plan)
    plan.report(a_report("a", 2, verify=[a_receipt(passed=2, collected=2)]))

    assert missing["category"] == "NO_PROOF"
    assert "before the plan" in missing["suggestion"]
    assert plan.states["a"] == "DONE"
    assert plan.steps["a"].previous == {"verified": False}


def test_a_whole_suite_that_ran_no_test_at_all_has_not_passed_the_failing_one() -> None:
    plan = reported(WHOLE_SUITE, a_receipt(word="absent", passed=0, collected=0))

    assert failure(plan)["category"] == "TEST_REGRESSION"


def test_a_failing_test_that_the_same_command_had_before_the_plan_has_to_be_there_after_it() -> None:
    plan = Running(
        a_step("base", tools=(WHOLE_SUITE,)),
        a_step("a", "base", tools=(WHOLE_SUITE,)),
        a_step("z", "a"),
        base_sha="9f1c",
    )
    plan.report(a_report("base", verified_at="9f1c", verify=[a_receipt(word="failed", passed=2, collected=3)]))

    plan.report(a_report("a", verify=[a_receipt(word="absent", collected=3, passed=3)]))

    assert failure(plan)["category"] == "TEST_REGRESSION"
    assert failure(plan)["suggestion"] == f"the failing test {NAME} was not passed: absent"
