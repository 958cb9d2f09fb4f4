"""Recipes by milestone: `quick`, `focused` and `full` in the `verify` of supplied steps, in every language."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.goal import Goal
from schemas.step import PlannedStep
from tasks.handlers.goals import plan
from tasks.rules.strategy import Draft, Rejected
from tasks.strategies.task.supplied import supply
from tasks.toolchain.catalogue import CATALOGUE, Catalogue
from tasks.toolchain.contract import Part

PYTHON = {
    "test_command": "pytest -q",
    "manifests": {"pyproject.toml": "[tool.ruff]\n[tool.mypy]\n"},
    "files": ["src/shop/cart.py", "src/bank/cart.py", "src/shop/tax.py",
              "tests/shop/test_cart.py", "tests/bank/test_cart.py", "tests/shop/test_labels.py"],
}  # fmt: skip
NODE = {"language": "typescript", "test_command": "npx jest", "files": ["src/cart.ts", "src/cart.spec.ts"]}
GO = {"language": "go", "test_command": "go test ./... -race", "files": ["cart/cart.go", "cart/cart_test.go"]}
RUST = {"language": "rust", "test_command": "cargo test", "files": ["src/cart.rs"]}
MANIFESTS = {
    "typescript": {
        "eslint.config.js": "export default []",
        "tsconfig.json": "{}",
        "package.json": '{"typescript": "5"}',
    },
    "rust": {"Cargo.toml": "[lints.clippy]\n"},
}
STEP = {"step_id": "a", "title": "A", "intent": "Do it"}


def planned(
    context: dict[str, Any], *files: str, catalogue: Catalogue = CATALOGUE, **step: Any
) -> PlannedStep | Rejected:
    """Plan a goal with one step of its own, which may change `files`, and is verified by what `step` says."""
    said = {**STEP, "allowed_files": files if step.get("mode", "patch") == "patch" else [], **step}
    answer = plan(Goal.model_validate({
        "goal": "Move the cart", "allowed_files": files, "context": context, "steps": [said],
    }), catalogue)  # fmt: skip
    if isinstance(answer, Draft):
        return answer.steps[0]
    assert isinstance(answer, Rejected)
    return answer


def commands(step: PlannedStep | Rejected) -> list[str]:
    assert isinstance(step, PlannedStep)
    return step.verify.split(" && ") if step.verify else []


def test_a_patch_is_verified_by_its_form_the_configured_checks_and_the_tests_that_are_named_after_its_files() -> None:
    step = planned(PYTHON, "src/shop/cart.py", verify="focused")

    assert commands(step) == [
        "ruff check -- src/shop/cart.py",
        "mypy --follow-imports=silent -- src/shop/cart.py",
        "python -m py_compile src/shop/cart.py",
        "pytest -q -- tests/shop/test_cart.py",
    ]
    assert isinstance(step, PlannedStep)
    assert step.quick_checks == ("ruff-check", "mypy")


def test_a_test_that_is_patched_is_run_itself() -> None:
    assert commands(planned(PYTHON, "tests/shop/test_labels.py", verify="focused"))[-1] == (
        "pytest -q -- tests/shop/test_labels.py"
    )


def test_a_patch_of_which_no_test_is_known_is_verified_by_all_tests() -> None:
    assert commands(planned(PYTHON, "src/shop/tax.py", verify="focused"))[-1] == "pytest -q"


@pytest.mark.parametrize(
    ("context", "path", "ends"),
    [
        (NODE, "src/cart.ts", "npx jest -- src/cart.spec.ts"),
        (GO, "cart/cart.go", "go test -race ./cart/..."),
        (GO, "main.go", "go test -race ./..."),
        (RUST, "src/cart.rs", "cargo test"),
    ],
)
def test_tests_are_narrowed_as_the_runner_of_the_language_can_be(context: Any, path: str, ends: str) -> None:
    assert commands(planned(context, path, verify="focused"))[-1] == ends


@pytest.mark.parametrize(
    ("context", "path", "wanted"),
    [
        (
            PYTHON,
            "src/shop/cart.py",
            ["ruff check -- src/shop/cart.py", "mypy --follow-imports=silent -- src/shop/cart.py", "pytest -q"],
        ),
        (
            {**NODE, "manifests": MANIFESTS["typescript"]},
            "src/cart.ts",
            ["npx eslint -- src/cart.ts", "npx tsc --noEmit", "npx jest"],
        ),
        (GO, "cart/cart.go", ["go test ./... -race"]),
        ({**RUST, "manifests": MANIFESTS["rust"]}, "src/cart.rs", ["cargo clippy", "cargo test"]),
    ],
)
def test_the_end_is_verified_by_the_checks_of_all_that_may_change_and_all_tests(
    context: Any, path: str, wanted: list[str]
) -> None:
    assert commands(planned(context, path, mode="test", verify="full")) == wanted


def test_what_reads_is_verified_by_the_form_of_what_may_change() -> None:
    step = planned(PYTHON, "src/shop/cart.py", mode="read_only", verify="quick")

    assert commands(step) == ["python -m py_compile src/shop/cart.py"]


@pytest.mark.parametrize("name", ["quick", "focused"])
def test_no_tool_verifies_documents(name: str) -> None:
    assert commands(planned(PYTHON, "README.md", verify=name)) == []
    assert commands(planned(PYTHON, "README.md", mode="read_only", verify=name)) == []


def test_the_end_runs_all_tests_also_where_it_writes_a_document() -> None:
    assert commands(planned(PYTHON, "README.md", verify="full")) == ["pytest -q"]


@pytest.mark.parametrize(
    ("files", "path"),
    [
        (["src/shop/__init__.py", "tests/shop/__init__.py"], "src/shop/__init__.py"),
        (["src/shop/utils.py", "tests/shop/utils.py"], "src/shop/utils.py"),
        (["tests/conftest.py"], "tests/conftest.py"),
        (["api/user.py", "web/src/user.test.ts"], "api/user.py"),
    ],
)
def test_what_a_runner_takes_for_no_test_is_not_run_in_place_of_all(files: list[str], path: str) -> None:
    """pytest fails where a file has no tests."""
    assert commands(planned({**PYTHON, "files": files}, path, verify="focused"))[-1] == "pytest -q"


@pytest.mark.parametrize("path", ["migrations/001.sql", "cart/testdata/in.go", "_tools/x.go", ".github/x.go"])
def test_a_folder_without_packages_is_not_run_in_place_of_all(path: str) -> None:
    """`go test` fails where there are none."""
    assert commands(planned(GO, path, verify="focused"))[-1] == "go test ./... -race"


def test_the_nearest_test_lies_below_the_same_folder_before_it_has_names_in_common() -> None:
    files = ["packages/a/src/index.ts", "packages/a/tests/index.test.ts", "packages/b/src/a/index.test.ts"]

    found = commands(planned({**NODE, "files": files}, files[0], verify="focused"))

    assert found[-1] == "npx jest -- packages/a/tests/index.test.ts"


def test_of_very_many_tests_of_one_name_none_is_taken_for_the_files_own() -> None:
    files = ["src/x.py", *(f"tests/p{number}/test_x.py" for number in range(100))]

    assert commands(planned({**PYTHON, "files": files}, "src/x.py", verify="focused"))[-1] == "pytest -q"


def test_the_checks_of_very_many_files_look_at_the_whole_project() -> None:
    files = [f"src/m{number}.py" for number in range(60)]

    found = commands(planned(PYTHON, *files, mode="test", verify="full"))

    assert found == ["ruff check .", "mypy --follow-imports=silent .", "pytest -q"]


def test_many_files_are_verified_by_few_commands() -> None:
    files = [f"src/m{number}.js" for number in range(300)]
    context = {"language": "javascript", "test_command": "npx jest"}

    step = planned(context, *files, mode="test", verify=["quick", "full"])

    assert isinstance(step, PlannedStep)
    assert len(step.verify_tools) <= 50


def test_a_recipe_stands_beside_commands() -> None:
    found = commands(planned(PYTHON, "src/shop/cart.py", verify=["flake8 src", "focused"]))

    assert (found[0], found[-1]) == ("flake8 src", "pytest -q -- tests/shop/test_cart.py")


@pytest.mark.parametrize("name", ["quick", "focused", "full"])
def test_where_no_tool_is_known_the_goal_is_told_what_to_say(name: str) -> None:
    refused = planned({}, "src/cart.xyz", verify=name)

    assert isinstance(refused, Rejected)
    (error,) = refused.errors
    assert (error.pointer, error.code) == ("/steps/0/verify", "unknown_command")
    assert "context.language" in error.message
    assert "context.test_command" in error.message


def test_an_operators_recipe_of_that_name_goes_first() -> None:
    own = CATALOGUE.extend((), {"full": (Part("make test"),)})

    assert commands(planned(PYTHON, "src/shop/cart.py", mode="test", verify="full", catalogue=own)) == ["make test"]


def test_checks_that_a_goal_names_as_configured_are_those_that_its_step_runs() -> None:
    step = planned(PYTHON, "src/shop/cart.py", verify="mypy src", quick_checks=["mypy", "eslint"])

    assert isinstance(step, PlannedStep)
    assert step.quick_checks == ("mypy",)


def test_a_check_that_a_goal_names_counts_though_its_manifests_configure_it_too() -> None:
    step = planned(PYTHON, "src/shop/cart.py", verify=["mypy src", "focused"])

    assert isinstance(step, PlannedStep)
    assert step.quick_checks == ("ruff-check",)


def test_what_several_recipes_run_is_run_once() -> None:
    found = commands(planned(PYTHON, "src/shop/cart.py", verify=["quick", "focused", "full"]))

    assert sorted(found) == sorted(set(found))


def test_a_plan_with_a_recipe_over_many_files_can_be_sent_again() -> None:
    files = [f"src/a/folder/of/some/depth/module_{number}.py" for number in range(45)]
    step = planned(PYTHON, *files, mode="test", verify="full")
    assert isinstance(step, PlannedStep)
    assert len(step.verify) > 2000

    again = planned(PYTHON, *files, **{name: value for name, value in supply(step).items() if name != "allowed_files"})

    assert isinstance(again, PlannedStep)
    assert again.verify_tools == step.verify_tools
