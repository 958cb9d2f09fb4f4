"""The simulated fleet: the same seed gives the same report, its tools print what real ones do, and it sees through
a plan that says it is done."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random
from typing import Any

import pytest

from schemas.base import FailureCategory as Category
from tasks.toolchain.classify import classify
from tests.simulation import report
from tests.simulation.agent import Agent
from tests.simulation.fleet import Conditions, Course, Result, run_plans
from tests.simulation.goals import RECIPES, make_mission
from tests.simulation.host import LEFT, Bench, Host, Ill, attempt
from tests.simulation.layouts import FLAKES, make_repository, surround
from tests.simulation.repository import Change, CoveringTest, Fault, Item, Repository, Tree, Work, Wrong
from tests.simulation.tools import run
from tests.simulation.work import add_a_feature, mend_a_bug, rename_a_symbol

ROUGH = Conditions(mistakes=0.3, red_before=0.2, flaky=0.1, broken_hosts=0.1)


@cache
def play(conditions: Conditions, count: int = 40, seed: int = 1) -> list[Result]:
    return run_plans([make_mission(number, seed) for number in range(count)], conditions, seed)


@pytest.mark.long
@pytest.mark.outages
def test_the_same_seed_gives_the_same_report() -> None:
    first, second = play(ROUGH), play.__wrapped__(ROUGH)

    assert first == second
    assert report.table(first) + report.causes(first) == report.table(second) + report.causes(second)
    assert play(ROUGH, seed=2) != first


@pytest.mark.outages
def test_without_mistakes_nothing_is_falsely_completed_and_next_to_all_is_done() -> None:
    results = play(Conditions(), 100)

    assert [each for each in results if each.completed and not each.true] == []
    assert sum(each.true for each in results) >= 97
    assert {(each.kind, each.template) for each in results} == {recipe[:2] for recipe in RECIPES}


@pytest.mark.long
@pytest.mark.outages
def test_every_goal_becomes_a_plan_that_comes_to_an_end() -> None:
    results = [*play(ROUGH), *play(Conditions(mistakes=0.3))]

    assert Counter(each.state for each in results).keys() <= {"COMPLETED", "HALTED"}


@pytest.mark.outages
def test_mistakes_and_surroundings_cost_plans() -> None:
    worst = Conditions(mistakes=0.5, red_before=1.0, flaky=0.5, broken_hosts=0.5)
    none, some, bad = (sum(each.true for each in play(each)) for each in (Conditions(), Conditions(0.5), worst))

    assert none > some > bad


@pytest.mark.outages
def test_who_lies_completes_plans_that_are_not_done() -> None:
    mistakes = Conditions(mistakes=0.7)
    honest, lying = play(mistakes), play(Conditions(mistakes=0.7, liars=1.0))

    assert _false(lying) > 2 * _false(honest)
    assert sum(each.completed for each in lying) > sum(each.completed for each in honest)


@pytest.mark.long
@pytest.mark.outages
def test_what_a_cheat_faked_is_false_although_no_tool_sees_it() -> None:
    results = play(Conditions(cheats=1.0), 100)
    cheated = [each for each in results if each.cheats]

    assert {each.kind for each in cheated} == {"task", "gap_report"}
    assert any(each.state == "HALTED" for each in cheated)
    assert any(each.completed for each in cheated)
    assert not any(each.true for each in cheated if each.faked)
    assert [each for each in results if each.faked and not each.cheats] == []
    assert [each for each in play(Conditions(), 100) if each.cheats or each.faked] == []


@pytest.mark.long
@pytest.mark.outages
def test_of_cheating_agents_next_to_all_plans_that_are_completed_and_not_told_of_are_true() -> None:
    claimed = [each for each in play(Conditions(cheats=1 / 3), 500) if each.claimed]

    assert sum(each.true for each in claimed) >= 0.97 * len(claimed)


def test_what_a_failed_attempt_changed_is_not_on_the_branch() -> None:
    course = Course(make_mission(0, 1), Conditions(), 0, 1)
    course.hosts = [Host("host-1", Ill.TOOL)]
    result = course.run()

    assert (result.state, result.attempts > 0) == ("HALTED", True)
    assert course.tree == course.repository.base
    assert result.undone == ("bug",)


@pytest.mark.parametrize(
    ("language", "wrong", "command", "category"),
    [
        ("python", Wrong.TEST, "pytest -q", Category.TEST_REGRESSION),
        ("python", Wrong.IMPORT, "pytest -q", Category.IMPORT_ERROR),
        ("python", Wrong.SYNTAX, "pytest -q", Category.COMPILATION_ERROR),
        ("python", Wrong.SYNTAX, "python -m py_compile {file}", Category.COMPILATION_ERROR),
        ("python", Wrong.LINT, "ruff check {file}", Category.LINT_ERROR),
        ("python", Wrong.TYPE, "mypy {file}", Category.TYPE_ERROR),
        ("python", Wrong.TYPE, "pyright {file}", Category.TYPE_ERROR),
        ("python", Wrong.IMPORT, "pyright {file}", Category.IMPORT_ERROR),
        ("typescript", Wrong.TEST, "npx jest", Category.TEST_REGRESSION),
        ("typescript", Wrong.SYNTAX, "npx jest", Category.COMPILATION_ERROR),
        ("typescript", Wrong.LINT, "npx eslint {file}", Category.LINT_ERROR),
        ("typescript", Wrong.TYPE, "npx tsc --noEmit", Category.TYPE_ERROR),
        ("go", Wrong.TEST, "go test ./...", Category.TEST_REGRESSION),
        ("go", Wrong.TYPE, "go build ./...", Category.TYPE_ERROR),
        ("go", Wrong.SYNTAX, "gofmt -l {file}", Category.COMPILATION_ERROR),
    ],
)
def test_tools_print_what_the_planner_reads(language: str, wrong: Wrong, command: str, category: Category) -> None:
    repository = make_repository(Random(1), language)
    covered = repository.tests[0]
    path = min(covered.covers)
    argv = command.format(file=path).split()
    fault = Fault(wrong, path, 17, frozenset({covered.name}) if wrong is Wrong.TEST else frozenset())
    clean, broken = (run(argv, repository, tree, Random(1)) for tree in (Tree(), Tree(faults=frozenset({fault}))))

    assert clean.exit_code == 0
    assert broken.exit_code != 0
    assert classify(broken.text).category is category
    if wrong is Wrong.TEST:
        assert classify(broken.text).failing_tests == (covered.name,) == broken.failing
        assert broken.complete


def test_an_unknown_tool_is_told() -> None:
    with pytest.raises(LookupError, match="cargo test"):
        run(["cargo", "test"], make_repository(Random(1)), Tree(), Random(1))


def test_work_that_is_half_done_is_red() -> None:
    renamed = rename_a_symbol(make_repository(Random(1)), Random(1), 4, 1)
    every = frozenset(item.name for item in renamed.items)

    assert renamed.red(Tree()) == {} == renamed.red(Tree(every))
    assert renamed.red(Tree(frozenset({"define"}))).keys() == {
        test.name for item in renamed.items[1:] for test in renamed.tests if item.file in (test.file, *test.covers)
    }
    wished = add_a_feature(make_repository(Random(1)), Random(1), 1)
    code, written, document = wished.items
    assert wished.red(Tree()) == {}
    assert wished.red(Tree(frozenset({written.name}))).keys() == code.tests
    assert wished.red(Tree(frozenset({written.name, code.name}))) == {}
    assert [item.work for item in wished.undone(Tree(frozenset({written.name, code.name})))] == [document.work]


def test_what_was_red_before_is_not_held_against_a_plan() -> None:
    repository = surround(mend_a_bug(make_repository(Random(3)), Random(3)), Random(5), red=True, flaky=True)
    before = repository.base
    done = Tree(frozenset({"bug"}), before.faults)

    assert repository.base.faults
    assert sum(bool(test.flaky) for test in repository.tests) == 1
    assert repository.outlawed(done) == frozenset()
    assert repository.outlawed(before) == repository.items[0].tests


def test_an_agent_finds_what_it_was_told_and_guesses_the_rest() -> None:
    repository = mend_a_bug(make_repository(Random(1)), Random(1))
    (bug,) = repository.items

    def share(guidance: str | None) -> float:
        spec = a_spec(files=[*repository.sources], guidance=guidance)
        return sum(bool(Agent(repository, Random(at), 0.0).patch(spec, Tree()).change.does) for at in range(200)) / 200

    assert share(f"The cause is in {bug.file}.") == 1.0
    assert 0.5 < share(None) < 0.7


def test_an_agent_changes_what_patterns_allow_and_nothing_that_is_excluded() -> None:
    repository = mend_a_bug(make_repository(Random(1)), Random(1))
    (bug,) = repository.items
    folder = bug.file.partition("/")[0]
    wide = a_spec([], f"The cause is in {bug.file}.") | {"allowed_patterns": [f"{folder}/**"]}

    def changed(spec: dict[str, Any]) -> tuple[str, ...]:
        return Agent(repository, Random(1), 0.0).patch(spec, Tree()).change.touched

    assert changed(wide) == (bug.file,)
    assert changed(wide | {"excluded_patterns": [bug.file]}) == ()
    assert changed(wide | {"allowed_patterns": ["docs/**"]}) == ()
    assert changed(wide | {"excluded_patterns": [bug.file], "allowed_files": [bug.file]}) == (bug.file,)


def test_an_agent_asks_once_for_files_that_a_step_may_be_given() -> None:
    repository = rename_a_symbol(make_repository(Random(1)), Random(1), 3, 0)
    mine, *others = (item.file for item in repository.items)
    bench = Bench(repository, lambda *_: None, 0.0)
    narrow = a_spec(files=[mine])
    wide = narrow | {"limits": {"max_files": 5}}

    asked = attempt(Host("host-1"), wide, Tree(), bench, Random(1))
    again = attempt(Host("host-1"), wide, Tree(), bench, Random(1))
    never = attempt(Host("host-1"), narrow, Tree(), bench, Random(1))

    assert asked.body["needs"]["files"] == others
    assert (asked.body["success"], asked.change) == (False, Change())
    for found in (again, never):
        assert "needs" not in found.body
        assert found.body["touched_files"] == [mine]


def test_a_wrong_attempt_does_less_or_breaks_something() -> None:
    repository = add_a_feature(make_repository(Random(1)), Random(1), 1)
    files = [item.file for item in repository.items]
    patches = [Agent(repository, Random(at), 1.0).patch(a_spec(files=files), Tree()) for at in range(300)]
    kinds = Counter(
        "slow"
        if each.out_of_time
        else "idle"
        if each.change == Change()
        else min(fault.wrong for fault in each.change.breaks)
        if each.change.breaks
        else "omits"
        if len(each.change.does) < len(repository.items)
        else "harmless"
        for each in patches
    )

    assert kinds.keys() >= {"slow", "idle", "omits", Wrong.TEST, Wrong.LINT, Wrong.TYPE}
    assert not any(each.nothing_to_do for each in patches)


@pytest.mark.parametrize(
    ("faults", "flaky", "why"),
    [
        ([], True, "flaky test"),
        (
            [Fault(Wrong.TEST, "shop/cart.py", 1, frozenset({"tests/test_cart.py::test_a"}))],
            False,
            "red before the goal",
        ),
    ],
)
def test_a_failure_that_is_not_the_attempts_is_told_apart(faults: list[Fault], flaky: bool, why: str) -> None:
    repository = a_shop().with_base(faults, {"tests/test_cart.py::test_a": FLAKES} if flaky else {})
    bench = Bench(repository, lambda *_: None, 0.0)
    spec = a_spec(files=["shop/cart.py"], tools=[["pytest", "-q"]])
    tries = [attempt(Host("host-1"), spec, repository.base, bench, Random(at)) for at in range(20)]

    assert {each.note for each in tries if not each.body["success"]} == {why}


def test_what_an_earlier_step_left_is_told_apart() -> None:
    fault = Fault(Wrong.TEST, "shop/cart.py", 1, frozenset({"tests/test_cart.py::test_a"}))
    bench = Bench(a_shop(), lambda *_: None, 0.0)
    spec = a_spec(files=["shop/tax.py"], tools=[["pytest", "-q"]])

    assert attempt(Host("host-1"), spec, Tree(faults=frozenset({fault})), bench, Random(1)).note == LEFT


@pytest.mark.parametrize("ill", Ill)
def test_a_host_that_cannot_work_says_so_at_once(ill: Ill) -> None:
    item = Item("one", "shop/cart.py", "it", Work.FEATURE)
    bench = Bench(make_repository(Random(1)).with_work([item]), lambda *_: None, 0.0)
    spec = a_spec(files=["shop/cart.py"], tools=[["pytest", "-q"]])
    done = attempt(Host("host-1", ill), spec, Tree(), bench, Random(1))
    healthy = attempt(Host("host-1"), spec, Tree(), bench, Random(1))

    assert (done.body["success"], healthy.body["success"]) == (False, True)
    assert done.change == Change()
    said = done.body["cannot_verify"] if ill is Ill.TOOL else done.body["released"]
    assert said["reason"].endswith(ill.value)
    assert said.get("kind") == ("provider" if ill is Ill.LOGIN else None)


def a_shop() -> Repository:
    test = CoveringTest("tests/test_cart.py::test_a", "tests/test_cart.py", frozenset({"shop/cart.py"}))
    return Repository("python", ("shop/cart.py", "shop/tax.py"), (test,))


def a_spec(files: list[str], guidance: str | None = None, tools: list[list[str]] | None = None) -> dict[str, Any]:
    ran = [{"tool": argv[0], "argv": argv, "pass_codes": [0], "timeout_s": 60} for argv in tools or []]
    asked = {"title": "Change it", "intent": "As asked", "success_criteria": "", "guidance": guidance, "phase": None}
    about = {"controller_task_spec": {"type": "PATCH", "hint": None}, "context": {}, "mode": "patch", "step_id": "do"}
    return {**asked, **about, "allowed_files": files, "verify_tools": ran}


def _false(results: list[Result]) -> int:
    return sum(each.completed and not each.true for each in results)
