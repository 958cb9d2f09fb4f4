"""Where a goal is verified: each file in the project that lies nearest above it, however deep its manifest lies."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.goal import Goal
from tasks.handlers import goals
from tasks.policy import expansion
from tasks.rules.strategy import Draft, Rejected
from tasks.strategies.drafting.project import Project
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.command_lines import render
from tasks.toolchain.projects import project_folders

PYPROJECT = '[project]\nname = "shop"\n'
PACKAGE = '{"name": "web", "scripts": {"test": "node --test"}}'
CARGO = '[package]\nname = "shop-core"\n'


def a_plan(allowed: list[str], *files: str, sentence: str = "Fix the failing test", **context: Any) -> Draft:
    known = {"files": files or allowed, **context}
    answer = goals.plan(Goal.model_validate({"goal": sentence, "allowed_files": allowed, "context": known}))
    assert isinstance(answer, Draft), answer
    return answer


def commands(draft: Draft) -> dict[str, str]:
    return {step.step_id: step.verify for step in draft.steps if step.verify}


def test_a_python_project_below_the_root_is_verified_in_its_folder() -> None:
    draft = a_plan(
        ["backend/**"],
        *("backend/shop/basket.py", "backend/tests/test_basket.py"),
        manifests={"backend/pyproject.toml": PYPROJECT},
        failing_tests=["backend/tests/test_basket.py::test_sum"],
    )

    found = commands(draft)

    assert found["implement-fix"] == "(cd backend && pytest -q -- tests/test_basket.py::test_sum)"
    assert found["verify-regression"] == "(cd backend && pytest -q)"
    assert {tool.cwd for step in draft.steps for tool in step.verify_tools} == {"backend"}


@pytest.mark.parametrize(
    ("manifest", "text"), [("noxfile.py", "def tests(session):\n"), ("tox.ini", "[testenv]\ncommands = virtue\n")]
)
def test_tests_that_pytest_names_are_run_by_it_where_what_is_configured_takes_no_names(
    manifest: str, text: str
) -> None:
    manifests = {"pyproject.toml": PYPROJECT, manifest: text}
    files = ["shop/basket.py", "tests/test_basket.py"]

    named = commands(a_plan(files, manifests=manifests, failing_tests=["tests/test_basket.py::test_sum"]))
    unnamed = commands(a_plan(files, manifests=manifests, sentence="Add a total to the basket"))

    assert named["implement-fix"].endswith("pytest -q -- tests/test_basket.py::test_sum")
    assert named["verify-regression"] == "pytest -q"
    assert unnamed["verify-full"].startswith(manifest[:3])


def test_a_step_that_runs_below_the_root_requires_that_to_be_understood_and_no_other_step_does() -> None:
    context: dict[str, Any] = {"manifests": {"backend/pyproject.toml": PYPROJECT}}

    elsewhere = a_plan(["backend/a.py"], **context)
    at_the_root = a_plan(["a.py"], manifests={"pyproject.toml": PYPROJECT})

    assert {step.requires for step in elsewhere.steps if step.verify_tools} == {("cwd",)}
    assert {step.requires for step in at_the_root.steps} == {()}
    assert "cwd" not in at_the_root.steps[-1].verify_tools[0].model_dump()


def test_a_go_module_below_the_root_is_tested_there() -> None:
    draft = a_plan(
        ["services/api/add.go"],
        *("services/api/add.go", "services/api/add_test.go"),
        manifests={"services/api/go.mod": "module example.com/api\n"},
        failing_tests=["TestAdd"],
    )

    found = commands(draft)

    assert "(cd services/api && go test ./... -run '^TestAdd$')" in found["implement-fix"]
    assert found["verify-regression"] == "(cd services/api && go test ./...)"


def test_a_frontend_with_a_manifest_of_its_own_is_checked_there() -> None:
    package = '{"scripts": {"test": "node --test"}, "devDependencies": {"typescript": "5"}}'
    manifests = {"frontend/package.json": package, "frontend/tsconfig.json": "{}", "frontend/eslint.config.js": ""}

    found = commands(a_plan(["frontend/src/add.ts"], manifests=manifests, sentence="Fix the bug in add"))

    assert "(cd frontend && npx eslint -- src/add.ts)" in found["implement-fix"]
    assert "(cd frontend && npx tsc --noEmit)" in found["implement-fix"]
    assert found["verify-regression"] == "(cd frontend && npm test)"


def test_a_crate_below_the_root_is_tested_there_and_the_members_of_a_workspace_from_its_root() -> None:
    alone = a_plan(["native/src/lib.rs"], manifests={"native/Cargo.toml": CARGO}, failing_tests=["tests::adds"])
    joined = a_plan(
        ["crates/core/src/lib.rs"],
        manifests={"Cargo.toml": '[workspace]\nmembers = ["crates/*"]\n', "crates/core/Cargo.toml": CARGO},
        failing_tests=["shop-core tests::adds"],
    )

    assert commands(alone)["implement-fix"] == "(cd native && cargo test tests::adds -- --exact)"
    assert commands(joined)["implement-fix"] == "cargo test -p shop-core tests::adds -- --exact"
    assert commands(joined)["verify-regression"] == "cargo test"


@pytest.mark.parametrize(
    ("root", "member", "expected"),
    [
        ({"package.json": '{"workspaces": ["packages/*"]}', "package-lock.json": "{}"}, PACKAGE, "npm test"),
        ({"package.json": '{"packageManager": "yarn@4"}', "yarn.lock": ""}, PACKAGE, "yarn test"),
        ({"package.json": "{}", "pnpm-workspace.yaml": "", "pnpm-lock.yaml": ""}, PACKAGE, "pnpm test"),
        (
            {"package.json": '{"workspaces": [], "devDependencies": {"vitest": "3"}}', "pnpm-lock.yaml": ""},
            '{"name": "core", "dependencies": {}}',
            "pnpm exec vitest run",
        ),
    ],
)
def test_a_member_of_a_workspace_has_the_package_manager_and_the_runner_of_its_root(
    root: dict[str, str], member: str, expected: str
) -> None:
    manifests = {name: text for name, text in root.items() if name == "package.json"}

    draft = a_plan(
        ["packages/core/a.js"],
        *("packages/core/a.js", *root),
        manifests={**manifests, "packages/core/package.json": member},
    )

    assert commands(draft)["verify-regression"] == f"(cd packages/core && {expected})"


def test_each_module_of_a_go_workspace_is_tested_in_its_folder() -> None:
    manifests = {"api/go.mod": "module api\n", "web/go.mod": "module web\n"}

    found = commands(a_plan(["api/a.go", "web/b.go"], "go.work", "api/a.go", "web/b.go", manifests=manifests))

    assert found["verify-regression"] == "(cd api && go test ./...) && (cd web && go test ./...)"


def test_a_member_of_a_uv_workspace_is_checked_by_what_the_root_configures() -> None:
    manifests = {"pyproject.toml": "[tool.uv.workspace]\n[tool.ruff]\n", "packages/a/pyproject.toml": PYPROJECT}

    found = commands(a_plan(["packages/a/src/f.py"], manifests=manifests))

    assert "(cd packages/a && ruff check -- src/f.py)" in found["implement-fix"]
    assert found["verify-regression"] == "(cd packages/a && pytest -q)"


def test_each_file_of_a_goal_is_verified_by_its_own_project() -> None:
    manifests = {"backend/pyproject.toml": PYPROJECT, "frontend/package.json": PACKAGE}

    found = commands(a_plan(["backend/x.py", "frontend/y.js", "README.md"], manifests=manifests, sentence="Rename x"))

    assert found["implement-refactor"] == (
        "(cd backend && python -m py_compile x.py) && (cd frontend && node --check -- y.js)"
    )
    assert found["verify-full"] == "(cd backend && pytest -q) && (cd frontend && npm test)"


def test_what_changes_by_patterns_is_checked_afterwards_in_the_project_that_it_lies_in() -> None:
    manifests = {"backend/pyproject.toml": PYPROJECT + "[tool.ruff]\n", "frontend/package.json": PACKAGE}

    draft = a_plan(["backend/**", "frontend/**"], "backend/x.py", "frontend/y.js", manifests=manifests)

    patch = next(step for step in draft.steps if step.allowed_patterns)
    assert patch.checks_after == {"backend/ruff": False, "backend/syntax": False, "frontend/syntax": False}
    assert "**/pyproject.toml" in patch.excluded_patterns
    assert "**/package.json" in patch.excluded_patterns


def test_a_goals_own_command_runs_in_the_folder_that_it_names() -> None:
    manifests = {"backend/pyproject.toml": PYPROJECT}
    said: dict[str, Any] = {"manifests": manifests, "failing_tests": ["backend/tests/test_a.py::test_a"]}

    by_field = a_plan(["backend/a.py"], test_command="pytest -q", workdir="backend/", **said)
    by_shell = a_plan(["backend/a.py"], test_command="cd backend && pytest -q", **said)
    at_root = a_plan(["backend/a.py"], test_command="pytest -q", **said)

    assert commands(by_field) == commands(by_shell)
    assert commands(by_field)["verify-regression"] == "(cd backend && pytest -q)"
    assert "(cd backend && pytest -q -- tests/test_a.py::test_a)" in commands(by_field)["implement-fix"]
    assert commands(at_root)["verify-regression"] == "pytest -q"
    assert "pytest -q -- backend/tests/test_a.py::test_a" in commands(at_root)["implement-fix"]


def test_a_folder_without_a_manifest_is_a_project_where_the_goal_names_it() -> None:
    assert commands(a_plan(["backend/a.py"], workdir="backend"))["verify-regression"] == "(cd backend && pytest -q)"


@pytest.mark.parametrize("folder", ["../x", "/srv", "a/../../b", "~", "a/./b/..", ".git"])
def test_a_folder_outside_of_the_repository_is_refused(folder: str) -> None:
    context = {"files": ["a.py"], "test_command": "pytest", "workdir": folder}

    answer = goals.plan(Goal.model_validate({"goal": "Fix it", "allowed_files": ["a.py"], "context": context}))

    assert isinstance(answer, Rejected)
    assert [error.code for error in answer.errors] == ["unknown_folder"]


@pytest.mark.parametrize(
    ("manifests", "expected"),
    [
        ({"pyproject.toml": "", "docs/requirements.txt": "sphinx"}, {"."}),
        ({"pyproject.toml": "", "tests/data/package.json": '{"type": "module"}'}, {"."}),
        ({"pyproject.toml": "", "tests/fixtures/app/package.json": PACKAGE}, {"."}),
        ({"pyproject.toml": "", "docs/pyproject.toml": "[tool.ruff]\n"}, {"."}),
        ({"backend/pyproject.toml": "[tool.ruff]\n"}, {"backend"}),
        ({"backend/requirements.txt": "", "backend/a/requirements.txt": ""}, {"backend"}),
        ({"package.json": PACKAGE, "api/go.mod": "module a", "api/web/package.json": PACKAGE}, {".", "api", "api/web"}),
        ({"core/pyproject.toml": PYPROJECT, "core/tests_core/samples/a/pyproject.toml": PYPROJECT}, {"core"}),
        ({"pyproject.toml": PYPROJECT, "tests/apps/a/setup.py": ""}, {"."}),
        ({"package.json": PACKAGE, "e2e-tests/package.json": PACKAGE}, {".", "e2e-tests"}),
        ({"CMakeLists.txt": "", "src/CMakeLists.txt": ""}, {"."}),
    ],
)
def test_a_folder_is_a_project_of_its_own_if_its_manifest_says_so(
    manifests: dict[str, str], expected: set[str]
) -> None:
    assert project_folders(manifests) == expected


def test_no_tests_are_run_of_a_python_project_that_has_none() -> None:
    manifests = {"backend/pyproject.toml": PYPROJECT, "tool/pyproject.toml": PYPROJECT}
    files = ("backend/a.py", "backend/tests/test_a.py", "tool/b.py")

    found = commands(a_plan(["backend/a.py", "tool/b.py"], *files, manifests=manifests, files_complete=True))

    assert found["verify-regression"] == "(cd backend && pytest -q)"


class Keeper:
    """Takes what a plan keeps for its strategy."""

    def keep_strategy_state(self, **kept: Any) -> None:
        self.goal = Goal.model_validate(kept["goal"])


def test_a_plan_that_grows_later_knows_the_projects_of_its_goal() -> None:
    """What is verified is chosen after the listing of the goal is gone."""
    manifests = {"backend/pyproject.toml": PYPROJECT, "frontend/package.json": PACKAGE, "pyproject.toml": ""}
    context = {"files": ["backend/a.py", "frontend/b.js"], "manifests": manifests}
    goal = Goal.model_validate({"goal": "x", "allowed_files": ["backend/**", "frontend/**"], "context": context})
    keeper: Any = Keeper()

    expansion.begin(keeper, goal, Draft((), None))
    project = Project.of(keeper.goal, ("backend/a.py", "frontend/b.js"), None, CATALOGUE)

    assert keeper.goal.context.files == ()
    assert render(project.tests) == "(cd backend && pytest -q) && (cd frontend && npm test)"


def test_a_plan_of_a_project_at_the_root_keeps_no_manifests() -> None:
    context = {"files": ["a.py"], "manifests": {"pyproject.toml": PYPROJECT}}
    keeper: Any = Keeper()

    expansion.begin(
        keeper, Goal.model_validate({"goal": "x", "allowed_files": ["a.py"], "context": context}), Draft((), None)
    )

    assert keeper.goal.context.manifests == {}
