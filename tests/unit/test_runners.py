"""Which command runs a project's tests, by what its manifests configure."""

from __future__ import annotations

import json
import shlex

import pytest

from tasks.base.errors import UnknownCommand
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.languages import LANGUAGES
from tasks.toolchain.runners import part_options, runner_commands, whole_commands

JAVASCRIPT, PYTHON, RUST = LANGUAGES["javascript"], LANGUAGES["python"], LANGUAGES["rust"]
NO_TESTS = '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'


@pytest.mark.parametrize(
    ("package", "others", "whole", "focused"),
    [
        ('{"scripts": {"test": "vitest"}, "devDependencies": {"vitest": "^2"}}', (), "npm test", ["npx vitest run"]),
        ('{"scripts": {"test": "jest"}, "devDependencies": {"jest": "29"}}', (), "npm test", ["npx jest"]),
        (
            '{"scripts": {"test": "x"}, "devDependencies": {"mocha": "10"}}',
            ("pnpm-lock.yaml",),
            "pnpm test",
            ["pnpm exec mocha"],
        ),
        ('{"devDependencies": {"ava": "6"}, "packageManager": "yarn@4.1.0"}', (), "yarn ava", ["yarn ava"]),
        ('{"scripts": {"test": "node --test"}}', (), "npm test", ["node --test"]),
        ('{"scripts": {"test": "bun test"}}', ("bun.lock",), "bun run test", ["bun test"]),
        (
            '{"scripts": {"build": "tsc"}, "devDependencies": {"@playwright/test": "1"}}',
            (),
            "npx playwright test",
            ["npx playwright test"],
        ),
        (NO_TESTS, (), None, []),
    ],
)
def test_a_package_is_tested_by_its_own_runner_and_package_manager(
    package: str, others: tuple[str, ...], whole: str | None, focused: list[str]
) -> None:
    manifests = {"package.json": package}

    assert [*whole_commands(JAVASCRIPT, manifests, others)] == [*filter(None, [whole])]
    assert [*runner_commands(JAVASCRIPT, manifests, others)] == focused
    assert all(CATALOGUE.match(each).argv for each in (*focused, *filter(None, [whole])))


@pytest.mark.parametrize(
    ("scripts", "link"),
    [
        ({"test": "npm run lint && vitest run --typecheck", "lint": "eslint . && prettier -c src"}, "npx vitest run"),
        ({"test": "eslint . && vitest --coverage"}, "npx vitest run --coverage"),
        ({"test": "tsc && node --test"}, "node --test"),
        ({"test": "npm run build && mocha", "build": "rollup -c"}, None),
        ({"test": "npm run unit && npm run site", "unit": "jest", "site": "node --test site"}, None),
        ({"test": "npm run all && eslint .", "all": "jest && mocha"}, None),
        ({"test": "npm run nothing && jest"}, None),
        ({"test": "jest"}, None),
        ({"test": "eslint . && jest || true"}, None),
    ],
)
def test_of_a_test_script_that_lints_as_well_the_part_that_tests_comes_first(
    scripts: dict[str, str], link: str | None
) -> None:
    found = [*whole_commands(JAVASCRIPT, {"package.json": json.dumps({"scripts": scripts})}, ())]

    assert found[-1] == "npm test"
    assert len(found) == (2 if link else 1)
    assert link is None or found[0].endswith(link)
    assert all(CATALOGUE.match(each).argv for each in found)


@pytest.mark.parametrize(
    ("unit", "script", "accepted"),
    [
        ("test:unit", "mocha --require x", "npm run test:unit"),
        ("mocha", "mocha --reporter dot", "npx mocha"),
        ("mocha", "mocha --recursive", "npx mocha --recursive"),
        ("mocha", "mocha --require x", "npm test"),  # without its option it would not run the same tests
        ("vitest", "vitest --reporter dot", "npx vitest run"),
        ("vitest", "vitest run --reporter dot", "npx vitest run"),
        ("jest", "jest --colors", "npx jest"),
        ("jest", "jest test --colors", "npm test"),  # `test` is a filter of paths
    ],
)
def test_a_named_script_that_the_catalogue_refuses_gives_way_to_its_runner(
    unit: str, script: str, accepted: str
) -> None:
    scripts = {"test": f"npm run lint && npm run {unit}", "lint": "eslint .", unit: script}

    found = [*whole_commands(JAVASCRIPT, {"package.json": json.dumps({"scripts": scripts})}, ())]

    assert next(each for each in found if _accepts(each)) == accepted


def _accepts(command: str) -> bool:
    try:
        return bool(CATALOGUE.match(command).argv)
    except UnknownCommand:
        return False


