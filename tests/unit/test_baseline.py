"""What was red before the plan: when it is looked for, what counts as an answer, and what is left of a failure."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from schemas.outcome import Outcome
from tasks.features.baseline.excuses import excuses_of
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.commands import order
from tests.support.plans import PARTITION, PYTEST, Running, a_check, a_failure, a_goal, a_report, a_step

SHA = "9f1c2d4"
OLD, OLDER, NEW = (f"tests/test_{name}.py::test_it" for name in ("old", "older", "new"))


def a_red(*tests: str, step: str = "t", code: int = 1, **said: Any) -> Any:
    """A red verification that names all that fails."""
    verify = [{"tool": "pytest", "exit_code": code}]
    body = {"success": False, "verify": verify, "failing_tests": tests, "failing_tests_complete": True}
    evidence = {"category": "TEST_REGRESSION", "top_failing_tests": tests}
    return a_report(step, **{**body, "failure_evidence": evidence, **said})


def once_more(plan: Running, *tests: str, **said: Any) -> None:
    """Let the same tests fail in the run that comes before a repair."""
    assert list(plan.active) == [said.get("step", "t")]
    plan.report(a_red(*tests, error_message="again", **said))


def a_base(*tests: str, step: str = "t-baseline", code: int = 1, **said: Any) -> Any:
    """What a baseline answers."""
    verify = [{"tool": "pytest", "exit_code": code}]
    body = {"verified_at": SHA, "verify": verify, "failing_tests": tests, "failing_tests_complete": True, **said}
    return a_report(step, **body)


def running(*more: Any, **fields: Any) -> Running:
    plan = Running(a_step("a"), a_check("t", "a"), *more, **{"base_sha": SHA, **fields})
    plan.report(a_report("a"))
    return plan


def test_the_first_wide_red_waits_for_a_baseline_and_is_not_counted_yet() -> None:
    plan = running(consecutive_failures=1)

    plan.report(a_red(OLD))

    assert (plan.state, plan.states["t"], list(plan.active)) == ("EXECUTING", "ACTIVE", ["t-baseline"])
    assert (plan.steps["t"].failures, plan.record.spent["failing_outcomes"]) == (0, 0)
    assert plan.record.counters.consecutive == 0
    (spec,) = [each for each in plan.specs if each["step_id"] == "t-baseline"]
    assert (spec["context"]["at"], spec["context"]["base_sha"], spec["mode"]) == ("base", SHA, "test")
    assert [(tool["argv"], tool["pass_codes"]) for tool in spec["verify_tools"]] == [(["pytest"], [0, 1])]
    assert all("at" not in each["context"] for each in plan.specs if each["step_id"] != "t-baseline")


def test_what_was_red_before_is_excused_without_a_third_run() -> None:
    plan = running()

    plan.report(a_red(OLD, OLDER))
    plan.report(a_base(OLD, OLDER, NEW))

    assert plan.states == {"a": "DONE", "t": "DONE", "t-baseline": "DONE"}
    assert (plan.state, plan.steps["t"].attempt, plan.record.counters.consecutive) == ("COMPLETED", 1, 0)
    done = [
        codec.loads(fields[b"data"])
        for fields in plan.store.stream(PARTITION.events).entries.values()
        if b"step.done" in fields[b"type"]
    ]
    assert [event["reason"] for event in done if event["step_id"] == "t"] == ["baseline"]


def test_what_is_left_counts_and_is_mended() -> None:
    plan = running()

    plan.report(a_red(OLD, NEW))
    plan.report(a_base(OLD))
    once_more(plan, OLD, NEW)

    assert list(plan.active) == ["t-mend"]
    assert (plan.steps["t"].failures, plan.record.spent["failing_outcomes"]) == (1, 1)
    previous = plan.steps["t-mend"].previous
    assert previous
    assert previous["failing_tests"] == [NEW]


def test_the_second_red_is_judged_by_the_same_baseline() -> None:
    plan = running()
    plan.report(a_red(OLD, NEW))
    plan.report(a_base(OLD))
    once_more(plan, OLD, NEW)
    plan.report(a_report("t-mend"))

    plan.report(a_red(OLD))

    assert plan.state == "COMPLETED"
    assert [step for step in plan.states if "baseline" in step] == ["t-baseline"]


def patching(**fields: Any) -> Running:
    return Running(a_step("a", tools=(PYTEST,)), **{"base_sha": SHA, **fields})


def landed(*tests: str, **said: Any) -> Any:
    """Report a change that landed although tests fail: they pass as soon as they ran."""
    verify = [{"tool": "pytest", "exit_code": 1}]
    told = {"failing_tests": tests, "failing_tests_complete": True, "touched_files": ["src/a.py"], **said}
    return a_report("a", verify=verify, **told)


def test_a_patch_whose_tests_were_red_before_is_tried_again_with_tests_that_only_have_to_run() -> None:
    plan = patching()

    plan.report(a_red(OLD, step="a"))
    plan.report(a_base(OLD, OLDER, step="a-baseline"))

    assert (plan.states["a"], plan.steps["a"].failures, plan.record.counters.consecutive) == ("ACTIVE", 0, 0)
    assert [tool["pass_codes"] for tool in plan.specs[-1]["verify_tools"]] == [[0, 1]]
    assert "tolerate_red_tests" in str(plan.log[-1]["revisions"])
    plan.report(landed(OLD))
    assert (plan.state, plan.record.spent["failing_outcomes"]) == ("COMPLETED", 0)


@pytest.mark.parametrize(
    "outcome",
    [landed(OLD, NEW), landed(OLD, failing_tests_complete=False), landed()],
    ids=["another one is red", "a list that is cut", "no list"],
)
def test_what_such_a_patch_makes_red_counts(outcome: Any) -> None:
    plan = patching()
    plan.report(a_red(OLD, step="a"))
    plan.report(a_base(OLD, step="a-baseline"))

    plan.report(outcome)

    assert plan.states["a"] == "ACTIVE"
    assert plan.steps["a"].failures == 1


def test_a_patch_that_makes_others_red_as_well_has_failed_by_these() -> None:
    plan = patching()

    plan.report(a_red(OLD, NEW, step="a"))
    plan.report(a_base(OLD, step="a-baseline"))

    previous = plan.steps["a"].previous
    assert previous
    assert (previous["failing_tests"], plan.steps["a"].failures) == ([NEW], 1)
    plan.report(landed(OLD))
    assert plan.state == "COMPLETED"


def test_the_next_patch_with_the_same_tests_needs_no_baseline() -> None:
    plan = Running(a_step("a", tools=(PYTEST,)), a_step("b", "a", tools=(PYTEST,)), base_sha=SHA)
    plan.report(a_red(OLD, step="a"))
    plan.report(a_base(OLD, step="a-baseline"))
    plan.report(landed(OLD))

    plan.report(a_red(OLD, step="b"))

    assert (plan.states["b"], plan.steps["b"].failures) == ("ACTIVE", 0)
    assert [step for step in plan.states if "baseline" in step] == ["a-baseline"]


def test_what_other_checks_find_at_the_base_does_not_hide_which_tests_were_red() -> None:
    checks = a_check("t", "a").model_copy(update={"verify_tools": (CATALOGUE.match("ruff check src/a.py"), PYTEST)})
    plan = Running(a_step("a"), checks, base_sha=SHA)
    plan.report(a_report("a"))

    plan.report(a_red(OLD, verify=[{"tool": "ruff-check", "exit_code": 0}, {"tool": "pytest", "exit_code": 1}]))

    assert [tool["tool"] for tool in plan.specs[-1]["verify_tools"]] == ["pytest"]
    plan.report(a_base(OLD))
    assert plan.state == "COMPLETED"


def test_steps_that_run_the_same_have_one_baseline() -> None:
    plan = running(a_check("u", "t"))
    plan.report(a_red(OLD))
    plan.report(a_base(OLD))

    plan.report(a_red(OLD, step="u"))

    assert plan.state == "COMPLETED"


def test_a_step_that_fails_while_the_same_is_asked_for_another_has_a_baseline_of_its_own() -> None:
    plan = running(a_check("u", "a"), max_parallel=4)

    plan.report(a_red(OLD))
    plan.report(a_red(OLD, step="u"))

    assert (plan.steps["t"].failures, plan.steps["u"].failures) == (0, 0)
    plan.report(a_base(OLD))
    plan.report(a_base(OLD, step="u-baseline", code=2))  # which gives no answer: the other's holds
    assert plan.state == "COMPLETED"


def test_a_verification_is_asked_for_no_more_once_a_baseline_has_ended_without_an_answer() -> None:
    plan = running(a_check("u", "t"))
    plan.report(a_red(OLD))
    plan.report(a_base(OLD, code=2))
    once_more(plan, OLD)
    plan.report(a_report("t-mend"))
    plan.report(a_report("t"))

    plan.report(a_red(OLD, step="u"))
    once_more(plan, OLD, step="u")

    assert [step for step in plan.states if "baseline" in step] == ["t-baseline"]
    assert plan.steps["u"].failures == 1


@pytest.mark.parametrize(
    "base",
    [
        a_base(OLD, verified_at=None),  # by a controller that does not know of it, and ran the plan's tip
        a_base(OLD, verified_at="0000000"),
        a_base(OLD, failing_tests_complete=False),
        a_base(OLD, code=2),  # a collection error: nobody knows what else is red
        a_base(OLD, code=127),
        a_base(OLD, code=0),
        a_base(code=1),
        a_base(OLD, verify=None),
        a_base(OLD, verify=[{"tool": "ruff-check", "exit_code": 1}]),
        a_base(NEW),  # another one
        a_base(),
        a_base(OLD, success=False),
        a_failure("t-baseline", category="UNKNOWN"),
    ],
)
def test_nothing_is_excused_by_an_answer_that_cannot_be_relied_on(base: Any) -> None:
    plan = running()

    plan.report(a_red(OLD))
    plan.report(base)
    once_more(plan, OLD)

    assert (plan.states["t"], list(plan.active), plan.steps["t"].failures) == ("ACTIVE", ["t-mend"], 1)
    plan.report(a_report("t-mend"))
    plan.report(a_report("t"))
    assert plan.state == "COMPLETED"  # a baseline that failed is no failure of the plan


@pytest.mark.parametrize(
    ("red", "more"),
    [
        (a_red(OLD), {"base_sha": None}),
        (a_red(OLD), {"max_steps": 2}),
        (a_red(OLD, failing_tests_complete=False), {}),
        (a_red(), {}),
        (a_red(OLD, code=2), {}),
        (a_red(OLD, verify=None), {}),
        (a_red(OLD, failure_evidence={"category": "LINT_ERROR"}), {}),
        (a_red(OLD), {"failing": [OLD]}),  # it is what the plan has to make pass
        (a_red(OLD), {"failing": ["tests/test_old.py"]}),
        (a_red(OLD), {"failing": ["test_old.TestOld.test_it"]}),
        (a_red(OLD), {"kind": "gap_report"}),
        (a_red(OLD), {"sentence": "Fix the failing tests"}),
        (a_red(OLD), {"sentence": "All tests pass"}),
        (a_red(OLD), {"sentence": "Upgrade requests, the build is broken"}),
    ],
)
def test_there_is_no_baseline(red: Any, more: dict[str, Any]) -> None:
    plan = running(**more)

    plan.report(red)
    if not plan.steps["t"].failures:
        once_more(plan, OLD)

    assert "t-baseline" not in plan.states
    assert plan.steps["t"].failures == 1


@pytest.mark.parametrize("sentence", ["Upgrade requests to 3", "Rename the class Cart", "Add a total to the cart"])
def test_a_goal_that_repairs_nothing_excuses_what_was_red(sentence: str) -> None:
    plan = running(sentence=sentence)

    plan.report(a_red(OLD))
    plan.report(a_base(OLD))

    assert plan.state == "COMPLETED"


RUFF = "src/a.py:1:8: F401 [*] `os` imported but unused\nFound 1 error."


@pytest.mark.parametrize(
    ("sentence", "log", "excuses"),
    [
        ("Fix the build", "src/a.ts(3,5): error TS2322: Type 'string' is not assignable to type 'number'.", 1),
        ("Clean up what ruff reports", RUFF, 1),
        ("Fix lint and the tests", RUFF, None),
        ("Fix the build", f"{RUFF}\nFAILED tests/test_a.py::test_x - assert 1 == 2", None),
        ("Fix the build", "", None),
        ("Fix the build", "AssertionError: 1 != 2", None),
    ],
)
def test_a_goal_whose_log_is_of_a_compiler_or_linter_alone_excuses_tests_that_were_red(
    sentence: str, log: str, excuses: int | None
) -> None:
    assert excuses_of(a_goal(sentence=sentence, base_sha=SHA, context={"failure_log": log}), None) == excuses


@pytest.mark.parametrize(
    ("gap", "excuses"),
    [
        ({"category": "roadmap", "description": "Create the parser"}, 1),
        ({"category": "inbox", "description": "A total in the cart"}, 1),
        ({"category": "roadmap", "description": "All tests of the parser pass"}, 2),
        ({"category": "quality", "description": "Quality check failed: pytest"}, 2),
        ({"category": "quality", "description": "Quality check failed: ruff"}, 1),
        ({"category": "quality", "description": "Quality check failed: sonar"}, 2),
        ({"category": "quality", "description": "Quality check failed: Bandit", "evidence": "a.py:1:2: B324 SHA1"}, 1),
        ({"category": "quality", "description": "Quality check failed: nightly", "evidence": "a.py:9: it FAILED"}, 2),
        ({"category": "quality", "description": "Quality check failed: nox", "evidence": "ERROR src/a.py - boom"}, 2),
        ({"category": "quality", "description": "Quality check failed: x", "evidence": "tests/test_a.py:3: boom"}, 2),
        ({}, 2),
    ],
)
def test_a_gap_report_excuses_unless_its_gap_is_what_fails(gap: dict[str, str], excuses: int) -> None:
    goal = a_goal(kind="gap_report", base_sha=SHA, sentence="Close the gap", failing=[OLD])

    assert excuses_of(goal, {"gap": gap}) == excuses


def test_the_goals_own_tests_are_never_excused() -> None:
    plan = running(failing=[f"tests/test_{n}.py::test_{n}" for n in range(40)])

    plan.report(a_red(OLD, "tests/test_39.py::test_39"))
    plan.report(a_base(OLD, "tests/test_39.py::test_39"))

    previous = plan.steps["t-mend"].previous
    assert previous
    assert previous["failing_tests"] == ["tests/test_39.py::test_39"]


@pytest.mark.parametrize("spelled", ["tests/test_it.py::test_it[{}]", "core/tests/test_it.py::test_it[{}]"])
def test_other_parameters_of_the_goals_own_test_are_excused(spelled: str) -> None:
    named, other = spelled.format("1.0-a"), "tests/test_it.py::test_it[2.0-b]"
    plan = running(failing=[named])

    plan.report(a_red(other))
    plan.report(a_base(other, "tests/test_it.py::test_it[1.0-a]"))

    assert plan.state == "COMPLETED"


def test_a_test_of_another_file_is_excused_though_it_is_called_as_the_goals_own() -> None:
    plan = running(failing=["tests/test_new.py::test_it"])

    plan.report(a_red(OLD))
    plan.report(a_base(OLD, "tests/test_new.py::test_it"))

    assert plan.state == "COMPLETED"


@pytest.mark.parametrize("named", ["tests/test_it.py::test_it", "tests/test_it.py", "test_it"])
def test_a_goal_that_names_a_test_without_parameters_has_all_of_them_for_its_own(named: str) -> None:
    plan = running(failing=[named])

    plan.report(a_red("tests/test_it.py::test_it[2.0-b]"))

    assert ("t-baseline" in plan.states, plan.steps["t"].failures) == (False, 1)


def test_a_baseline_that_nobody_runs_or_that_is_skipped_excuses_nothing() -> None:
    plan = running()
    plan.report(a_red(OLD))
    order(plan, "pause")
    plan.store.wait(10_000)
    plan.report(a_failure("t-baseline", category="UNKNOWN"))

    assert plan.states["t-baseline"] == "FAILED"
    assert plan.states["t"] == "ACTIVE"


def test_a_violation_in_a_baseline_halts() -> None:
    plan = running()

    plan.report(a_red(OLD))
    plan.report(a_failure("t-baseline", category="SANDBOX_VIOLATION"))

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "security")


def test_at_most_2000_failing_tests_are_told() -> None:
    assert len(Outcome(step_id="t", success=False, failing_tests=("x",) * 2000).failing_tests) == 2000
