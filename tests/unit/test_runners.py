"""Which command runs a project's tests, by what its manifests configure."""

from __future__ import annotations

import shlex

import pytest

from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.languages import LANGUAGES
from tasks.toolchain.runners import runner_commands, whole_command

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

    assert whole_command(JAVASCRIPT, manifests, others) == whole
    assert [*runner_commands(JAVASCRIPT, manifests, others)] == focused
    assert all(CATALOGUE.match(each).argv for each in (*focused, *filter(None, [whole])))


def test_a_package_that_was_not_read_is_tested_by_the_usual_command() -> None:
    assert whole_command(JAVASCRIPT, {}, ("package.json",)) is None


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
    assert whole_command(PYTHON, manifests, files) == whole
    assert all(CATALOGUE.match(each).argv for each in runner_commands(PYTHON, manifests, files))


def test_rust_is_tested_by_nextest_where_that_is_configured() -> None:
    assert whole_command(RUST, {"Cargo.toml": ""}, ("src/lib.rs",)) is None
    assert whole_command(RUST, {"Cargo.toml": ""}, (".config/nextest.toml",)) == "cargo nextest run"


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
