"""Which files are put back before the tests of the base judge: those of tests, and no sources beside them."""

from __future__ import annotations

import pytest

from tasks.toolchain.files import tests_in as rule_of

TREE = ("pyproject.toml", "src/a.py", "shop/test/client.py", "shop/unit/test/test_a.py", "web/package.json")


@pytest.mark.parametrize(
    "path",
    [
        *("tests/expected.txt", "src/app/tests/helper.py", "test_a.py", "a_test.go", "conftest.py", "pytest.ini"),
        *("test/helper.js", "web/test/calc.js", "shop/unit/test/data.json", "web/__tests__/a.js"),
        *("src/__snapshots__/a.test.js.snap", "src/__mocks__/fs.js", "src/page.snap", "cli/help.approved.txt"),
    ],
)
def test_tests_what_lies_beside_them_and_configuration_are_of_tests(path: str) -> None:
    assert rule_of(TREE)(path)


@pytest.mark.parametrize("path", ["shop/test/client.py", "specs/openapi.yaml", "shop/spec/model.rb", "src/a.py"])
def test_sources_in_folders_that_are_called_like_those_of_tests_are_not(path: str) -> None:
    assert not rule_of(TREE)(path)
