"""Mutants of a change: one small mistake each, in its lines alone."""

from __future__ import annotations

import ast

import pytest

from tasks.toolchain.integrity import compared
from tasks.toolchain.integrity.finding import TextChange
from tasks.toolchain.mutants import mutants_of

BEFORE = "def add(a, b):\n    return a - b\n\n\ndef old(a):\n    return a > 1\n"
AFTER = BEFORE.replace("a - b", "a + b")


def lines_of(path: str, before: str, after: str, count: int = 20) -> set[str]:
    """List the lines of mutants as they are written."""
    found = mutants_of([TextChange(path, before, after)], count)
    return {each.text.splitlines()[each.line - 1].strip() for each in found}


def test_lines_that_a_change_wrote_are_mutated_and_no_others() -> None:
    assert lines_of("calc.py", BEFORE, AFTER) == {"return a - b", "return None"}


@pytest.mark.parametrize(
    ("path", "line", "mutants"),
    [
        ("a.py", "if a <= 10:", {"if a < 10:", "if a <= 11:"}),
        ("a.py", "x = (a) + (b)", {"x = (a) - (b)"}),
        ("a.py", "x = a is not None and not b", {"x = a is None and not b", "x = a is not None or not b",
                                                 "x = a is not None and b"}),
        ("a.py", "total += 'ä' == b", {"total -= 'ä' == b", "total += 'ä' != b"}),
        ("a.py", "ok = True  # a + b == 4", {"ok = False  # a + b == 4"}),
        ("a.js", "return a === b && c < 2; // x == 1", {"return a !== b && c < 2; // x == 1",
         "return a === b || c < 2; // x == 1", "return a === b && c <= 2; // x == 1",
         "return a === b && c < 3; // x == 1"}),
        ("a.ts", "const f = (a) => a + 1;", {"const f = (a) => a - 1;", "const f = (a) => a + 2;"}),
        ("a.go", "return a + b, true", {"return a - b, true", "return a + b, false"}),
        ("src/a.rs", "fn add(a: i32) -> i32 { a * 2 }", {"fn add(a: i32) -> i32 { a / 2 }",
                                                         "fn add(a: i32) -> i32 { a * 3 }"}),
        ("README.md", "1 + 1 == 2", set()),
        ("tests/test_a.py", "assert add(1, 2) == 3", set()),
    ],
)  # fmt: skip
def test_operators_constants_and_returns_are_mutated(path: str, line: str, mutants: set[str]) -> None:
    text = f"{line}\n    pass\n" if line.endswith(":") else f"{line}\n"

    assert lines_of(path, "", text) == mutants


def test_mutants_of_several_files_are_taken_in_turns_and_are_the_same_each_time() -> None:
    changes = [TextChange(path, BEFORE, AFTER) for path in ("a.py", "b.py")]

    found = mutants_of(changes, 2)

    assert [each.path for each in found] == ["a.py", "b.py"]
    assert found == mutants_of(changes, 2)
    assert all(ast.parse(each.text) and each.text != AFTER for each in found)


def test_lines_of_a_long_change_are_those_that_there_are_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison line by line takes longer than anybody waits where lines repeat."""
    monkeypatch.setattr(compared, "SequenceMatcher", None)
    before, after = ["a", "b"] * 5000, ["b", "a"] * 5000

    assert compared.added_lines(TextChange("a.py", "\n".join(before), "\n".join([*after, "new"]))) == {10_001}


def test_few_lines_that_repeat_are_no_more_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compared, "SequenceMatcher", None)
    before, after = ["a", "b"] * 200, ["b", "a"] * 200

    assert compared.added_lines(TextChange("a.py", "\n".join(before), "\n".join([*after, "new"]))) == {401}


def test_lines_that_are_the_same_at_both_ends_are_not_compared() -> None:
    same = [f"line {number}" for number in range(20_000)]
    after = [*same[:10_000], "new", *same[10_000:]]

    assert compared.added_lines(TextChange("a.py", "\n".join(same), "\n".join(after))) == {10_001}
