"""How the actions of an iteration become governed steps."""

from __future__ import annotations

import pytest

from schemas.base import RiskLevel, StepType
from tests.unit.gap_report.reports import a_gap, a_goal, document, drafted

LOW, MED, HIGH = RiskLevel
PYTHON = "ruff check {0} && pyright {0} && pytest -q"


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
    assert made.state is None
    for step in made.steps:
        assert "All new/modified files pass ruff check" in step.success_criteria
        assert document(made).iteration_id in step.intent


def test_the_last_patch_and_the_verification_lint_check_types_and_test() -> None:
    first, *last = drafted(
        a_goal(a_gap("Implement src/a.py and src/b.py"), allowed=["src/a.py", "src/b.py"], files=["src/b.py"])
    ).steps

    assert first.verify == "python -m py_compile src/a.py"
    assert {step.verify for step in last} == {PYTHON.format("src/a.py src/b.py")}


@pytest.mark.parametrize(
    ("path", "context", "verify"),
    [
        ("src/a.py", {}, PYTHON.format("src/a.py")),
        ("src/a.py", {"test_command": "pytest tests -q"}, "ruff check src/a.py && pyright src/a.py && pytest tests -q"),
        ("pyproject.toml", {"language": "python"}, PYTHON.format(".")),
        ("src/a.ts", {}, "npx tsc --noEmit && npm test"),
        ("src/a.js", {}, "node --check src/a.js && npm test"),
        ("a.go", {}, "go build ./... && go test ./..."),
        ("src/a.rs", {}, "cargo check && cargo test"),
    ],
)
def test_an_iteration_is_verified_in_its_language(path: str, context: dict[str, str], verify: str) -> None:
    steps = drafted(a_goal(a_gap(f"Change {path}"), allowed=[path], files=[path], context=context)).steps

    assert [step.verify for step in steps] == [verify, verify]


def test_documentation_is_read_by_somebody() -> None:
    steps = drafted(a_goal(a_gap("Change README.md"), allowed=["README.md"], files=["README.md"])).steps

    assert [(step.controller_task_spec.type, step.risk_level, step.verify) for step in steps] == [
        (StepType.PATCH, LOW, ""),
        (StepType.REVIEW, LOW, ""),
    ]


def test_what_is_deleted_is_not_linted() -> None:
    steps = drafted(a_goal(a_gap("Delete src/a.py"), allowed=["src/a.py"], files=["src/a.py", "src/b.py"])).steps

    assert "src/a.py" not in steps[-1].verify
    assert steps[0].title.startswith("Delete: ")


def test_more_files_than_the_risk_allows_are_split_tests_apart() -> None:
    files = [f"modules/x/m{number}.py" for number in range(7)] + ["modules/x/tests/test_m.py"]
    patches = drafted(a_goal(a_gap("Implement module x"), allowed=files, files=files)).steps[:-1]

    assert [(step.risk_level, len(step.allowed_files)) for step in patches] == [(MED, 5), (MED, 2), (LOW, 1)]
    assert [step.title for step in patches] == [f"Change: Implement module x ({n} of 3)" for n in (1, 2, 3)]


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
        assert made.state is not None
    else:
        assert [step.allowed_files for step in made.steps] == [tuple(files), ()]
        assert made.state is None
