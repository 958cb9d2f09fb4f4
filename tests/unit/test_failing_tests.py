"""The names of failing tests in what tools print, and whether these are all."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.controller.failing_tests import NOT_KNOWN, FailingTests, failing_tests

PYTEST = """
=================================== FAILURES ===================================
_________________________________ test_total ___________________________________
E   assert 1 == 2
=========================== short test summary info ============================
FAILED tests/test_a.py::test_total - assert 1 == 2
FAILED tests/test_a.py::test_many[a b-2] - ValueError: x - y
ERROR tests/test_b.py::TestB::test_it - RuntimeError
=================== 2 failed, 3 passed, 1 error in 0.12s ====================
"""
NAMES = ("tests/test_a.py::test_total", "tests/test_a.py::test_many[a b-2]", "tests/test_b.py::TestB::test_it")
GO = """--- FAIL: TestOne (0.00s)
    one_test.go:5: no
--- FAIL: TestTwo (0.00s)
FAIL
FAIL\texample.com/m/a\t0.003s
ok  \texample.com/m/b\t0.002s
FAIL
"""
CARGO = """running 3 tests
test math::adds ... FAILED
test math::halves ... ok

failures:
    math::adds

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""
PRINTED = Path("tests/fixtures/outputs")
JEST = (PRINTED / "jest-regression.txt").read_text()
JEST_NAMES = ("t/login.test.js > login \u203a answers 201", "t/login.test.js > login \u203a throws a TypeError")
SCRIPT = (PRINTED / "npm-test.txt").read_text()
VITEST = (PRINTED / "vitest-regression.txt").read_text()
VITEST_NAMES = ("v/cart.spec.mjs > cart > adds",)
UNITTEST = (PRINTED / "unittest-regression.txt").read_text()
UNITTEST_NAMES = ("test_broken (test_a.Login.test_broken)", "test_status (test_a.Login.test_status)")
CTEST = (PRINTED / "ctest-regression.txt").read_text()
# What node 20 prints: a suite counts by its tests, and what is marked TODO does not count.
BLOCK = (
    "{0}  ---\n{0}  location: '/w/t/a.test.mjs:2:1'\n{0}  {1}failureType: '{2}'\n{0}  error: |-\n{0}    no\n{0}  ...\n"
)
INNER, LATER = (BLOCK.format(space, "", "testCodeFailure") for space in ("    ", ""))
SUITE = BLOCK.format("", "type: 'suite'\n  ", "subtestsFailed")
NODE = (
    f"TAP version 13\n# Subtest: outer\n    # Subtest: inner\n    not ok 1 - inner\n{INNER}    1..1\n"
    f"not ok 1 - outer\n{SUITE}# Subtest: later\nnot ok 2 - later # TODO\n{LATER}1..2\n"
    "# tests 2\n# suites 1\n# fail 1\n# cancelled 0\n# todo 1\n"
)
NODE_NAMES = ("/w/t/a.test.mjs > outer > inner",)


