"""A red verification leads back to a patch: of which files, how risky, and when it does not."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import FailureCategory, RiskLevel
from schemas.step import PlannedStep
from tasks.policy.starts import SILENT_MS
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.commands import order
from tests.support.plans import PLAN, Running, a_check, a_failure, a_report, a_step, fail_and_rest, wait_sweeping

C = FailureCategory
TESTS = ("tests/test_a.py::test_one", "tests/test_a.py::test_two")
LOW, MED, HIGH = RiskLevel


def red(*steps: PlannedStep, category: str = "TEST_REGRESSION", named: tuple[str, ...] = (), **more: Any) -> Running:
    """Play the patches of a plan to their end, and its check `t` to its first failure."""
    plan = Running(*steps, **more)
    while patches := [step for step in plan.active if step != "t"]:
        for step in patches:
            plan.report(a_report(step))
    fail_and_rest(plan, "t", category, top_failing_tests=TESTS, affected_files=named)
    return plan


def spec_of(plan: Running, step: str) -> dict[str, Any]:
    return plan.facts[step]


def files_of(plan: Running, step: str = "t-mend") -> list[str]:
    files: list[str] = spec_of(plan, step)["allowed_files"]
    return files


@pytest.mark.parametrize("category", sorted(C))
def test_what_is_wrong_with_the_code_is_mended_and_nothing_else(category: C) -> None:
    halts = category in ("SANDBOX_VIOLATION", "HYGIENE_VIOLATION", "ALLOWLIST_VIOLATION", "BUDGET_EXCEEDED")
    plan = red(a_step("a"), a_check("t", "a"), category=category)

    of_code = ("TEST_REGRESSION", "COMPILATION_ERROR", "TYPE_ERROR", "LINT_ERROR", "IMPORT_ERROR", "TESTS_DIVERGE")
    assert ("t-mend" in plan.states) == (category in of_code)
    assert (plan.state == "HALTED") == halts


def test_the_check_waits_for_its_mend_and_is_run_again() -> None:
    plan = red(a_step("a"), a_check("t", "a"), a_step("z", "t"))

    waiting = (plan.states["t"], list(plan.active), plan.states["z"], plan.steps["t"].unmet)
    plan.report(a_report("t-mend", touched_files=["src/a.py"]))
    again = (plan.active["t"].attempt, list(plan.active))
    plan.report(a_report("t"))
    plan.report(a_report("z"))

    assert waiting == ("ACTIVE", ["t-mend"], "BLOCKED", 1)
    assert again == (2, ["t"])
    assert plan.state == "COMPLETED"


def test_a_mend_is_told_what_failed_and_verified_by_that_and_by_its_own_files() -> None:
    plan = red(a_step("a"), a_check("t", "a", commands=("pytest -q", "ruff check .")))

    (spec,) = [each for each in plan.specs if each["step_id"] == "t-mend"]
    assert spec["context"]["previous_failure"]["failing_tests"] == list(TESTS)
    assert spec["verify"].split(" && ") == [
        "python -m py_compile src/a.py",
        "ruff check -- src/a.py",
        "pytest -q -- tests/test_a.py::test_one",
        "pytest -q -- tests/test_a.py::test_two",
    ]
    assert (spec["mode"], spec["inserted_by"], spec["retry_limit"]) == ("patch", "t", 2)
    assert (spec["limits"]["tokens"], spec["limits"]["patch_cycles"]) == (1000, 1)  # as the patch before it


def test_where_nothing_is_quick_a_mend_is_verified_as_the_check_is() -> None:
    plan = red(a_step("a", files=["notes.txt"]), a_check("t", "a", commands=("npm run check",)))

    assert spec_of(plan, "t-mend")["verify"] == "npm run check"


@pytest.mark.parametrize(
    ("steps", "named", "files"),
    [
        ([a_step("a"), a_step("b"), a_check("t", "a", "b")], (), ["src/a.py", "src/b.py"]),
        ([a_step("a"), a_step("b"), a_check("t", "a", "b")], ("/w/src/b.py",), ["src/b.py", "src/a.py"]),
        ([a_step("a"), a_step("b", "a"), a_check("t", "b")], (), ["src/b.py", "src/a.py"]),  # the nearest first
        ([a_step("a", files=["tests/test_a.py", "src/a.py"]), a_check("t", "a")], (), ["src/a.py", "tests/test_a.py"]),
        ([a_step("a"), a_step("b"), a_check("t", "a")], ("src/b.py",), ["src/a.py"]),  # nothing that it does not need
        (
            [a_step("a"), a_check("c", "a"), a_step("b", "c", files=["src/b.py", "src/a.py"]), a_check("t", "b", "c")],
            (),
            ["src/b.py", "src/a.py"],
        ),
        (
            [a_step("a", files=[f"src/{n}.py" for n in range(10)]), a_step("b"), a_check("t", "b", "a")],
            ("src/9.py",),
            ["src/9.py", "src/b.py", *(f"src/{n}.py" for n in range(9))],  # more than LOW may change at once
        ),
    ],
)
def test_the_files_are_of_what_was_patched_before(
    steps: list[PlannedStep], named: tuple[str, ...], files: list[str]
) -> None:
    assert files_of(red(*steps, named=named)) == files


@pytest.mark.parametrize(
    ("steps", "risk", "files"),
    [
        ([a_step("a", risk=MED, tools=(CATALOGUE.match("pytest"),)), a_check("t", "a")], MED, ["src/a.py"]),
        (
            [a_step("a", risk=HIGH), a_step("b"), a_step("c"), a_check("t", "a", "b", "c")],
            HIGH,
            ["src/a.py", "src/b.py", "src/c.py"],
        ),
        (
            [a_step("a", risk=HIGH), a_step("b", "a"), a_check("t", "b")],
            LOW,
            ["src/b.py"],
        ),  # one further off raises none
    ],
)
def test_a_mend_is_as_risky_as_what_it_mends(steps: list[PlannedStep], risk: RiskLevel, files: list[str]) -> None:
    plan = red(*steps)

    assert (spec_of(plan, "t-mend")["risk_level"], files_of(plan)) == (risk, files)


def many(name: str, *after: str, count: int) -> PlannedStep:
    files = [f"{name}/{number}.py" for number in range(count)]
    return a_step(name, *after, files=files, risk=MED, tools=(CATALOGUE.match("pytest"),))


def crowd() -> list[PlannedStep]:
    """Ten steps that patch five files each, after one whose file a failing test is named after."""
    names = [f"x{number}" for number in range(10)]
    return [a_step("a"), *(many(name, "a", count=5) for name in names), a_check("t", *names)]


CHOSEN = [*[f"x{step}/{number}.py" for step in range(10) for number in range(5)][:49], "src/a.py"]


@pytest.mark.parametrize(
    ("steps", "risk", "files"),
    [
        # Tests alone do not hide what they test, nor its risk; a source does.
        (
            [a_step("a", risk=HIGH), a_step("b", "a", files=["tests/test_a.py"]), a_check("t", "b")],
            HIGH,
            ["src/a.py", "tests/test_a.py"],
        ),
        (
            [a_step("a", risk=HIGH), a_step("b", "a"), a_step("c", "b", files=["docs/b.md"]), a_check("t", "c")],
            LOW,
            ["docs/b.md", "src/b.py"],
        ),
        # A step that names more files than one attempt may change, and no file of it is known to be changed.
        (
            [many("a", count=8), a_check("t", "a")],
            MED,
            [f"a/{number}.py" for number in range(8)],
        ),
        # Where there are too many, those are taken that a failing test is named after.
        (
            crowd(),
            MED,
            CHOSEN,
        ),
    ],
)
def test_a_mend_may_touch_what_tests_say_is_wrong(steps: list[PlannedStep], risk: RiskLevel, files: list[str]) -> None:
    plan = red(*steps)

    assert (spec_of(plan, "t-mend")["risk_level"], files_of(plan)) == (risk, files)


def test_a_mend_of_many_files_may_change_no_more_at_once_than_its_risk_allows() -> None:
    plan = red(many("y", count=5), many("x", "y", count=5), a_check("t", "x"))

    (spec,) = [each for each in plan.specs if each["step_id"] == "t-mend"]
    assert (len(spec["allowed_files"]), spec["limits"]["max_files"], spec["limits"]["max_risk"]) == (10, 5, "MED")


def test_a_test_that_was_run_alone_verifies_the_mend() -> None:
    alone = "pytest -q -- tests/test_a.py::test_one"
    plan = red(a_step("a"), a_check("t", "a", commands=(alone,)))

    assert spec_of(plan, "t-mend")["verify"].split(" && ") == ["python -m py_compile src/a.py", alone]


def test_a_check_that_hangs_has_more_time_and_then_a_mend() -> None:
    plan = red(a_step("a"), a_check("t", "a"), category="TEST_TIMEOUT", identical_failures=2)
    first = ("t-mend" in plan.states, list(plan.active))

    fail_and_rest(plan, "t", "TEST_TIMEOUT", top_failing_tests=TESTS)
    second = (plan.state, files_of(plan))
    plan.report(a_report("t-mend", touched_files=["src/a.py"]))
    fail_and_rest(plan, "t", "TEST_TIMEOUT", top_failing_tests=TESTS)

    assert (first, second) == ((False, ["t"]), ("EXECUTING", ["src/a.py"]))
    assert (plan.state, plan.halt["rule"]) == ("HALTED", "identical_failure")


@pytest.mark.parametrize("before", ["FLAKY_TEST", "LEASE_EXPIRED", "TEST_REGRESSION"])
def test_a_check_that_failed_for_another_reason_has_more_time_once_it_hangs(before: str) -> None:
    plan = Running(a_step("a"), a_check("t", "a", retries=3))
    plan.report(a_report("a"))
    if before == "LEASE_EXPIRED":
        plan.store.claim(PLAN, "t")
        wait_sweeping(plan, SILENT_MS)
    else:
        fail_and_rest(plan, "t", before, top_failing_tests=TESTS)
    if "t-mend" in plan.active:
        plan.report(a_report("t-mend", touched_files=["src/a.py"]))
    mends = [step for step in plan.states if "mend" in step]
    usual = CATALOGUE.match("pytest").timeout_s

    fail_and_rest(plan, "t", "TEST_TIMEOUT", top_failing_tests=TESTS)

    assert [step for step in plan.states if "mend" in step] == mends
    assert spec_of(plan, "t")["verify_tools"][0]["timeout_s"] == 2 * usual
    fail_and_rest(plan, "t", "TEST_TIMEOUT", top_failing_tests=TESTS)
    assert [step for step in plan.states if "mend" in step][len(mends) :]
    assert spec_of(plan, "t")["verify_tools"][0]["timeout_s"] == 2 * usual


def test_a_step_that_has_ended_leaves_nothing_of_its_timeouts() -> None:
    plan = red(a_step("a"), a_check("t", "a"), a_step("z", "t"), category="TEST_TIMEOUT")
    known = plan.record.counters.timeouts

    plan.report(a_report("t"))

    assert (known, plan.record.counters.timeouts) == ({"t": 1}, {})


def test_a_source_is_mended_whose_test_is_named_in_the_trace_alone() -> None:
    plan = Running(*crowd())
    while (step := next(iter(plan.active))) != "t":
        plan.report(a_report(step))
    for _ in range(2):
        fail_and_rest(plan, "t", "TEST_TIMEOUT", stack_trace_head="tests/test_a.py::test_one ")

    assert files_of(plan) == CHOSEN


def test_a_mend_is_pointed_to_what_the_failure_names_by_path_or_module() -> None:
    trace = "E   ImportError: cannot import name 'total' from 'src.cart'"
    plan = Running(a_step("a", files=["src/art.py", "src/price.py", "src/cart.py"]), a_check("t", "a"))
    plan.report(a_report("a"))

    fail_and_rest(plan, "t", "IMPORT_ERROR", stack_trace_head=trace, affected_files=["/w/src/price.py"])

    assert files_of(plan) == ["src/price.py", "src/cart.py", "src/art.py"]
    assert [place["path"] for place in spec_of(plan, "t-mend")["focus"]] == ["src/price.py", "src/cart.py"]


@pytest.mark.parametrize(
    ("category", "trace"),
    [("IMPORT_ERROR", "tests/test_cart.py:3: in <module>"), ("TEST_TIMEOUT", "tests/test_cart.py::test_sums")],
)
def test_tests_that_cannot_be_loaded_or_hang_verify_the_mend(category: str, trace: str) -> None:
    plan = Running(a_step("a", files=["src/cart.py"]), a_check("t", "a"))
    plan.report(a_report("a"))

    for _ in range(1 if category == "IMPORT_ERROR" else 2):
        fail_and_rest(plan, "t", category, stack_trace_head=trace, affected_files=["tests/test_cart.py"])

    assert spec_of(plan, "t-mend")["verify"].endswith(" && pytest -- tests/test_cart.py")


@pytest.mark.parametrize(("changed", "files"), [("cart/cart.go", ()), ("cart.go", ("cart_test.go",))])
def test_a_file_that_a_tool_names_without_its_folder_is_taken_for_one_of_the_root_only_beside_others_of_it(
    changed: str, files: tuple[str, ...]
) -> None:
    open_to = {"allowed_patterns": ("**",), "checks_after": {"syntax": False}}
    step = a_step("a", files=[changed], risk=RiskLevel.MED).model_copy(update=open_to)
    plan = Running(step, a_check("t", "a", commands=("go test ./...",)), files=("**",))
    plan.report(a_report("a", touched_files=[changed]))
    plan.report(a_report("check-changed", touched_files=[]))

    fail_and_rest(plan, "t", "TEST_REGRESSION", top_failing_tests=["TestSums"], affected_files=["cart_test.go"])

    assert files_of(plan) == [changed, *files]


def test_a_patch_that_hangs_twice_halts_as_before() -> None:
    plan = Running(a_step("a", tools=(CATALOGUE.match("pytest"),)), identical_failures=2)

    for _ in range(2):
        fail_and_rest(plan, "a", "TEST_TIMEOUT", top_failing_tests=TESTS)

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "identical_failure")


def test_the_mends_count_for_failures_in_a_row_and_not_the_red_before_them() -> None:
    plan = red(a_step("a"), a_check("t", "a"), consecutive_failures=3)

    tried = 0
    while plan.state == "EXECUTING":
        fail_and_rest(plan, "t-mend", "LINT_ERROR", stack_trace_head="x" * tried)
        tried += 1

    assert (tried, plan.halt["rule"], plan.record.spent["failing_outcomes"]) == (3, "consecutive_failures", 4)


def test_a_mend_of_high_files_waits_for_a_person() -> None:
    plan = Running(a_step("a", risk=HIGH), a_check("t", "a"), approvals=["HIGH"])
    order(plan, "approve", "a")
    plan.report(a_report("a"))
    plan.report(a_failure("t"))

    assert (plan.states["t-mend"], dict(plan.active)) == ("PENDING", {})
    assert list(plan.record.waits) == ["t-mend"]
    order(plan, "approve", "t-mend", order_id="o-2")
    assert list(plan.active) == ["t-mend"]


def test_a_mend_touches_only_its_files() -> None:
    plan = red(a_step("a"), a_step("z"), a_check("t", "a", "z", commands=("pytest",)), named=("src/other.py",))

    assert set(files_of(plan)) == {"src/a.py", "src/z.py"}
    plan.report(a_report("t-mend", touched_files=["src/other.py"]))
    assert (plan.state, plan.halt["rule"]) == ("HALTED", "security")


def test_what_an_operator_took_away_is_not_given_back() -> None:
    plan = Running(a_step("a"), a_step("b"), a_check("t", "a", "b"))
    for step in "ab":
        plan.report(a_report(step))
    order(plan, "tighten", None, {"allowed_files": ["src/b.py"]})
    fail_and_rest(plan, "t", "TEST_REGRESSION")

    assert files_of(plan) == ["src/b.py"]


def test_files_of_a_step_that_was_skipped_are_not_mended() -> None:
    plan = Running(a_step("a"), a_step("b", "a"), a_check("t", "b"), approvals=["LOW"])
    order(plan, "approve", "a")
    plan.report(a_report("a"))
    order(plan, "skip", "b", order_id="o-2")
    order(plan, "approve", "t", order_id="o-3")
    plan.report(a_failure("t"))

    assert (plan.states["b"], files_of(plan)) == ("SKIPPED", ["src/a.py"])


@pytest.mark.parametrize(
    ("steps", "more"),
    [
        ([a_step("a"), a_check("t")], {}),  # it rests on nothing
        ([a_step("a"), a_check("t", "a")], {"mend": False}),
        ([a_step("a"), a_check("t", "a")], {"max_steps": 2}),
        ([a_step("a"), a_check("t", "a", retries=0)], {}),
    ],
)
def test_there_is_no_mend(steps: list[PlannedStep], more: dict[str, Any]) -> None:
    plan = red(*steps, **more)

    assert "t-mend" not in plan.states
    assert plan.states["t"] == ("ACTIVE" if steps[1].retry_limit else "FAILED")


def test_the_same_red_again_after_a_mend_halts() -> None:
    plan = red(a_step("a"), a_check("t", "a"), identical_failures=2)

    plan.report(a_report("t-mend"))
    fail_and_rest(plan, "t", "TEST_REGRESSION", top_failing_tests=TESTS)

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "identical_failure")


def test_another_red_has_another_mend_while_retries_are_left_and_two_mends_use_up_none() -> None:
    plan = red(a_step("a"), a_check("t", "a", retries=1))

    plan.report(a_report("t-mend"))
    fail_and_rest(plan, "t", "TEST_REGRESSION", top_failing_tests=TESTS[1:])
    second = files_of(plan, "t-mend-2")
    plan.report(a_report("t-mend-2"))
    fail_and_rest(plan, "t", "TYPE_ERROR")
    plan.report(a_report("t-mend-3"))
    before = plan.states["t"]
    fail_and_rest(plan, "t", "LINT_ERROR")

    assert second == ["src/a.py"]
    assert (before, plan.states["t"], "t-mend-4" in plan.states) == ("ACTIVE", "FAILED", False)


def test_the_check_fails_with_its_mend() -> None:
    plan = red(a_step("a"), a_check("t", "a"))

    for number in range(3):
        fail_and_rest(plan, "t-mend", "LINT_ERROR", stack_trace_head="x" * number)

    assert plan.states == {"a": "DONE", "t": "FAILED", "t-mend": "FAILED"}
    assert (plan.state, plan.halt["rule"]) == ("HALTED", "cannot_revise")


def test_no_supplied_step_has_the_name_of_a_mend() -> None:
    taken = a_step("t-mend", files=["src/z.py"])

    assert "t-mend-2" in red(a_step("a"), taken, a_check("t", "a")).states


def test_a_mend_is_explained_like_any_revision() -> None:
    plan = red(a_step("a"), a_check("t", "a"))

    (told,) = [told for line in plan.log for told in line.get("revisions", ())]
    assert (told["rule"], told["unblock"]) == ("mend", "Finish t-mend.")
    assert told["diff"] == {"depends_on": [["a"], ["a", "t-mend"]], "inserted": "t-mend"}


def test_no_more_than_64_steps_are_read() -> None:
    chain = [a_step(f"s-{n}", *([f"s-{n - 1}"] if n else []), files=[f"src/{n}.py"]) for n in range(80)]
    plan = red(*chain, a_check("t", "s-79"), named=("src/15.py", "src/16.py"))

    assert files_of(plan)[:2] == ["src/16.py", "src/79.py"]
