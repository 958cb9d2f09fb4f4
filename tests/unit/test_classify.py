"""The classifier against what the tools really print (tests/fixtures/outputs/README.md), and what must not fool it."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.base import FailureCategory as Category
from tasks.toolchain.classify import (
    FAMILY,
    FROM_OUTSIDE,
    HALTS_AT_ONCE,
    MAX_TRACE,
    OWN,
    PROOF,
    SCOPE,
    Diagnosis,
    Family,
    category_of,
    classify,
    signature,
)

OUTPUTS = Path(__file__).parents[1] / "fixtures" / "outputs"

EXPECTED = {
    Category.TEST_REGRESSION: """
        pytest-regression pytest-quiet pytest-no-summary pytest-xdist pytest-typeerror-in-test pytest-import-inside-test
        pytest-collect-nameerror pytest-fixture-error pytest-timeout-and-regression unittest-regression python-assertion
        jest-regression npm-test vitest-regression mocha-regression node-test
        bun-regression deno-regression playwright-regression
        go-test-regression go-test-quiet go-test-panic cargo-test-regression ctest-regression ctest-crash
        gtest-regression
    """,
    Category.TEST_TIMEOUT: """
        pytest-timeout-signal pytest-timeout-thread jest-timeout vitest-timeout mocha-timeout go-test-timeout
        ctest-timeout
    """,
    Category.FLAKY_TEST: "pytest-flaky jest-retried",
    Category.COMPILATION_ERROR: """
        pytest-collect-syntax unittest-syntax py-compile-syntax py-compile-indent mypy-syntax pyright-syntax ruff-syntax
        ruff-syntax-concise flake8-syntax jest-syntax eslint-syntax tsc-syntax node-syntax
        go-build-syntax go-build-unused go-vet-syntax go-test-syntax cargo-build-syntax cargo-build-borrow
        gcc-undeclared gcc-syntax gcc-link gcc-library gxx-types cmake-build-compile cmake-build-link
        cmake-configure-command make-missing
    """,
    Category.TYPE_ERROR: """
        mypy-types mypy-mixed pyright-types tsc-types tsc-pretty python-typeerror node-typeerror
        go-build-types go-build-undefined go-vet-types cargo-build-types cargo-test-types
    """,
    Category.LINT_ERROR: """
        ruff-lint ruff-concise ruff-format black-format flake8-lint pylint-lint eslint-lint prettier-format go-vet-lint
        cargo-clippy-lint cargo-fmt gcc-werror
    """,
    Category.IMPORT_ERROR: """
        pytest-collect-import pytest-conftest-import unittest-import python-import python-import-name python-no-module
        mypy-import pyright-import pip-no-match pip-conflict uv-conflict jest-import vitest-import tsc-import
        deno-import
        node-import node-import-esm npm-conflict go-build-import go-build-import-std go-test-import cargo-build-import
        cargo-build-dependency gcc-include gcc-no-library cmake-configure-package
    """,
    Category.UNKNOWN: """
        pytest-passed pytest-missing-path pytest-unknown-option python-valueerror mypy-passed pyright-passed ruff-passed
        jest-passed eslint-passed tsc-passed npm-missing-script go-test-passed go-build-passed cargo-test-passed
        cargo-build-warnings gcc-warning cmake-build-passed ctest-passed gofmt-format
    """,
}
CASES = [(name, category) for category, names in EXPECTED.items() for name in names.split()]

# The contract that prints a fixture, where it is not the one its name begins with.
TOOLS = {
    "go-test": "go-test",
    "go-vet": "go-vet",
    "go-build": "go-build",
    "cargo": "cargo-test",
    "npm": "npm-test",
    "mocha": "npm-test",
    "node": "npm-test",
    "python": "py-compile",
    "cmake": "cmake-build",
    "gcc": "cmake-build",
    "gxx": "cmake-build",
    "make": "cmake-build",
    "gtest": "ctest",
    "pylint": "flake8",
    "pip": "pytest",
    "uv": "pytest",
}


def output(name: str) -> str:
    return (OUTPUTS / f"{name}.txt").read_text("utf-8")


def tool_of(name: str) -> str:
    return next((tool for prefix, tool in TOOLS.items() if name.startswith(prefix)), name.split("-")[0])


def test_every_fixture_is_classified_by_a_row_here() -> None:
    assert {path.stem for path in OUTPUTS.glob("*.txt")} == {name for name, _ in CASES}


@pytest.mark.parametrize(("name", "category"), CASES)
def test_an_output_is_classified_without_knowing_the_tool(name: str, category: Category) -> None:
    assert classify(output(name)).category is category


@pytest.mark.parametrize(("name", "category"), [case for case in CASES if case[0] != "gofmt-format"])
def test_an_output_is_classified_alike_when_the_tool_is_known(name: str, category: Category) -> None:
    assert classify(output(name), tool=tool_of(name)).category is category


def test_a_list_of_files_is_a_lint_error_only_from_the_tool_that_prints_it() -> None:
    assert classify(output("gofmt-format"), tool="gofmt").category is Category.LINT_ERROR


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (
            "pytest-regression",
            Diagnosis(
                Category.TEST_REGRESSION,
                failing_tests=(
                    "tests/test_auth.py::test_login",
                    "tests/test_auth.py::TestTotal::test_sum[two items]",
                    "tests/test_auth.py::TestTotal::test_sum[one]",
                ),
                files=("tests/test_auth.py", "shop.py"),
                line=5,
                codes=("TypeError",),
            ),
        ),
        (
            "mypy-types",
            Diagnosis(
                Category.TYPE_ERROR,
                files=("a.py",),
                line=3,
                codes=("return-value", "arg-type", "attr-defined"),
            ),
        ),
        (
            "pyright-types",
            Diagnosis(
                Category.TYPE_ERROR,
                files=("/tmp/planner-fixtures/types/a.py",),
                line=3,
                codes=("reportReturnType", "reportArgumentType", "reportAttributeAccessIssue"),
            ),
        ),
        ("ruff-lint", Diagnosis(Category.LINT_ERROR, files=("a.py",), line=1, codes=("I001", "F401", "B018"))),
        (
            "eslint-lint",
            Diagnosis(
                Category.LINT_ERROR,
                files=("/tmp/planner-fixtures/js/src/lint.js",),
                line=1,
                codes=("no-unused-vars", "no-undef", "no-debugger"),
            ),
        ),
        ("tsc-types", Diagnosis(Category.TYPE_ERROR, files=("src/t.ts",), line=1, codes=("TS2322", "TS2339"))),
        (
            "jest-regression",
            Diagnosis(
                Category.TEST_REGRESSION,
                failing_tests=("login \u203a answers 201", "login \u203a throws a TypeError"),
                files=("t/login.test.js",),
                line=3,
            ),
        ),
        (
            "go-test-regression",
            Diagnosis(
                Category.TEST_REGRESSION,
                failing_tests=("TestStatus", "TestTable", "TestTable/one_case"),
                files=("shop_test.go",),
                line=11,
            ),
        ),
        (
            "cargo-test-regression",
            Diagnosis(
                Category.TEST_REGRESSION,
                failing_tests=("tests::login_answers", "tests::unwraps"),
                files=("src/lib.rs",),
                line=5,
            ),
        ),
        ("cargo-build-types", Diagnosis(Category.TYPE_ERROR, files=("src/lib.rs",), line=1, codes=("E0308",))),
        ("gcc-werror", Diagnosis(Category.LINT_ERROR, files=("warn.c",), line=1, codes=("unused-variable",))),
        ("ctest-regression", Diagnosis(Category.TEST_REGRESSION, failing_tests=("login",))),
        (
            "gtest-regression",
            Diagnosis(Category.TEST_REGRESSION, failing_tests=("Cart.Adds",), files=("g.cpp",), line=3),
        ),
        (
            "python-typeerror",
            Diagnosis(
                Category.TYPE_ERROR,
                files=("/tmp/planner-fixtures/scripts/crash.py",),
                line=2,
                codes=("TypeError",),
            ),
        ),
    ],
)
def test_what_the_output_names_is_extracted(name: str, found: Diagnosis) -> None:
    answer = classify(output(name))

    assert (answer.category, answer.failing_tests, answer.files, answer.line, answer.codes) == (
        found.category,
        found.failing_tests,
        found.files,
        found.line,
        found.codes,
    )


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("===== 12 passed, 0 failed in 0.10s =====", Category.UNKNOWN),
        ("test result: ok. 3 passed; 0 failed; 0 ignored", Category.UNKNOWN),
        ("100% tests passed, 0 tests failed out of 9", Category.UNKNOWN),
        ("a scruffy little test failed to impress anyone", Category.UNKNOWN),
        ("tests/test_typeerror.py::test_typeerror PASSED [100%]", Category.UNKNOWN),
        ("installed mypy, ruff, pylint and flake8", Category.UNKNOWN),
        ("the read timeout is 30 s", Category.UNKNOWN),
        ("merge conflict: hunk failed", Category.UNKNOWN),
        ("HTTP404 not found, SHA256 differs", Category.UNKNOWN),
        ("", Category.UNKNOWN),
        ("FAILED tests/test_a.py::test_typeerror - TypeError: bad operand", Category.TEST_REGRESSION),
        ("FAILED tests/test_a.py - TypeError", Category.TEST_REGRESSION),
        ("FAILED tests/test_a.py  - TypeError: bad operand", Category.TEST_REGRESSION),
        ("FAILED tests/test_a.py::test_x - ImportError: no", Category.TEST_REGRESSION),
        ("E   assert 1 == 2", Category.TEST_REGRESSION),
        ("AssertionError: Expected 201, got 500", Category.TEST_REGRESSION),
        ("1 failed, 2 passed in 0.12s", Category.TEST_REGRESSION),
        ("2026-11-21T20:30:00.1234567Z src/a.py:3: error: Bad  [arg-type]", Category.TYPE_ERROR),
        ("\x1b[31msrc/a.py:3:1: F401 'os' imported but unused\x1b[0m\r\n", Category.LINT_ERROR),
        ("SANDBOX_VIOLATION: wrote outside the workspace", Category.SANDBOX_VIOLATION),
        ("BUDGET_EXCEEDED", Category.BUDGET_EXCEEDED),
        ("the log says SANDBOX_VIOLATION: somewhere", Category.UNKNOWN),
    ],
)
def test_words_count_only_where_a_tool_puts_them(text: str, category: Category) -> None:
    assert classify(text).category is category


def test_a_printed_halt_word_does_not_outrank_the_tool_that_printed_it() -> None:
    text = "SANDBOX_VIOLATION: printed by a test\n" + output("pytest-regression")

    assert classify(text).category is Category.TEST_REGRESSION
    assert classify("SANDBOX_VIOLATION: printed", tool="pytest").category is Category.UNKNOWN


def test_a_run_that_was_stopped_is_a_timeout_and_keeps_what_it_showed() -> None:
    found = classify(output("pytest-regression"), tool="pytest", timed_out=True)

    assert found.category is Category.TEST_TIMEOUT
    assert found.failing_tests


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("timed out", Category.TEST_TIMEOUT),
        ("Command 'pytest -q' timed out after 60 seconds", Category.TEST_TIMEOUT),
        ("Error: Process completed with exit code 124.", Category.TEST_TIMEOUT),
        ("the tests exited with 124", Category.TEST_TIMEOUT),
        ("3 passed, 0 timed out", Category.UNKNOWN),
        ("exit code 1240", Category.UNKNOWN),
        ("E   AssertionError: it timed out", Category.TEST_REGRESSION),
        ("a.py:1: error: x  [attr]\nmypy timed out", Category.TYPE_ERROR),
        (
            "ImportError while importing test module '/w/tests/test_a.py'.\nE   ImportError: no name 'x' in 'y'",
            Category.IMPORT_ERROR,
        ),
        ("ERROR tests/test_a.py - ImportError: no name", Category.IMPORT_ERROR),
        ("ERROR tests/test_a.py - ModuleNotFoundError: No module", Category.IMPORT_ERROR),
        ("ERROR tests/test_a.py::test_x - ImportError: no", Category.TEST_REGRESSION),
    ],
)
def test_what_timed_out_or_could_not_be_collected(text: str, category: Category) -> None:
    assert classify(text).category is category
    assert category_of(None, text) is category


@pytest.mark.parametrize(
    ("word", "category"),
    [(None, Category.TEST_TIMEOUT), ("UNKNOWN", Category.TEST_TIMEOUT), ("LINT_ERROR", Category.LINT_ERROR)],
)
def test_a_tool_that_was_stopped_is_a_timeout_unless_the_controller_says_better(
    word: str | None, category: Category
) -> None:
    assert category_of(word, output("pytest-regression"), stopped=True) is category


@pytest.mark.parametrize(
    ("name", "beginning", "end"),
    [
        ("pytest-regression", "E   assert 500 == 201", ""),
        ("python-import", "Traceback (most recent call last):", "No module named 'yaml_that_is_missing'"),
        ("unittest-syntax", "Traceback (most recent call last):", "SyntaxError: invalid syntax"),
        ("cargo-build-types", "error[E0308]: mismatched types", ""),
        ("jest-import", "Cannot find module 'not-there'", ""),
        ("go-test-regression", "--- FAIL: TestStatus", ""),
        ("pytest-missing-path", "=====", "ERROR: file or directory not found: tests/nowhere.py"),
    ],
)
def test_the_trace_is_the_telling_part(name: str, beginning: str, end: str) -> None:
    trace = classify(output(name)).trace

    assert trace.startswith(beginning)
    assert trace.endswith(end)
    assert len(trace) <= MAX_TRACE


def test_head_and_tail_of_a_long_text_are_read() -> None:
    filler = "x = 1\n" * 100_000

    assert classify(filler + output("mypy-types")).category is Category.TYPE_ERROR
    assert classify(output("mypy-types") + filler).category is Category.TYPE_ERROR


@pytest.mark.parametrize("word", sorted(FROM_OUTSIDE))
def test_a_controllers_own_category_is_taken_in_any_case(word: Category) -> None:
    assert category_of(word.lower(), "E   assert False") is word
    assert category_of(f" {word.title().replace('_', ' ')} ", "") is word


@pytest.mark.parametrize(
    ("word", "category"),
    [
        ("timeout", Category.TEST_TIMEOUT),
        ("MISSING_DEPENDENCY", Category.IMPORT_ERROR),
        ("syntax-error", Category.COMPILATION_ERROR),
        ("LEASE_EXPIRED", Category.TEST_REGRESSION),
        ("RUNTIME_ERROR", Category.TEST_REGRESSION),
        ("ßſ\x00\ud800", Category.TEST_REGRESSION),
        ("", Category.TEST_REGRESSION),
        (None, Category.TEST_REGRESSION),
    ],
)
def test_another_word_is_read_or_else_the_text_decides(word: str | None, category: Category) -> None:
    assert category_of(word, "E   assert False") is category


def test_neither_word_nor_text_is_unknown() -> None:
    assert category_of("LEASE_EXPIRED", "no idea") is Category.UNKNOWN


def test_the_taxonomy_covers_every_category_but_those_outside_the_tree() -> None:
    assert set(Category) - set(FAMILY) == {Category.UNKNOWN, *OWN, *PROOF, *SCOPE}
    assert {FAMILY[category] for category in HALTS_AT_ONCE} == {Family.SANDBOX, Family.BUDGET}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("assert 500 == 201", "assert 404 == 201"),
        ('File "/tmp/pytest-1/a/test_a.py", line 3', 'File "/home/ci/work/test_a.py", line 99'),
        ("<Cart object at 0x7fa9df9085d0> is empty", "<Cart object at 0x55aa> is empty"),
        ("=== 1 failed in 0.04s ===", "======= 1 failed in 12.5s ======="),
        ("slow: 12 ms", "slow:  3 s"),
        ("job 3f2504e0-4f89-41d3-9a0c-0305e82c3301 died", "job 9f1c2d4ab0 died"),
        (r"C:\work\7\a.py is bad", "src/b/a.py is bad"),
    ],
)
def test_the_same_failure_has_the_same_signature(one: str, other: str) -> None:
    assert signature(Category.TEST_REGRESSION, ("t",), one) == signature(Category.TEST_REGRESSION, ("t",), other) != ""


def test_the_order_of_the_failing_tests_does_not_matter() -> None:
    assert signature(Category.UNKNOWN, ("a", "b", "a"), "") == signature(Category.UNKNOWN, ("b", "a"), "")


@pytest.mark.parametrize(
    ("category", "tests", "trace"),
    [
        (Category.TYPE_ERROR, ("t",), "KeyError: 'user'"),
        (Category.TEST_REGRESSION, ("u",), "KeyError: 'user'"),
        (Category.TEST_REGRESSION, ("t",), "KeyError: 'name'"),
        (Category.TEST_REGRESSION, (), "t KeyError: 'user'"),
    ],
)
def test_another_failure_has_another_signature(category: Category, tests: tuple[str, ...], trace: str) -> None:
    assert signature(category, tests, trace) != signature(Category.TEST_REGRESSION, ("t",), "KeyError: 'user'")


def test_no_evidence_and_a_dead_lease_have_no_signature() -> None:
    assert signature(Category.UNKNOWN, (), " \n") == ""
    assert signature(Category.LEASE_EXPIRED, ("t",), "trace") == ""
