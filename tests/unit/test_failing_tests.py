"""The names of failing tests in what tools print, and whether these are all."""

from __future__ import annotations

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
