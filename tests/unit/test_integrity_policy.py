"""What becomes of a change by what it does to tests and checks: by the type of its goal, its words and its files."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from schemas import codec
from schemas.base import GoalKind
from schemas.integrity import IntegrityFamily
from schemas.policy import GoalType
from tasks.base.policy import Policy
from tasks.base.policy_text import WrongPolicy, read_policy
from tasks.rules.integrity import asked_by
from tasks.strategies.task import goal_type
from tasks.toolchain.integrity.finding import FAMILIES, TELLS
from tests.support.commands import an_order
from tests.support.plans import Running, a_goal, a_report, a_step

REPAIR, FEATURE = "Fix the crash in src/a.py", "Add an option for dates"
SKIPPED = {"kind": "test_skipped", "path": "tests/test_a.py", "line": 3, "what": "test_a: pytest.mark.skip"}
NOQA = {"kind": "noqa", "path": "src/a.py", "line": 9, "what": "# noqa"}


def found(*places: dict[str, Any], attempt: int = 1, **said: Any) -> Any:
    counts: dict[str, int] = {}
    for place in places:
        counts[place["kind"]] = counts.get(place["kind"], 0) + 1
    told = {"counts": counts, "places": list(places)}
    return a_report("a", attempt, touched_files=["src/a.py"], integrity=told, **said)


def told(plan: Running) -> list[dict[str, Any]]:
    return [codec.loads(data) for change in plan.changes for what, data in change.events if ".integrity." in what]


def test_a_repair_that_skips_a_test_is_refused_once_with_the_sentence_as_guidance_then_halts() -> None:
    plan = Running(a_step("a"), sentence=REPAIR)

    plan.report(found(SKIPPED))

    assert plan.state == "EXECUTING"
    assert "a test is skipped now, or expected to fail (tests/test_a.py:3)" in plan.facts["a"]["guidance"]
    assert (plan.steps["a"].previous or {})["category"] == "INTEGRITY"
    assert [event["action"] for event in told(plan)] == ["refuse"]
    plan.report(found(SKIPPED, attempt=2))
    assert (plan.state, plan.halt["rule"]) == ("HALTED", "integrity")
    assert plan.halt["evidence"]["places"][-1]["path"] == "tests/test_a.py"
    assert "state it in the goal" in plan.halt["evidence"]["unblock"]


@pytest.mark.parametrize(
    ("sentence", "is_refused"),
    [("Clean up what ruff reports", True), ("Tidy up the module of dates", False), ("Show warnings of mypy", False)],
)
def test_a_suppression_closes_no_finding_that_a_task_is_to_close(sentence: str, is_refused: bool) -> None:
    plan = Running(a_step("a"), sentence=sentence)

    plan.report(found(NOQA))

    assert [event["action"] for event in told(plan)] == ["refuse" if is_refused else "tell"]


def test_a_failing_test_is_not_weakened_because_its_file_is_named_however_its_runner_names_tests() -> None:
    for failing in ("src/a.test.js > adds", "shop.TestAdds"):
        name = failing.rpartition(" > ")[2].rpartition(".")[2]
        plan = Running(a_step("a"), sentence=REPAIR, files=("src/a.test.js",), failing=[failing])

        plan.report(found({"kind": "test_skipped", "path": "src/a.test.js", "line": 3, "what": f"{name}: skip"}))

        assert [event["action"] for event in told(plan)] == ["refuse"]


@pytest.mark.parametrize("sentence", [REPAIR, FEATURE])
def test_mutants_that_survive_are_told_and_refuse_nothing(sentence: str) -> None:
    plan = Running(a_step("a"), sentence=sentence)

    plan.report(found({"kind": "mutant_survives", "path": "src/a.py", "line": 2, "what": "a + b -> a - b"}))

    assert plan.state == "COMPLETED"
    assert [(event["action"], event["reason"]) for event in told(plan)] == [
        ("tell", "The change: these tests would not notice a mistake there (src/a.py:2).")
    ]


def test_a_repair_that_takes_it_back_is_completed() -> None:
    plan = Running(a_step("a"), sentence=REPAIR)
    plan.report(found(SKIPPED))

    plan.report(a_report("a", 2, touched_files=["src/a.py"]))

    assert plan.state == "COMPLETED"


def test_a_feature_is_told_of_it_and_completed() -> None:
    plan = Running(a_step("a"), sentence=FEATURE)

    plan.report(found(SKIPPED, NOQA))

    assert plan.state == "COMPLETED"
    (event,) = told(plan)
    assert (event["action"], event["counts"]) == ("tell", {"test_skipped": 1, "noqa": 1})
    assert plan.record.doubt == "integrity: test_skipped (tests/test_a.py:3, tell), noqa (src/a.py:9, tell)"


def test_a_feature_is_told_nothing_of_a_renamed_test_and_of_suppressions_in_its_own_code() -> None:
    plan = Running(a_step("a"), sentence=FEATURE)

    plan.report(found({**SKIPPED, "kind": "test_renamed"}, {**NOQA, "kind": "own_noqa"}))

    assert (plan.state, told(plan), plan.record.doubt) == ("COMPLETED", [], None)


def test_a_failed_attempt_is_judged_by_its_failure_alone() -> None:
    plan = Running(a_step("a"), sentence=REPAIR)

    plan.report(found(SKIPPED, success=False, failure_evidence={"category": "TEST_REGRESSION"}))

    assert (plan.steps["a"].previous or {})["category"] == "TEST_REGRESSION"
    assert told(plan) == []


def test_a_repair_is_told_of_what_is_in_new_code_alone() -> None:
    plan = Running(a_step("a"), sentence=REPAIR)

    plan.report(found({**NOQA, "kind": "own_noqa"}, {**NOQA, "kind": "special_case"}))

    assert plan.state == "COMPLETED"
    assert [event["action"] for event in told(plan)] == ["tell"]


def test_counts_without_places_are_decided_about_too() -> None:
    plan = Running(a_step("a"), sentence=REPAIR)

    plan.report(a_report("a", touched_files=["src/a.py"], integrity={"counts": {"noqa": 900}, "places": []}))

    assert (plan.steps["a"].previous or {})["category"] == "INTEGRITY"


@pytest.mark.parametrize(
    ("sentence", "files", "place", "completed"),
    [
        ("Fix the crash and remove the obsolete tests of the old client", (), SKIPPED, True),
        ("Fix the crash; do not change the tests", (), SKIPPED, False),
        ("Fix the warnings: suppress the lint findings of the generated code", (), NOQA, True),
        ("Fix the parser so that comments are ignored", (), NOQA, False),
        (REPAIR, ("tests/test_a.py",), SKIPPED, True),
        (REPAIR, ("tests/*.py",), SKIPPED, False),
        (REPAIR, ("src/a.py",), NOQA, False),
    ],
)
def test_what_a_goal_asks_for_by_words_or_names_is_told(
    sentence: str, files: tuple[str, ...], place: dict[str, Any], completed: bool
) -> None:
    plan = Running(a_step("a"), sentence=sentence, files=files)

    plan.report(found(place))

    assert (plan.state == "COMPLETED") is completed
    assert [event["action"] for event in told(plan)] == ["tell" if completed else "refuse"]


@pytest.mark.parametrize(
    ("failing", "sentence", "action"),
    [
        (["tests/test_a.py::test_a"], REPAIR, "refuse"),
        (["tests/test_a.py::test_a"], f"{REPAIR}, and change the fixtures of the tests", "tell"),
        ([], REPAIR, "tell"),
    ],
)
def test_outcomes_of_failing_tests_are_not_overridden_because_a_file_around_them_is_named(
    failing: list[str], sentence: str, action: str
) -> None:
    plan = Running(a_step("a"), sentence=sentence, files=("tests/conftest.py",), failing=failing)

    plan.report(found({"kind": "outcome_overridden", "path": "tests/conftest.py", "line": 3, "what": "force_result"}))

    assert [event["action"] for event in told(plan)] == [action]


def test_a_failing_test_of_the_goal_is_not_weakened_because_its_file_is_named() -> None:
    failing = ["tests/test_a.py::test_a[1]"]
    plan = Running(a_step("a"), sentence=REPAIR, files=("tests/test_a.py",), failing=failing)

    plan.report(found(SKIPPED))

    assert [event["action"] for event in told(plan)] == ["refuse"]


def a_policy(text: str) -> Policy:
    return read_policy(text.encode())


def test_a_policy_has_rows_by_type_and_family() -> None:
    policy = a_policy('[integrity.repair]\nweakens_tests = "tell"\n[integrity.feature]\nsuppresses = "refuse"\n')
    repair = Running(a_step("a"), sentence=REPAIR, policy=policy)
    feature = Running(a_step("a"), sentence=FEATURE, policy=policy)

    repair.report(found(SKIPPED))
    feature.report(found(NOQA))

    assert (repair.state, feature.state) == ("COMPLETED", "EXECUTING")


def test_a_policy_with_a_wrong_row_is_refused_with_its_line() -> None:
    with pytest.raises(WrongPolicy, match=r"line 2, integrity\.repair\.weaken_tests: .*`weakens_tests`"):
        a_policy('[integrity.repair]\nweaken_tests = "tell"\n')


def asking() -> Running:
    policy = a_policy('[integrity.repair]\nweakens_tests = "approve"\n')
    plan = Running(a_step("a"), sentence=REPAIR, policy=policy)
    plan.report(found(SKIPPED))
    return plan


def test_a_person_approves_a_change_with_its_lines_and_the_same_change_is_taken_then() -> None:
    plan = asking()

    assert ([*plan.record.waits], plan.active) == (["a"], {})
    events = [codec.loads(data) for change in plan.changes for what, data in change.events if "approval_req" in what]
    assert events[0]["places"][0]["path"] == "tests/test_a.py"
    plan.obey(an_order("approve", "a"))
    plan.report(found(SKIPPED, attempt=2))

    assert (plan.state, plan.steps["a"].failures) == ("COMPLETED", 0)


def test_another_change_than_the_approved_one_is_asked_about_again() -> None:
    plan = asking()
    plan.obey(an_order("approve", "a"))

    plan.report(found({**SKIPPED, "what": "test_b: pytest.mark.skip"}, attempt=2))

    assert [*plan.record.waits] == ["a"]


def test_a_change_that_a_person_rejects_halts_the_plan() -> None:
    plan = asking()

    plan.obey(an_order("reject", "a"))

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "approval_rejected")


def test_a_gap_report_never_takes_a_suppression_for_a_closed_finding() -> None:
    policy = a_policy('[integrity.gap_report]\nsuppresses = "tell"\n')
    plan = Running(a_step("a"), kind="gap_report", policy=policy)

    plan.report(found(NOQA))

    assert [event["action"] for event in told(plan)] == ["refuse"]


def test_a_policy_that_only_counts_something_holds_for_its_type() -> None:
    plan = Running(a_step("a"), sentence=FEATURE, policy=a_policy('[integrity.feature]\nweakens_tests = "pass"\n'))

    plan.report(found(SKIPPED))

    assert told(plan) == []


def test_a_plan_of_which_nothing_is_refused_keeps_no_note() -> None:
    kept = [Running(a_step("a"), sentence=sentence).changes[0].specs for sentence in (FEATURE, REPAIR)]

    assert [any("integrity" in name for name in specs) for specs in kept] == [False, True]


def test_every_kind_has_a_family_and_words() -> None:
    assert FAMILIES.keys() == TELLS.keys()
    assert set(FAMILIES.values()) == set(IntegrityFamily)


def test_a_policy_names_every_type_of_goal() -> None:
    types = {each.value for each in goal_type.GoalType} | {each.value for each in GoalKind} - {"task"}

    assert set(get_args(GoalType)) == types


def test_names_count_of_tests_and_configuration_alone() -> None:
    goal = a_goal(sentence=REPAIR, files=("src/a.py", "tests/test_a.py", "pyproject.toml", "tests/**"))

    assert asked_by(goal, "repair").files == ("tests/test_a.py", "pyproject.toml")
