"""How the actions of an iteration become governed steps."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import RiskLevel, StepType
from schemas.step import PlannedStep
from tasks.rules.strategy import Draft, Setting
from tasks.rules.validation import validate
from tasks.strategies import gap_report
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.contract import Contract, ToolCategory
from tests.corpus.goals import scene
from tests.corpus.play import Player
from tests.support.kinds.gap_report import a_gap, a_goal, document, drafted
from tests.support.plans import a_report

LOW, MED, HIGH = RiskLevel
PYTHON = "ruff check -- {0} && pyright {0} && pytest -q"


OWN = "ruff check -- src/a.py && pyright src/a.py && python -m py_compile src/a.py"


def test_each_action_is_a_patch_and_the_end_is_a_verification() -> None:
    goal = a_goal(
        a_gap("Implement src/new.py and src/old.py"),
        allowed=["src/new.py", "src/old.py", "src/other.py"],
        files=["src/old.py"],
    )
    made = drafted(goal)

    assert [(step.step_id, step.controller_task_spec.type, step.allowed_files) for step in made.steps] == [
        ("action-1", StepType.PATCH, ("src/new.py",)),
        ("action-2", StepType.PATCH, ("src/old.py",)),
        ("verify", StepType.TEST, ()),
    ]
    assert [step.depends_on for step in made.steps] == [(), ("action-1",), ("action-2",)]
    assert [step.risk_level for step in made.steps] == [LOW, MED, LOW]
    for step in made.steps:
        assert "All new/modified files pass ruff check" in step.success_criteria
        assert document(made).iteration_id in step.intent


FOUR = ["src/a.py", "src/b.py", "tests/test_a.py", "tests/test_b.py"]


@pytest.mark.parametrize(
    ("gap", "may_be_empty"),
    [
        (a_gap(f"Implement totals in {', '.join(FOUR)}"), [("action-1", True, True), ("action-2", False, False)]),
        (
            a_gap("Quality check failed: ruff", "quality", evidence="".join(f"{path}:1:1: F401 x\n" for path in FOUR)),
            [("action-1", True, True), ("action-2", False, True)],
        ),
    ],
)
def test_tests_of_what_is_new_are_no_piece_that_may_be_left_out(
    gap: Any, may_be_empty: list[tuple[str, bool, bool]]
) -> None:
    steps = [step for step in drafted(a_goal(gap, allowed=FOUR, files=FOUR)).steps if step.allowed_files]

    assert [(step.step_id, step.allow_empty, step.piece_of == "action-1") for step in steps] == may_be_empty


PASS_RUFF, PASS_PYRIGHT = "All new/modified files pass ruff check", "All new/modified files pass pyright strict"


@pytest.mark.parametrize(
    ("gap", "allowed", "context", "own", "whole"),
    [
        (a_gap("Implement src/a.py"), ["src/a.py"], {}, [PASS_RUFF, PASS_PYRIGHT], [PASS_RUFF, PASS_PYRIGHT]),
        (a_gap("Implement docs/a.md"), ["docs/a.md"], {"language": "python"}, [], []),
        (a_gap("Implement src/a.go"), ["src/a.go"], {}, [], ["All new/modified files pass go build"]),
        (
            a_gap("Quality check failed: pytest", "quality", evidence="FAILED tests/test_a.py::test_it - x"),
            ["tests/test_a.py"],
            {},
            [PASS_RUFF, PASS_PYRIGHT, "pytest reports no failures"],
            [PASS_RUFF, PASS_PYRIGHT, "pytest reports no failures"],
        ),
        (
            a_gap("Quality check failed: sonar", "quality", evidence="src/a.py:1:1: S1 x"),
            ["src/a.py"],
            {},
            [PASS_RUFF, PASS_PYRIGHT],
            [PASS_RUFF, PASS_PYRIGHT],
        ),
    ],
)
def test_the_criteria_of_a_step_speak_of_what_verifies_it(
    gap: Any, allowed: list[str], context: Any, own: list[str], whole: list[str]
) -> None:
    *patches, last = drafted(a_goal(gap, allowed=allowed, files=allowed, context=context)).steps
    resolved = f"Gap resolved: {gap['description']}"

    def of_tools(step: PlannedStep) -> list[str]:
        return [line for line in step.success_criteria.split("; ") if line != resolved]

    assert [of_tools(step) for step in patches] == [own] * len(patches)
    assert of_tools(last) == whole
    assert all(resolved in step.success_criteria for step in (*patches, last))


def test_each_patch_is_judged_by_its_own_files_and_the_verification_lints_checks_types_and_tests() -> None:
    *patches, last = drafted(
        a_goal(a_gap("Implement src/a.py and src/b.py"), allowed=["src/a.py", "src/b.py"], files=["src/b.py"])
    ).steps

    assert [step.verify for step in patches] == [
        f"ruff check -- {path} && pyright {path} && python -m py_compile {path}" for path in ("src/a.py", "src/b.py")
    ]
    assert last.verify == PYTHON.format("src/a.py src/b.py")


@pytest.mark.parametrize(
    ("gap", "own"),
    [
        (a_gap("Quality check failed: ruff", "quality", evidence="tests/test_a.py:1:1: F401 x\n"), ["tests/test_a.py"]),
        (a_gap("Delete src/a.py and tests/test_a.py"), ["tests/test_a.py"]),
        (a_gap("Quality check failed: pytest", "quality", evidence="FAILED tests/test_a.py::test_it\n"), None),
        (a_gap("Implement totals in src/a.py"), None),
    ],
)
def test_tests_that_a_gap_names_are_the_plans_unless_they_fail(gap: dict[str, Any], own: list[str] | None) -> None:
    made = drafted(a_goal(gap, allowed=["src/a.py", "tests/**"], files=["src/a.py", "tests/test_a.py"]))

    last = made.steps[-1]
    assert last.step_id == "verify"
    assert (list(last.judged_by.own) if last.judged_by else None) == own


def test_new_files_that_no_check_is_for_have_nothing_else_checked() -> None:
    goal = a_goal(
        a_gap("Implement src/b.py and docs/b.md"),
        allowed=["docs/b.md", "src/b.py"],
        files=["src/b.py"],
        context={"base_sha": "9f1c2d4"},
    )

    assert drafted(goal).steps[-1].verify == PYTHON.format("src/b.py")


def test_the_verification_checks_new_files_apart_so_that_old_findings_in_others_do_not_count() -> None:
    goal = a_goal(
        a_gap("Implement src/a.py and src/b.py"),
        allowed=["src/a.py", "src/b.py"],
        files=["src/b.py"],
        context={"base_sha": "9f1c2d4"},
    )
    plan = Player(scene(goal.model_dump(mode="json", exclude_unset=True)))
    plan.report(a_report("reproduce"))
    plan.report(a_report("action-1", touched_files=["src/a.py"], created_files=["src/a.py"]))
    plan.report(a_report("action-2", touched_files=["src/b.py"], created_files=[]))
    assert plan.specs[-1]["verify"].startswith(
        "ruff check -- src/b.py && ruff check -- src/a.py && pyright src/b.py && pyright src/a.py && "
    )

    ran = [{"tool": tool, "exit_code": code} for tool, code in (("ruff-check", 0), ("ruff-check", 0), ("pyright", 1))]
    said: dict[str, Any] = {
        "verify": ran,
        "failure_evidence": {"category": "TYPE_ERROR"},
        "touched_files": [],
        "created_files": [],
    }
    plan.report(a_report("verify", success=False, **said))

    assert plan.specs[-1]["step_id"] == "verify-baseline"
    assert plan.specs[-1]["verify"] == "ruff check -- src/b.py && pyright src/b.py"  # the new one is not there
    found = [{"tool": "ruff-check", "exit_code": 0}, {"tool": "pyright", "exit_code": 1}]
    plan.report(a_report("verify-baseline", verify=found, verified_at="9f1c2d4", touched_files=[]))
    assert plan.specs[-1]["verify"].startswith(
        "ruff check -- src/b.py && ruff check -- src/a.py && pyright src/a.py && "
    )
    plan.report(a_report("verify", touched_files=[]))
    assert (plan.state, plan.record.spent["failing_outcomes"]) == ("COMPLETED", 0)


@pytest.mark.parametrize(
    ("path", "context", "own", "verify"),
    [
        ("src/a.py", {}, OWN, PYTHON.format("src/a.py")),
        (
            "src/a.py",
            {"test_command": "pytest tests -q"},
            OWN,
            "ruff check -- src/a.py && pyright src/a.py && pytest tests -q",
        ),
        ("pyproject.toml", {"language": "python"}, "python -m pip check", PYTHON.format(".").replace("-- .", ".")),
        ("src/a.ts", {}, "npx tsc --noEmit", "npx tsc --noEmit && npm test"),
        ("src/a.js", {}, "node --check -- src/a.js", "node --check -- src/a.js && npm test"),
        ("a.go", {}, "gofmt -l -- a.go", "go build ./... && go test ./..."),
        ("src/a.rs", {}, "cargo check", "cargo check && cargo test"),
    ],
)
def test_an_iteration_is_verified_in_its_language(path: str, context: dict[str, str], own: str, verify: str) -> None:
    steps = drafted(a_goal(a_gap(f"Change {path}"), allowed=[path], files=[path], context=context)).steps

    assert [step.verify for step in steps] == [own, verify]


@pytest.mark.parametrize(
    ("check", "verify"),
    [
        ({"spellings": ("mypy",), "positional": "path"}, "ruff check -- src/a.py && mypy -- src/a.py && pytest -q"),
        ({"spellings": ("pyre check",)}, "ruff check -- src/a.py && pyre check && pytest -q"),
        ({"spellings": ("pyre",), "positional": "count", "least": 1}, "ruff check -- src/a.py && pytest -q"),
    ],
)
def test_an_operator_puts_another_type_checker_in_the_place_of_pyright(check: dict[str, Any], verify: str) -> None:
    theirs = Contract(id="pyright", example="x", category=ToolCategory.TYPE_CHECK, timeout_s=60, **check)
    goal = a_goal(a_gap("Change src/a.py"), allowed=["src/a.py"], files=["src/a.py"])
    catalogue = CATALOGUE.extend((theirs,))

    made = gap_report.draft(goal, catalogue, Setting())

    assert isinstance(made, Draft)
    assert made.steps[-1].verify == verify
    assert validate(goal, made.steps, catalogue) == ()


@pytest.mark.parametrize(
    ("tool", "path", "verify"),
    [
        (
            "mypy",
            "src/a.py",
            "ruff check -- src/a.py && pyright src/a.py && mypy --follow-imports=silent -- src/a.py && pytest -q",
        ),
        ("ruff 0.15", "src/a.py", PYTHON.format("src/a.py")),
        ("pytest", "src/a.py", PYTHON.format("src/a.py")),
        ("CodeQL", "src/a.py", PYTHON.format("src/a.py")),
        ("ESLint", "src/a.js", "node --check -- src/a.js && npx eslint -- src/a.js && npm test"),
        ("tsc", "src/a.ts", "npx tsc --noEmit && npm test"),
        ("go vet", "a.go", "go build ./... && go vet ./... && go test ./..."),
        ("golangci-lint", "a.go", "go build ./... && golangci-lint run ./... && go test ./..."),
        ("clippy", "src/a.rs", "cargo check && cargo clippy -- -D warnings && cargo test"),
    ],
)
def test_the_tool_that_reported_a_gap_judges_whether_it_is_closed(tool: str, path: str, verify: str) -> None:
    gap = a_gap(f"Quality check failed: {tool}", "quality", evidence=f"{path}:1:1: E1 x")
    steps = drafted(a_goal(gap, allowed=[path], files=[path])).steps

    assert steps[-1].verify == verify


def test_a_tool_that_a_wish_speaks_of_is_no_judge() -> None:
    steps = drafted(a_goal(a_gap("Types: mypy on src/a.py", "inbox"), allowed=["src/a.py"])).steps

    assert steps[-1].verify == PYTHON.format("src/a.py")


def test_documentation_is_read_by_somebody() -> None:
    steps = drafted(a_goal(a_gap("Change README.md"), allowed=["README.md"], files=["README.md"])).steps

    assert [(step.controller_task_spec.type, step.risk_level, step.verify) for step in steps] == [
        (StepType.PATCH, LOW, ""),
        (StepType.REVIEW, LOW, ""),
    ]


def test_what_is_deleted_is_not_linted() -> None:
    steps = drafted(a_goal(a_gap("Delete src/a.py"), allowed=["src/a.py"], files=["src/a.py", "src/b.py"])).steps

    assert "src/a.py" not in steps[-1].verify
    assert steps[0].title == "Delete src/a.py"


def test_more_files_than_the_risk_allows_are_split_tests_apart() -> None:
    files = [f"modules/x/m{number}.py" for number in range(7)] + ["modules/x/tests/test_m.py"]
    patches = drafted(a_goal(a_gap("Implement module x"), allowed=files, files=files)).steps[:-1]

    assert [(step.risk_level, len(step.allowed_files)) for step in patches] == [(MED, 5), (MED, 2), (LOW, 1)]
    assert [step.title for step in patches] == [f"Change: Implement module x ({n} of 3)" for n in (1, 2, 3)]


def test_the_part_is_told_even_if_the_description_is_long() -> None:
    files = [f"modules/x/m{number}.py" for number in range(7)]
    patches = drafted(a_goal(a_gap("Implement module x " + "word " * 50), allowed=files, files=files)).steps[:-1]

    assert [step.title[-9:] for step in patches] == [" (1 of 2)", " (2 of 2)"]


def test_risky_files_go_apart_and_first() -> None:
    files = ["src/a.py", "domain/a.py", "domain/b.py", "domain/c.py"]
    patches = drafted(a_goal(a_gap(f"Change {' '.join(files)}"), allowed=files, files=files)).steps[:-1]

    assert [(step.risk_level, step.allowed_files) for step in patches] == [
        (HIGH, ("domain/a.py", "domain/b.py")),
        (HIGH, ("domain/c.py",)),
        (MED, ("src/a.py",)),
    ]
    assert all(step.rollback_hint for step in patches)


def test_a_new_file_that_guards_access_is_raised_and_says_so() -> None:
    step = drafted(a_goal(a_gap("Create src/auth.py"), allowed=["src/auth.py"])).steps[0]

    assert step.risk_level is MED
    assert (step.guidance or "").startswith("Risk MED: src/auth.py guards access or secrets.")


def test_steps_go_to_the_goals_queue_with_its_constraints() -> None:
    goal = a_goal(a_gap("Create src/a.py"), allowed=["src/a.py"])
    goal = goal.model_copy(update={"queue": "gpu", "constraints": ("keep it small",)})

    assert {(step.queue, step.guidance) for step in drafted(goal).steps} == {("gpu", "keep it small")}


@pytest.mark.parametrize(
    ("files", "explores"),
    [
        ([f"src/m{n}.py" for n in range(5)], False),
        ([f"src/m{n}.py" for n in range(6)], True),
        ([f"tests/test_m{n}.py" for n in range(10)], False),
        ([f"tests/test_m{n}.py" for n in range(11)], True),
        (["domain/a.py", "src/a.py"], False),
        (["domain/a.py", "src/a.py", "src/b.py"], True),
    ],
)
def test_an_action_without_files_gets_all_that_its_risk_allows_else_somebody_looks(
    files: list[str], *, explores: bool
) -> None:
    made = drafted(a_goal(a_gap("Make it nice"), allowed=files, files=files))

    assert document(made).actions[0].target_files == ()
    if explores:
        assert [(step.step_id, step.controller_task_spec.type) for step in made.steps] == [
            ("explore-scope", StepType.EXPLORE)
        ]
    else:
        assert [step.allowed_files for step in made.steps] == [tuple(files), ()]