@pytest.mark.parametrize(
    ("tool", "argv", "output", "found"),
    [
        ("pytest", "pytest", PYTEST, FailingTests(NAMES)),
        ("pytest-focused", "pytest -x", PYTEST, FailingTests(NAMES)),
        ("pytest", "pytest --color=yes", PYTEST.replace("FAILED", "\x1b[31mFAILED\x1b[0m"), FailingTests(NAMES)),
        ("pytest", "pytest -q", "FAILED a.py::test_b\n1 failed in 0.12s\n", FailingTests(("a.py::test_b",))),
        ("pytest", "pytest", PYTEST.replace("2 failed", "3 failed"), FailingTests(NAMES, complete=False)),
        ("pytest", "pytest", PYTEST + "!!!!! stopping after 1 failures !!!!!\n", FailingTests(NAMES, complete=False)),
        ("pytest", "pytest", PYTEST + "ERROR tests/test_c.py\n", FailingTests(NAMES, complete=False)),
        ("pytest", "pytest --no-summary", "2 failed in 0.12s\n", NOT_KNOWN),
        ("go-test", "go test ./...", GO, FailingTests(("example.com/m/a.TestOne", "example.com/m/a.TestTwo"))),
        ("go-test", "go test ./...", GO + "FAIL\texample.com/m/c [build failed]\n", None),
        ("go-test", "go test ./...", "panic: no\n" + GO, None),
        ("cargo-test", "cargo test --no-fail-fast", CARGO, FailingTests(("math::adds",))),
        ("cargo-test", "cargo test", CARGO, FailingTests(("math::adds",), complete=False)),
        ("pytest", "pytest", PYTEST + "FAIL Required test coverage of 90% not reached. Total coverage: 80.00%\n", None),
        ("jest", "npx jest", JEST, FailingTests(JEST_NAMES)),
        ("jest", "npx jest --bail", JEST, None),
        ("jest", "npx jest", JEST.replace("1 failed, 1 total", "1 failed, 1 of 3 total"), None),
        ("jest", "npx jest", JEST.replace("2 failed, 1 passed, 3", "3 failed, 1 passed, 4"), None),
        ("jest", "npx jest", JEST.replace("1 failed, 1 total", "2 failed, 2 total"), None),  # a suite without a name
        ("jest", "npx jest", JEST + 'Jest: "global" coverage threshold for lines (100%) not met: 50%\n', None),
        ("jest", "npx jest", (PRINTED / "jest-import.txt").read_text(), None),
        ("npm-test", "npm test", SCRIPT, FailingTests(JEST_NAMES)),
        ("npm-test", "npm test", SCRIPT.replace("> jest t/login", "> jest t/login; eslint ."), None),
        ("npm-test", "npm test", SCRIPT.replace("> jest t/login", "> jest t/login --bail=1"), None),
        ("npm-test", "npm test", SCRIPT + "\n> shop@1.0.0 posttest\n> eslint .\n", None),
        ("npm-test", "npm test --silent", SCRIPT.partition("> jest")[2], NOT_KNOWN),
        ("npm-test", "npm test", (PRINTED / "mocha-regression.txt").read_text(), NOT_KNOWN),
        ("vitest", "npx vitest run", VITEST, FailingTests(VITEST_NAMES)),
        ("vitest", "npx vitest run", VITEST.replace("| 2 skipped (3)\n   S", "(3)\n   S"), None),  # it bailed out
        ("vitest", "npx vitest run", VITEST.replace("1 failed (1)", "1 failed | 1 passed (3)"), None),
        ("vitest", "npx vitest run", VITEST.replace("   Start", "     Errors  1 error\n   Start"), None),
        ("vitest", "npx vitest run", (PRINTED / "vitest-import.txt").read_text(), None),
        ("node-test", "node --test", NODE, FailingTests(NODE_NAMES)),
        ("node-test", "node --test", NODE.replace("# fail 1", "# fail 2"), None),
        ("node-test", "node --test", NODE.replace("# cancelled 0", "# cancelled 1"), None),
        ("node-test", "node --test", NODE.replace("subtestsFailed", "hookFailed"), None),
        ("node-test", "node --test", NODE.replace("    no\n", "    no\n      exitCode: 1\n"), None),
        ("unittest", "python -m unittest", UNITTEST, FailingTests(UNITTEST_NAMES)),
        ("unittest", "python -m unittest -f", UNITTEST, None),
        ("unittest", "python -m unittest", UNITTEST.replace("errors=1", "errors=1, unexpected successes=1"), None),
        ("unittest", "python -m unittest", (PRINTED / "unittest-import.txt").read_text(), None),
        ("ctest", "ctest", CTEST, FailingTests(("login",))),
        ("ctest", "ctest", CTEST.replace("login (Failed)", "login (Failed)   fast slow"), FailingTests(("login",))),
        ("ctest", "ctest", CTEST.replace("login (Failed)", "login (Not Run)"), None),
        ("ctest", "ctest", CTEST.replace("1 tests failed", "2 tests failed"), None),
        ("ctest", "ctest --stop-on-failure", CTEST, None),
        ("mypy", "mypy .", "a.py:1: error: no  [misc]\n", NOT_KNOWN),
    ],
)
def test_the_names_are_read_and_counted(tool: str, argv: str, output: str, found: FailingTests | None) -> None:
    told = failing_tests(tool, argv.split(), output, whole=True)

    assert told == found or (found is None and not told.complete)


def test_what_was_cut_is_not_whole() -> None:
    assert failing_tests("pytest", ["pytest"], PYTEST, whole=False) == NOT_KNOWN


def test_several_tools_are_joined() -> None:
    joined = FailingTests(("a", "b")).joined(FailingTests(("b", "c"), complete=False))

    assert joined == FailingTests(("a", "b", "c"), complete=False)
