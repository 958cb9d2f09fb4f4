"""Each criterion of an iteration says what checks it, and what nothing checks is said."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.goal import Goal
from schemas.plan import CriterionView
from tasks.features.unverified import Planned, tools_of
from tasks.rules.strategy import Draft, Setting
from tasks.strategies import gap_report
from tasks.strategies.criteria import StepTools, describe_criteria, describe_unchecked
from tasks.toolchain.catalogue import CATALOGUE, Catalogue
from tasks.toolchain.contract import Contract, ToolCategory
from tests.support.kinds.gap_report import a_gap, a_goal

RUFF, PYRIGHT = "All new/modified files pass ruff check", "All new/modified files pass pyright strict"
BANDIT = Contract(
    id="bandit", spellings=("bandit",), example="bandit a.py", category=ToolCategory.LINT, timeout_s=60,
    positional="path", languages=("python",),
)  # fmt: skip
FILES = ["src/a.py", "tests/test_a.py"]


def checked(
    goal: Goal, catalogue: Catalogue = CATALOGUE, state: str = "DONE", *, strict: bool = True
) -> dict[str, str | None]:
    made = gap_report.draft(goal, catalogue, Setting())
    assert isinstance(made, Draft), made
    steps = [Planned(step.model_dump(mode="json"), state, None, strict) for step in made.steps]
    found = describe_criteria(made.document, tools_of(steps), catalogue)
    return {each.text: each.checked_by for each in found}


def quality(tool: str, **more: Any) -> Goal:
    gap = a_gap(f"Quality check failed: {tool}", "quality", evidence="src/a.py:1:1: F401 unused")
    return a_goal(gap, allowed=FILES, files=FILES, context={"test_command": "pytest -q", **more})


def test_a_tool_that_the_plan_never_runs_checks_nothing() -> None:
    found = checked(quality("Bandit"))

    assert found["Bandit reports no failures"] is None
    assert found["Gap resolved: Quality check failed: Bandit"] is None
    criteria = [CriterionView(text=text, checked_by=by) for text, by in found.items()]
    assert "Bandit reports no failures" in (describe_unchecked(criteria) or "")


@pytest.mark.parametrize("reporter", ["uv run bandit", "python -m bandit", "npx bandit"])
def test_no_launcher_and_no_other_tool_checks_what_a_report_names(reporter: str) -> None:
    found = checked(quality(reporter, test_command="uv run pytest -q"))

    assert found[f"{reporter} reports no failures"] is None


@pytest.mark.parametrize("reporter", ["uv run pyright", "python -m pyright", "Pyright 1.1"])
def test_a_tool_that_a_report_names_as_it_was_launched_is_found(reporter: str) -> None:
    found = checked(quality(reporter, test_command="uv run pytest -q"))

    assert found[f"{reporter} reports no failures"] == "verify: pyright src/a.py"


def test_a_program_of_many_tools_is_no_name_of_each() -> None:
    cargo = StepTools("verify", "TEST", [{"tool": "cargo-test", "argv": ["cargo", "test"]}])
    document = {
        "gap": {"category": "quality", "description": "Quality check failed: cargo clippy"},
        "acceptance_criteria": ["cargo clippy reports no failures", "All new/modified files pass cargo check"],
        "actions": [],
    }

    assert [each.checked_by for each in describe_criteria(document, (cargo,), CATALOGUE)] == [None, None]
    for at, tool in enumerate(("clippy", "check")):
        argv = ["cargo", tool, "--all-targets"]
        step = StepTools("verify", "TEST", [{"tool": CATALOGUE.match(" ".join(argv)).tool, "argv": argv}])
        found = [each.checked_by for each in describe_criteria(document, (step,), CATALOGUE)]
        assert found[at] == f"verify: cargo {tool} --all-targets"
        assert found[1 - at] is None


def test_a_tool_of_the_operators_file_ends_the_plan_over_the_files_of_the_gap() -> None:
    found = checked(quality("Bandit"), CATALOGUE.extend((BANDIT,)))

    assert found["Bandit reports no failures"] == "verify: bandit src/a.py"
    assert found["Gap resolved: Quality check failed: Bandit"] == "verify: bandit src/a.py"


def test_pyright_is_among_the_criteria_of_python_and_checks_them_only_where_it_is_run_strictly() -> None:
    unconfigured = checked(quality("ruff"))
    told_plain = checked(quality("ruff"), strict=False)
    configured = checked(quality("ruff", manifests={"ruff.toml": ""}))

    assert unconfigured[RUFF] == "verify: ruff check -- src/a.py"
    assert unconfigured[PYRIGHT] == "verify: pyright src/a.py"
    assert told_plain[f"{PYRIGHT} (pyright is run, and not strict)"] is None
    assert configured[PYRIGHT] is None


@pytest.mark.parametrize(
    ("goal", "is_strict"),
    [
        (quality("ruff"), True),
        (quality("ruff", manifests={"pyproject.toml": "[tool.pyright]\n"}), True),
        (quality("pyright"), False),  # the gap's own tool runs as the project configures it
        (quality("pyright strict"), True),
        (a_goal(a_gap("Create src/a.py"), allowed=FILES, files=FILES), True),
        (a_goal(a_gap("All code passes pyright"), allowed=FILES, files=FILES), False),
        (a_goal(a_gap("All code passes pyright strict"), allowed=FILES, files=FILES), True),
        (a_goal(a_gap("All checks pass"), allowed=FILES, files=FILES), False),
    ],
)
def test_pyright_is_strict_unless_it_is_the_subject_of_the_gap(goal: Goal, is_strict: bool) -> None:
    made = gap_report.draft(goal, CATALOGUE, Setting())

    assert isinstance(made, Draft)
    tools = [tool for step in made.steps for tool in step.verify_tools]
    assert {tool.strict for tool in tools if tool.tool == "pyright"} == {is_strict}
    assert not any(tool.strict for tool in tools if tool.tool != "pyright")


def test_what_was_skipped_checks_nothing() -> None:
    assert not any(checked(quality("ruff"), state="SKIPPED").values())


def test_a_gap_of_the_roadmap_is_checked_by_tests_of_its_own_alone() -> None:
    with_tests = a_goal(a_gap("Create src/a.py and tests/test_a.py"), allowed=FILES, files=FILES)
    without = a_goal(a_gap("Create src/a.py"), allowed=FILES, files=FILES)

    assert (checked(with_tests)["Gap resolved: Create src/a.py and tests/test_a.py"] or "").startswith("verify: pytest")
    assert checked(without)["Gap resolved: Create src/a.py"] is None


def test_what_a_reviewer_looks_at_is_checked() -> None:
    goal = a_goal(a_gap("Create docs/a.md"), allowed=["docs/a.md"], files=["docs/a.md"])

    assert checked(goal)["Gap resolved: Create docs/a.md"] == "verify"


@pytest.mark.parametrize(("verdict", "by"), [("PASS", "impl-code-qr"), ("ACCEPTED", "a person"), ("SKIPPED", None)])
def test_a_milestone_is_accepted_by_the_gate_of_its_code(verdict: str, by: str | None) -> None:
    document = {
        "gate_history": [{"phase": "impl-code", "verdict": verdict}],
        "plan": {"milestones": [{"id": "M-001", "acceptance_criteria": ["It works"]}]},
    }

    (found,) = describe_criteria(document, (), CATALOGUE)

    assert (found.text, found.checked_by) == ("M-001: It works", by)
