"""A change of too many files becomes parts, once, and none of it is a failure or an attack."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import RiskLevel
from schemas.step import Place
from tasks.features.split_changes import cut
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.commands import an_order
from tests.support.plans import Running, a_report, a_step
from tests.support.wide_steps import GLOBS, a_wide_step

SOURCES = [f"src/part{number}.py" for number in range(11)]
MED = RiskLevel.MED


def too_many(*files: str, success: bool = True, **said: Any) -> Any:
    evidence = {"category": "TOO_MANY_FILES", "affected_files": files}
    said |= {} if success else {"failure_evidence": evidence}
    return a_report("a", success=success, touched_files=files, patterns=True, **said)


def test_files_of_a_folder_stay_together_and_tests_come_last() -> None:
    files = ["src/b/1.py", "tests/test_1.py", "src/a/1.py", "README.md", "src/a/2.py", "src/b/2.py", "src/c.py"]

    assert cut(files, 3) == [
        ("README.md",),
        ("src/c.py", "src/a/1.py", "src/a/2.py"),
        ("src/b/1.py", "src/b/2.py"),
        ("tests/test_1.py",),
    ]
    assert cut([f"src/{n}.py" for n in range(5)], 2) == [
        *(("src/0.py", "src/1.py"), ("src/2.py", "src/3.py"), ("src/4.py",)),
    ]


@pytest.mark.parametrize("success", [True, False])
def test_a_step_is_split_into_the_parts_of_its_change_and_nothing_failed(success: bool) -> None:
    step = a_wide_step(tools=(CATALOGUE.match("pytest tests/test_it.py"),))
    plan = Running(step, files=GLOBS, consecutive_failures=1)

    plan.report(too_many(*SOURCES, "tests/test_new.py", success=success, tests_passed=True))

    assert plan.state == "EXECUTING"
    first, second = "a-piece", "a-piece-2"
    assert [plan.facts[name]["allowed_files"] for name in (first, second, "a")] == [
        sorted(SOURCES)[:10],
        sorted(SOURCES)[10:],
        ["tests/test_new.py"],
    ]
    assert [plan.facts[name]["depends_on"] for name in (first, second, "a")] == [[], [first], [second]]
    assert all(plan.facts[name]["piece_of"] == "a" for name in (first, second, "a"))
    assert not any(plan.facts[name].get("allowed_patterns") for name in (first, second, "a"))
    assert plan.facts["a"]["verify"] == "pytest tests/test_it.py"
    assert "pytest" not in plan.facts[first]["verify"]
    assert plan.facts[first]["verify"].startswith("python -m py_compile src/part0.py")
    assert [*plan.active] == [first]
    assert (plan.record.counters.consecutive, plan.record.spent["failing_outcomes"]) == (0, 0)
    assert plan.steps["a"].failures == 0


def test_the_parts_are_done_one_after_the_other_and_the_plan_is_completed() -> None:
    plan = Running(a_wide_step(), files=GLOBS)
    plan.report(too_many(*SOURCES))

    plan.report(a_report("a-piece", touched_files=SOURCES[:1]))
    assert [*plan.active] == ["a"]
    assert plan.steps["a"].previous is None
    plan.report(a_report("a", touched_files=[]))

    assert plan.state == "COMPLETED"


def test_parts_keep_the_places_of_their_own_files() -> None:
    places = tuple(Place(path=path, lines="3", why="The failure names it.") for path in (SOURCES[0], "src/other.py"))
    plan = Running(a_wide_step().model_copy(update={"focus": places}), files=GLOBS)

    plan.report(too_many(*SOURCES))

    assert [place["path"] for place in plan.facts["a-piece"]["focus"]] == [SOURCES[0]]
    assert plan.facts["a"]["focus"] == []


def test_parts_require_what_the_step_did_but_for_its_patterns() -> None:
    update = {"requires": ("patterns", "setup"), "setup": True}
    plan = Running(a_wide_step().model_copy(update=update), files=GLOBS)

    plan.report(too_many(*SOURCES))

    assert [plan.facts[name]["requires"] for name in ("a-piece", "a")] == [["setup"], ["setup"]]


@pytest.mark.parametrize(("named", "spared"), [("src/b.ts", True), ("src/a.ts", False)])
def test_a_part_but_the_last_is_not_judged_by_what_a_whole_check_finds_in_other_files(named: str, spared: bool) -> None:
    part = a_step("a", files=["src/a.ts"], tools=(CATALOGUE.match("npx tsc --noEmit"),))
    plan = Running(part.model_copy(update={"piece_of": "a", "allow_empty": True}), a_step("b", "a"))

    found = {"category": "TYPE_ERROR", "affected_files": [named]}
    ran = [{"tool": "tsc", "exit_code": 2}]
    plan.report(a_report("a", success=False, touched_files=["src/a.ts"], verify=ran, failure_evidence=found))

    codes = plan.facts["a"]["verify_tools"][0]["pass_codes"]
    assert (codes != [0]) == spared


def test_a_part_is_never_split_again() -> None:
    plan = Running(a_wide_step(), files=GLOBS)
    plan.report(too_many(*SOURCES))

    evidence = {"category": "TOO_MANY_FILES"}
    plan.report(a_report("a-piece", success=False, failure_evidence=evidence))

    assert (plan.state, plan.steps["a-piece"].failures) == ("EXECUTING", 1)
    assert "not split again" in (plan.steps["a-piece"].previous or {})["suggestion"]


def test_what_the_step_failed_by_before_holds_for_its_parts() -> None:
    plan = Running(a_wide_step(), files=GLOBS)
    said = {"category": "TEST_REGRESSION", "top_failing_tests": ["tests/test_it.py::test_it"]}
    plan.report(a_report("a", success=False, failure_evidence=said))
    before = plan.steps["a"]
    assert before.signature

    plan.report(too_many(*SOURCES))

    for name in ("a", "a-piece"):
        assert (plan.steps[name].signature, plan.steps[name].repeats) == (before.signature, before.repeats)
    assert plan.record.counters.consecutive == 1


@pytest.mark.parametrize(
    ("report", "limits", "told"),
    [
        (too_many(*SOURCES), {"max_steps": 1}, "raise limits.max_steps"),
        (too_many(*SOURCES, touched_count=1200), {}, "which ones is not known"),
        (a_report("a", success=False, failure_evidence={"category": "TOO_MANY_FILES"}), {}, "which ones is not known"),
    ],
)
def test_what_cannot_be_split_is_a_failure_and_halts_nothing_at_once(
    report: Any, limits: dict[str, int], told: str
) -> None:
    plan = Running(a_wide_step(), files=GLOBS, **limits)

    plan.report(report)

    assert (plan.state, plan.steps["a"].failures) == ("EXECUTING", 1)
    assert told in (plan.steps["a"].previous or {})["suggestion"]


def test_a_person_who_approved_the_step_has_approved_its_parts() -> None:
    plan = Running(a_wide_step(risk=MED), files=GLOBS, approvals=["MED"])
    plan.obey(an_order("approve", "a"))
    assert [*plan.active] == ["a"]

    plan.report(too_many(*SOURCES))

    assert [*plan.active] == ["a-piece"]


def test_a_part_has_no_more_lines_than_one_step_may_change() -> None:
    files = [f"src/{n}.py" for n in range(6)]
    lines = dict(zip(files, (60, 30, 40, 100, 1, 2), strict=True))

    assert cut(files, 5, lines=lines, most_lines=100) == [
        ("src/0.py", "src/1.py"),
        ("src/2.py",),
        ("src/3.py",),
        ("src/4.py", "src/5.py"),
    ]
    assert cut(files, 5, lines={}, most_lines=100) == [tuple(files[:5]), tuple(files[5:])]


def test_files_that_import_each_other_stay_together_the_imported_ones_first() -> None:
    files = ["src/a/1.py", "src/a/2.py", "src/b/1.py", "src/b/2.py"]
    imports = {"src/a/1.py": ["src/b/2.py", "lib/x.py"], "src/b/1.py": ["src/a/2.py"], "tests/t.py": ["src/a/1.py"]}

    assert cut(files, 2, imports) == [("src/b/2.py", "src/a/1.py"), ("src/a/2.py", "src/b/1.py")]
    circle = {"src/a/1.py": ["src/b/1.py"], "src/b/1.py": ["src/a/1.py"]}
    assert cut(files, 3, circle) == [("src/a/1.py", "src/b/1.py", "src/a/2.py"), ("src/b/2.py",)]


def test_the_imports_are_those_of_the_goals_documents() -> None:
    documents = {"src/part0.py": "from src.part10 import x\n"}
    plan = Running(a_wide_step(), files=[*GLOBS, *SOURCES], context={"documents": documents})

    plan.report(too_many(*SOURCES))

    assert plan.facts["a-piece"]["allowed_files"][:2] == ["src/part10.py", "src/part0.py"]


def test_the_parts_of_a_change_have_room_for_its_lines() -> None:
    plan = Running(a_wide_step(), files=GLOBS)

    plan.report(too_many(*SOURCES, success=False, changed_lines=dict.fromkeys(SOURCES, 90)))

    parts = [plan.facts[name]["allowed_files"] for name in sorted(plan.facts) if plan.facts[name].get("piece_of")]
    assert sorted(map(len, parts)) == [1, 2, 2, 2, 2, 2]


def test_a_change_with_a_file_that_fits_into_no_part_is_not_split() -> None:
    plan = Running(a_wide_step(), files=GLOBS)

    plan.report(too_many(*SOURCES, success=False, changed_lines={SOURCES[3]: 201}))

    assert (plan.state, plan.steps["a"].failures) == ("EXECUTING", 1)
    told = (plan.steps["a"].previous or {})["suggestion"]
    assert f"{SOURCES[3]} alone has 201 changed lines, allowed are 200: make a smaller change" in told
