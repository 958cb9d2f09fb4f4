"""Which checks judge an iteration, and each piece of it by its own files alone."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import Mode
from schemas.step import PlannedStep
from tasks.rules.strategy import Draft, Setting
from tasks.rules.validation import validate
from tasks.strategies import gap_report
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.contract import Contract, ToolCategory
from tests.support.kinds.gap_report import a_gap, a_goal, answered, codes, drafted, planned

RUFF_AND_MYPY = {"pyproject.toml": "[tool.ruff]\nline-length = 120\n[tool.mypy]\nstrict = true\n"}
BANDIT = Contract(
    id="bandit", spellings=("bandit",), example="bandit a.py", category=ToolCategory.LINT, timeout_s=60,
    positional="path", options=("-q",), languages=("python",),
)  # fmt: skip
AUDIT = Contract(
    id="audit-all", spellings=("audit all",), example="audit all", category=ToolCategory.VALIDATE, timeout_s=60
)


def a_report_of(tool: str, files: list[str], **more: Any) -> Any:
    lines = "\n".join(f"{path}:{line}:1: X100 found" for path in files for line in range(1, 6))
    gap = a_gap(f"Quality check failed: {tool}", "quality", evidence=lines)
    return a_goal(gap, allowed=files, files=[*files, *more.pop("others", ())], **more)


def planned_with(goal: Any) -> tuple[PlannedStep, ...]:
    catalogue = CATALOGUE.extend((BANDIT, AUDIT))
    made = gap_report.draft(goal, catalogue, Setting())
    assert isinstance(made, Draft), made
    assert validate(goal, made.steps, catalogue) == ()
    return made.steps


@pytest.mark.parametrize(
    ("tool", "suffix"),
    [
        ("ruff", "py"), ("ruff format", "py"), ("mypy", "py"), ("pyright", "py"), ("black", "py"), ("bandit", "py"),
        ("audit-all", "py"), ("eslint", "ts"), ("prettier", "ts"), ("tsc", "ts"), ("eslint", "js"), ("clippy", "rs"),
        ("vet", "go"), ("golangci-lint", "go"), ("gofmt", "go"), ("sonar", "py"), ("CodeQL", "ts"),
    ],
)  # fmt: skip
def test_no_piece_of_a_report_is_judged_by_files_of_another_piece(tool: str, suffix: str) -> None:
    files = [f"src/m{number}.{suffix}" for number in range(12)]

    *patches, verify = planned_with(a_report_of(tool, files))

    assert [len(step.allowed_files) for step in patches] == [5, 5, 2]
    alone = planned_with(a_report_of(tool, files[:1]))
    closing = {tool.argv for tool in alone[-1].verify_tools} & {tool.argv for tool in verify.verify_tools}
    for step in patches:
        others = set(files) - set(step.allowed_files)
        named = {word for judge in step.verify_tools for word in judge.argv}
        assert step.verify_tools
        assert "." not in named
        assert others.isdisjoint(named)
        if tool in ("sonar", "CodeQL"):  # which nobody can run
            continue
        reporting = {argv for argv in closing if argv[0] in ("audit", "npx", "golangci-lint") or "clippy" in argv}
        assert reporting.isdisjoint(judge.argv for judge in step.verify_tools)


@pytest.mark.parametrize(
    ("tool", "own", "whole"),
    [
        ("bandit", "bandit src/m0.py", "bandit src/m0.py"),
        ("bandit 1.8 (security)", "bandit src/m0.py", "bandit src/m0.py"),
        ("audit-all", "audit all", "audit all"),
        ("mypy", "mypy --follow-imports=silent -- src/m0.py", "mypy --follow-imports=silent -- src/m0.py"),
        ("ruff format", "ruff format --check -- src/m0.py", "ruff format --check -- src/m0.py"),
    ],
)
def test_the_reporter_judges_the_only_piece_and_the_whole_also_where_operators_brought_it(
    tool: str, own: str, whole: str
) -> None:
    patch, verify = planned_with(a_report_of(tool, ["src/m0.py"]))

    assert own in patch.verify.split(" && ")
    assert whole in verify.verify.split(" && ")
    assert not {"bandit", "audit-all", "mypy", "ruff-format"} & {*patch.quick_checks, *verify.quick_checks}


def test_more_files_than_a_command_takes_are_judged_by_several_and_not_by_everything() -> None:
    files = [f"tests/test_{number}.py" for number in range(70)]

    verify = drafted(a_report_of("ruff", files, limits={"max_steps": 40})).steps[-1]

    assert [len(tool.argv) for tool in verify.verify_tools if tool.tool == "ruff-check"] == [53, 23]


@pytest.mark.parametrize(
    ("path", "manifests", "named", "checked"),
    [
        ("src/a.py", {}, None, ["ruff-check", "pyright"]),
        ("src/a.py", RUFF_AND_MYPY, None, ["ruff-check", "mypy"]),
        ("src/a.py", {"setup.cfg": "[metadata]\n"}, None, []),
        ("src/a.py", RUFF_AND_MYPY, ["+black"], ["ruff-check", "mypy", "black"]),
        ("src/a.py", RUFF_AND_MYPY, ["flake8"], ["flake8"]),
        ("src/a.py", RUFF_AND_MYPY, ["mypy --strict", "+ruff-format"], ["ruff-check", "mypy", "mypy", "ruff-format"]),
        ("src/a.py", RUFF_AND_MYPY, [], []),
        ("src/a.ts", {"eslint.config.js": "x", "tsconfig.json": "{}"}, None, ["tsc", "eslint"]),
        ("src/a.rs", {}, None, ["cargo-check"]),
    ],
)
def test_checks_are_what_the_goal_names_else_what_its_manifests_configure(
    path: str, manifests: dict[str, str], named: list[str] | None, checked: list[str]
) -> None:
    goal = a_goal(a_gap(f"Change {path}"), allowed=[path], files=[path], context={"manifests": manifests}, checks=named)

    tools = [tool for tool in drafted(goal).steps[-1].verify_tools if tool.tool in CATALOGUE.contracts]

    assert [each.tool for each in tools if CATALOGUE.contracts[each.tool].category is not ToolCategory.TEST] == checked


@pytest.mark.parametrize("name", ["pytest", "ruff check --fix", "rm -rf /", "mypy; true", "frobnicate", "curl -s x"])
def test_what_is_no_check_of_the_catalogue_is_refused(name: str) -> None:
    goal = a_goal(a_gap("Change src/a.py"), allowed=["src/a.py"], checks=["ruff", name])

    assert codes(answered(goal)) == [("/gap_report/checks/1", "unknown_check")]


@pytest.mark.parametrize(
    ("gap", "named", "added"),
    [
        (a_gap("Change src/a.py"), None, ("ruff-check", "pyright")),
        (a_gap("Quality check failed: ruff", "quality", evidence="src/a.py:1:1: F401 x"), None, ("pyright",)),
        (a_gap("Add types to src/a.py"), None, ("ruff-check",)),
        (a_gap("Change src/a.py"), ["ruff", "+mypy"], ("ruff-check", "pyright", "mypy")),
        (a_gap("Add types to src/a.py"), ["ruff", "mypy"], ("ruff-check",)),
    ],
)
def test_checks_that_the_gap_is_not_about_are_marked_in_patches_and_in_the_verification(
    gap: dict[str, Any], named: list[str] | None, added: tuple[str, ...]
) -> None:
    steps = drafted(a_goal(gap, allowed=["src/a.py"], files=["src/a.py"], checks=named)).steps

    assert [(step.mode, step.quick_checks) for step in steps] == [(Mode.PATCH, added), (Mode.TEST, added)]


@pytest.mark.parametrize(
    ("path", "context", "criteria"),
    [
        ("src/a.py", {}, ["ruff check", "pyright strict"]),
        ("src/a.py", {"manifests": RUFF_AND_MYPY}, ["ruff check", "pyright strict", "mypy"]),
        ("src/a.ts", {"manifests": {"eslint.config.js": "x"}}, ["tsc", "eslint"]),
        ("src/a.rs", {}, ["cargo check"]),
        ("a.go", {}, ["go build"]),
        ("src/a.xyz", {"test_command": "make test"}, ["ruff check", "pyright strict"]),
    ],
)
def test_criteria_are_those_of_python_or_name_the_checks_of_the_language(
    path: str, context: dict[str, Any], criteria: list[str]
) -> None:
    goal = a_goal(a_gap(f"Change {path}"), allowed=[path], files=[path], context=context)

    told = planned(goal).acceptance_criteria

    assert told == (*(f"All new/modified files pass {each}" for each in criteria), f"Gap resolved: Change {path}")