COVERED = ("--cov=arrow --cov-fail-under=99", '["-ra", "--cov"]', "\n    -v\n    --cov=arrow", '["-v",\n  "--cov"]')


@pytest.mark.parametrize("value", COVERED)
@pytest.mark.parametrize("manifest", ["pyproject.toml", "tox.ini", "setup.cfg", "pytest.ini"])
def test_pytest_measures_no_coverage_where_it_runs_a_part_of_a_suite_that_is_covered(value: str, manifest: str) -> None:
    text = f"[pytest]\nminversion = 6\naddopts = {value}\ntestpaths = tests\n"

    assert part_options("pytest", {manifest: text}) == ("--no-cov",)
    assert part_options("ruff", {manifest: text}) == ()


@pytest.mark.parametrize(
    "text",
    ["[pytest]\naddopts = -v\n[testenv]\ncommands = pytest --cov\n", "[pytest]\naddopts = -v\nother = --cov\n", ""],
)
def test_pytest_is_given_no_option_of_a_plugin_that_is_not_configured(text: str) -> None:
    assert part_options("pytest", {"tox.ini": text}) == ()


def test_a_package_that_was_not_read_is_tested_by_the_usual_command() -> None:
    assert not [*whole_commands(JAVASCRIPT, {}, ("package.json",))]


@pytest.mark.parametrize(
    ("manifests", "files", "whole"),
    [
        ({"pyproject.toml": '[project]\nname = "shop"'}, (), None),
        ({"pyproject.toml": 'test = ["pytest"]', "tox.ini": "[testenv]"}, ("noxfile.py", "manage.py"), "pytest -q"),
        ({"setup.py": "setup()"}, ("tests/conftest.py",), "pytest -q"),
        ({"requirements.txt": "Django==5.0"}, ("manage.py",), "python manage.py test"),
        ({"requirements.txt": "Django==5.0"}, (), None),
        ({"tox.ini": "[testenv]\ncommands = python -m unittest"}, (), "python -m unittest discover -s ."),
        ({"tox.ini": "commands=python -m unittest discover -v -s tests"}, (), "python -m unittest discover -s tests"),
        ({"pyproject.toml": 'test = "python -m unittest discover ../x; rm"'}, (), "python -m unittest discover -s ."),
        ({"tox.ini": "[testenv]\ncommands = stestr run"}, (), "tox -q"),
        ({"tox.ini": "[flake8]\nmax-line-length = 100"}, (), None),
        ({"noxfile.py": "@nox.session\ndef release(s): ...\n@nox.session\ndef tests(s): ..."}, (), "nox -s tests"),
        ({"noxfile.py": "@nox.session\ndef release(s): ..."}, ("noxfile.py",), None),
    ],
)
def test_python_is_tested_by_what_its_project_configures(
    manifests: dict[str, str], files: tuple[str, ...], whole: str | None
) -> None:
    assert [*whole_commands(PYTHON, manifests, files)] == [*filter(None, [whole])]
    assert all(CATALOGUE.match(each).argv for each in runner_commands(PYTHON, manifests, files))


def test_rust_is_tested_by_nextest_where_that_is_configured() -> None:
    assert not [*whole_commands(RUST, {"Cargo.toml": ""}, ("src/lib.rs",))]
    assert [*whole_commands(RUST, {"Cargo.toml": ""}, (".config/nextest.toml",))] == ["cargo nextest run"]


@pytest.mark.parametrize(
    ("command", "test", "narrowed"),
    [
        ("python -m unittest", "tests/test_a.py::TestA::test_b", "python -m unittest tests.test_a.TestA.test_b"),
        ("python -m unittest -v", "./tests/test_a.py", "python -m unittest -v tests.test_a"),
        ("python manage.py test", "shop/tests.py::T::test_b", "python manage.py test shop.tests.T.test_b"),
        ("python -m unittest", "my-tests/test_a.py::TestA", None),  # which is no module
        ("python -m unittest", "tests/test_a.py::test_b[1-2]", None),
        ("cargo nextest run", "shop-core tests::adds", "cargo nextest run -p shop-core -E 'test(=tests::adds)'"),
        ("cargo nextest run", "tests::adds", "cargo nextest run -E 'test(=tests::adds)'"),
        ("cargo nextest run", "tests::adds)|all()", None),
    ],
)
def test_a_runner_is_aimed_at_one_test_as_it_names_tests(command: str, test: str, narrowed: str | None) -> None:
    found = CATALOGUE.narrow(CATALOGUE.match(command), (test,))
    assert (shlex.join(found.argv) if found else None) == narrowed
