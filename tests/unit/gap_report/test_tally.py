"""How much the outputs of real tools are about, and how they are shortened."""

from __future__ import annotations

import time

import pytest

from tasks.strategies.gap_report.tally import shorten, sum_up_findings, sum_up_tests, tell_tally
from tests.support.kinds.gap_report import a_gap, a_goal, drafted, planned

RUFF = "src/a.py:1:1: I001 [*] Import block\nsrc/t/test_b.py:1:8: F401 [*] `nothere` unused\nFound 2 errors.\n"
RUFF_FULL = """I001 [*] Import block is un-sorted or un-formatted
 --> src/a.py:1:1
  |
F401 [*] `nothere` imported but unused
  --> src/t/test_b.py:1:8
"""
MYPY = """src/a.py:3: error: Incompatible return value type (got "int", expected "str")  [return-value]
src/t/test_b.py:1:8: error: Cannot find implementation for module named "nothere"  [import-not-found]
src/t/test_b.py:1:8: note: See https://mypy.readthedocs.io/en/stable/running_mypy.html#missing-imports
"""
PYRIGHT = """  /home/runner/work/shop/shop/src/a.py:3:12 - error: Type "int" is not assignable to return type "str"
    "int" is not assignable to "str" (reportReturnType)
"""
PYTEST = (
    "FAILED src/a.py::test_x - AssertionError: assert 1 == '1'\nERROR src/t/test_b.py\n1 failed, 1 error in 0.30s\n"
)
ESLINT = """/w/shop/src/a.js
  1:7   error    'x' is assigned a value but never used  no-unused-vars
  9:12  warning  Unexpected var, use let or const        no-var

2 problems (1 error, 1 warning)
"""
BANDIT = """>> Issue: [B110:try_except_pass] Try, Except, Pass detected.
   Severity: Low   Confidence: High
   Location: ./src/a.py:120:8
>> Issue: [B101:assert_used] Use of assert detected.
   Location: ./src/t/test_b.py:14:4
"""
TSC = "src/a.ts(3,5): error TS2322: Type 'number' is not assignable.\nsrc/b.ts(1,1): error TS2322: Again.\n"
SARIF = "src/a.js:1:7: no-unused-vars 'x' is never used\nsrc/b.js:1:1: @typescript-eslint/no-var No.\n"


@pytest.mark.parametrize(
    ("evidence", "told"),
    [
        (RUFF, "F401 (1), I001 (1)"),
        (RUFF_FULL, "F401 (1), I001 (1)"),
        (MYPY, "import-not-found (1), return-value (1)"),
        (PYRIGHT, "reportReturnType (1)"),
        (PYTEST, "2 tests"),
        (ESLINT, "no-unused-vars (1), no-var (1)"),
        (BANDIT, "B101 (1), B110 (1)"),
        (TSC, "TS2322 (2)"),
        (SARIF, "@typescript-eslint/no-var (1), no-unused-vars (1)"),
        ("FAILED tests/test_a.py::test_x - AssertionError", "tests/test_a.py::test_x"),
        ("a.py:1:1: F401 x\n7 of 199 findings in 12 files: F401 (120), I001 (79)", "F401 (120), I001 (79)"),
        ("a.py:1:1: F401 x\n2 of 9 findings in 3 files, 4 of them in 1 that may change: F401 (4)", "F401 (4)"),
        ("FAILED a.py::x - y\n1 of 159 failed tests", "159 tests"),
        ("go: src/a.go:3:5: declared and not used", ""),
        ("", ""),
    ],
)
def test_findings_are_counted_by_their_rules_and_tests_as_tests(evidence: str, told: str) -> None:
    assert tell_tally(evidence) == told


def test_what_is_found_in_files_that_may_not_change_does_not_count() -> None:
    assert tell_tally(RUFF, ("src/t/test_b.py",)) == "I001 (1)"


@pytest.mark.parametrize("outside", [(), ("tests/test_a.py",)])
def test_failed_tests_count_though_their_file_may_not_change(outside: tuple[str, ...]) -> None:
    assert tell_tally("FAILED tests/test_a.py::test_it - x\nsrc/a.py:1: x", outside) == "tests/test_a.py::test_it"


def test_the_line_that_sums_up_names_the_most_frequent_rules() -> None:
    rules = [*["F401"] * 3, *["I001"] * 2, "UP007", "E501", "E502"]

    assert sum_up_findings({"a": rules}, {}, 8) == "8 findings in 1 file: F401 (3), I001 (2), E501 (1) and 2 more rules"
    assert sum_up_findings({}, {"a": rules, "b": ["E1"]}, 5).startswith("5 of 9 findings in 2 files: F401 (3), ")
    assert sum_up_findings({"a": ["r" * 58]}, {}, 1) == "1 finding in 1 file: 1 of 1 rules"
    assert (sum_up_tests(1, 1), sum_up_tests(9, 4)) == ("1 failed test", "4 of 9 failed tests")


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (sum_up_findings({"a": ["F401"] * 999}, {}, 400), "of 999 findings in 1 file: F401 (999)"),
        ("src/m.py:1:1: F401 last", "of 401 lines"),
    ],
)
def test_whole_lines_are_kept_and_the_last_one_says_how_many_of_all(last: str, said: str) -> None:
    lines = [f"src/m{number}.py:1:1: F401 unused" for number in range(400)]

    *kept, end = shorten("\n".join([*lines, last]), 1000).splitlines()

    assert len("\n".join([*kept, end])) <= 1000
    assert kept == lines[: len(kept)]
    assert end.removeprefix("... ") == f"{len(kept)} {said}"
    assert shorten("x" * 2000, 1000) == "x" * 1000


@pytest.mark.parametrize("blanks", [" " * 5000, "\n" * 5000, " \n\t\r\n" * 1000])
def test_evidence_that_is_blank_or_ends_in_blanks_is_planned(blanks: str) -> None:
    assert shorten(blanks, 4000) == ""
    assert shorten(f"a\nb{blanks}", 4000) == "a\nb"
    goal = a_goal(a_gap("Quality check failed: ruff", "quality", evidence=blanks), allowed=["src/a.py"])
    assert planned(goal).gap.evidence.strip() == ""


def test_the_time_that_a_line_takes_grows_with_its_length_only() -> None:
    lines = [f"  1:1 error a{' ' * 20_000}!", f"  1:1 error {'a  ' * 7000}!"]

    began = time.process_time()
    told = [tell_tally(line) for line in lines]

    assert told == ["", ""]
    assert time.process_time() - began < 1.0  # it was 7 seconds, and is some milliseconds
    assert tell_tally("  1:7  error  Two  blanks   within  no-var") == "no-var (1)"
    assert tell_tally("  1:7  error  x  no-var") == "no-var (1)"


def test_the_titles_of_the_steps_have_rules_and_counts() -> None:
    gap = a_gap("Quality check failed: ruff", "quality", evidence=RUFF)
    goal = a_goal(gap, allowed=["src/a.py", "src/t/test_b.py"])

    assert drafted(goal).steps[0].title.startswith("Change: Fix ruff failures: F401 (1), I001 (1)")
    assert planned(goal).gap.tally == "F401 (1), I001 (1)"
    assert planned(goal).actions[0].description == "Fix ruff failures"
