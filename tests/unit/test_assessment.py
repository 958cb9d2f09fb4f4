"""Risk is assessed by the files of a step: every row of the table, what it must not find, and what raising changes."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import RiskLevel
from schemas.goal import Goal
from schemas.step import PlannedStep
from tasks.handlers.goals import plan
from tasks.rules.permission import limits_of_files
from tasks.rules.risk import ROLLBACK, Assessment, assess, assess_declared
from tasks.rules.strategy import Draft, Rejected

LOW, MED, HIGH = RiskLevel
CI = ".github/workflows/ci.yml"


@pytest.mark.parametrize(
    ("level", "why", "paths"),
    [
        (HIGH, "configures CI", f"{CI} .gitlab-ci.yml Jenkinsfile .circleci/config.yml .github/workflows/ci-test.yml"),
        (HIGH, "configures CI", "sub/.gitlab-ci.yml .pre-commit-config.yaml .GITHUB/workflows/x.yml"),
        (HIGH, "instructs agents", "AGENTS.md web/CLAUDE.md CLAUDE.local.md .mcp.json .claude/settings.json .codex/a"),
        (HIGH, "migrates data", "app/migrations/0001_initial.py alembic/versions/a.py db/migrate/1_x.rb V2__users.sql"),
        (HIGH, "is part of a deployment", "Dockerfile docker/api.Dockerfile Dockerfile.dev compose.yaml main.tf"),
        (HIGH, "is part of a deployment", "docker-compose.prod.yml k8s/api.yaml helm/x/values.yaml Procfile"),
        (MED, "names dependencies", "pyproject.toml requirements.txt requirements-test.txt uv.lock"),
        (MED, "names dependencies", "package.json web/package-lock.json go.sum Cargo.lock Gemfile pom.xml"),
        (MED, "guards access or secrets", "src/auth.py src/auth/login.py lib/crypto.rb app/user_permissions.go jwt.ts"),
        (MED, "guards access or secrets", "api/oauth2-client.js src/password.rs core/Auth/Guard.php security/rules.py"),
        (LOW, "", "src/a.py src/authors.py src/decrypted_name.py lib/loginfo.py README.md docs/deploy/x.md a.sql"),
        (LOW, "", "tests/test_auth.py docs/auth.md src/ci.py immigration.py package.py src/permissionsx.py blogin.py"),
        (LOW, "", "tests/migrations/test_up.py src/tokenizer.py src/dockerfile_parser.py composer.yaml deploy.py"),
    ],
)  # fmt: skip
def test_a_path_is_as_risky_as_its_row_says(level: RiskLevel, why: str, paths: str) -> None:
    found = {path: assess([path]) for path in paths.split()}

    expected = {path: Assessment(level, f"{path} {why}" if why else "") for path in found}
    assert found == expected


def test_a_step_is_as_risky_as_its_riskiest_file() -> None:
    assert assess(["a.py", "src/auth.py", CI, "Dockerfile"]) == Assessment(HIGH, f"{CI} configures CI")
    assert assess([]) == Assessment(LOW, "")


@pytest.mark.parametrize(("declared", "level"), [(LOW, MED), (MED, MED), (HIGH, HIGH)])
def test_a_level_is_raised_and_never_lowered(declared: RiskLevel, level: RiskLevel) -> None:
    found = assess_declared(declared, ["src/auth.py"])

    assert found.level is level
    assert bool(found.why) == (declared is LOW)


# --- supplied steps ---


def supplied(**fields: Any) -> Draft | Rejected:
    step = {"step_id": "one", "title": "t", "intent": "i", "verify": "pytest"} | fields
    answer = plan(Goal.model_validate({"goal": "x", "allowed_files": step["allowed_files"], "steps": [step]}))
    assert isinstance(answer, Draft | Rejected)
    return answer


def only_step(answer: Draft | Rejected) -> PlannedStep:
    assert isinstance(answer, Draft), answer
    (step,) = answer.steps
    return step


def test_a_supplied_step_is_raised_and_told_why() -> None:
    step = only_step(supplied(allowed_files=[CI]))

    assert step.risk_level is HIGH
    assert step.guidance == f"Risk HIGH: {CI} configures CI."
    assert step.rollback_hint == ROLLBACK


def test_what_a_supplied_step_says_of_itself_is_kept_where_it_says_enough() -> None:
    step = only_step(supplied(allowed_files=["pyproject.toml"], risk_level="HIGH", rollback_hint="git revert"))

    assert (step.risk_level, step.rollback_hint, step.guidance) == (HIGH, "git revert", None)


@pytest.mark.parametrize(
    ("fields", "pointer", "code"),
    [
        ({"allowed_files": ["go.mod"], "verify": None}, "/verify", "tests_required"),
        ({"allowed_files": [CI, "a.py", "b.py"]}, "/allowed_files", "too_many_files"),
        ({"allowed_files": ["a.py"], "risk_level": "MED"}, "/rollback_hint", "rollback_hint_required"),
    ],
)
def test_the_limits_of_the_raised_level_apply(fields: dict[str, Any], pointer: str, code: str) -> None:
    answer = supplied(**fields)

    assert isinstance(answer, Rejected)
    assert [(error.pointer, error.code) for error in answer.errors] == [(f"/steps/0{pointer}", code)]


# --- templates ---


def templated(*files: str, text: str = "Update the greeting", **limits: int) -> tuple[PlannedStep, ...]:
    context = {"test_command": "pytest"}
    answer = plan(Goal.model_validate({"goal": text, "allowed_files": files, "context": context, "limits": limits}))
    assert isinstance(answer, Draft), answer
    return tuple(step for step in answer.steps if step.allowed_files)


def test_a_template_takes_risky_files_apart_and_first_in_two_phases() -> None:
    steps = templated("src/a.py", CI, "tests/test_a.py")

    assert [(step.step_id, step.allowed_files, step.risk_level, step.phase) for step in steps] == [
        ("implement-1", (CI,), HIGH, "scaffold"),
        ("implement-2", (CI,), HIGH, "fill"),
        ("implement-3", ("src/a.py", "tests/test_a.py"), MED, None),
    ]
    assert [step.depends_on for step in steps] == [("analyze",), ("implement-1",), ("implement-2",)]
    assert [(step.controller_task_spec.hint or "")[:8] for step in steps] == ["Scaffold", "Fill in ", ""]
    assert all(step.verify_tools and step.rollback_hint for step in steps)


def test_a_template_lets_a_risky_step_change_one_of_many_files() -> None:
    files = ("Dockerfile", "main.tf", *(f"k8s/{number}.yaml" for number in range(5)))
    few, steps = (templated(*files[:size], text="Add a health check") for size in (3, 7))

    assert [len(step.allowed_files) for step in few] == [2, 2, 1, 1]
    assert [len(step.allowed_files) for step in steps] == [7, 7]
    assert [limits_of_files(step.model_dump()) for step in steps] == [{"max_files": 2, "max_risk": HIGH}] * 2
    assert all(step.guidance and step.guidance.startswith("Risk HIGH: ") for step in steps)


def test_documents_of_risky_things_need_no_tests() -> None:
    (step,) = templated("docs/auth.md", "k8s/README.md")

    assert (step.risk_level, step.verify_tools) == (LOW, ())


def test_constraints_stand_beside_the_reason() -> None:
    goal = {"goal": "Update it", "allowed_files": [CI], "constraints": ["keep it short"]}
    answer = plan(Goal.model_validate(goal | {"context": {"test_command": "pytest"}}))

    assert isinstance(answer, Draft)
    assert answer.steps[1].guidance == f"Risk HIGH: {CI} configures CI. keep it short"
