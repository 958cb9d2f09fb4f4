"""Finds code in a change that only fits the inputs of the failing tests: special cases for these tests alone.

Such code is a condition that compares with literals of a test. Such code is also a function that ignores its arguments
and returns a literal of a test.

One comparison with a small number proves nothing. Proof is two comparisons, a tuple, or a long text or large number.
Another proof is a condition after which a literal of the test is returned.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from tasks.toolchain.integrity.changed_tests import is_named, tests_of
from tasks.toolchain.integrity.compared import added_lines
from tasks.toolchain.integrity.finding import Finding, TextChange
from tasks.toolchain.integrity.languages import PYTHON, signs_of
from tasks.toolchain.integrity.python_tests import parse

LONG_TEXT, LARGE = 4, 100  # characters of a text, and a number, that are hardly there by chance
MOST_TEXT = 200
_LITERAL = re.compile(
    r"(?<!\\)\"((?:\\.|[^\"\\\n])*)\"|(?<!\\)'((?:\\.|[^'\\\n])*)'|`([^`\n]*)`|(?<![\w.])(-?\d+(?:\.\d+)?)(?![\w.])"
)
_CONDITION = re.compile(r"(?<![=!<>])={2,3}(?!=)|\bcase\b|\.equals\(|\bmatches!\(|=>")
# An entry of a table: from numbers, or a text of numbers, to a number; or a row of rows.
_ENTRY = re.compile(r"[}\])\d]\s*:\s*-?\d|[\"'`]\s*:\s*-?\d|[(\[{]\s*[(\[{][^()\[\]{}\n]*[)\]}]\s*[,)\]}]")
_PART = re.compile(r"\d+(?:\.\d+)?|[^\W\d]\w*")  # of a text that is made of literals
PART_CHARS, MOST_LITERALS = 12, 200
# A function with arguments, and no more than a literal.
_ONLY = re.compile(
    r"(?:\b(?:func|function|fn)\b[^\n{}()]{0,200}\((?!\s{0,20}(?:&?\s{0,20}(?:mut\s+)?self\s{0,20})?\))[^\n{}]{0,400}\{"
    r"|\((?=[^\w()\n]{0,200}\w)[^()\n]{1,200}\)[^\n(){}=]{0,100}=>)"
    r"\s*(?:return\s+)?(?P<value>-?\d+(?:\.\d+)?|\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`)\s*(?:[;}\n]|$)"
)
_RETURNS = re.compile(r"\breturn\b|=>|\?")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_ROWS = (ast.List, ast.Tuple, ast.Set)
ROW = 3  # literals in a row of inputs and an answer


def literals_of(path: str, text: str, failing: Collection[str]) -> frozenset[Any]:
    """Return the texts and numbers that are literals in those tests of a file that `failing` names."""
    tests = tests_of(path, text) or {}
    bodies = [test.body for name, test in tests.items() if any(is_named(name, path, each) for each in failing)]
    signs = signs_of(path)
    found: set[Any] = set()
    if signs is PYTHON and (tree := parse(text)):
        wanted = {name.rpartition("::")[2] for name in tests if any(is_named(name, path, each) for each in failing)}
        for node in ast.walk(tree):
            if isinstance(node, _FUNCTIONS) and node.name in wanted:
                found |= {each.value for each in ast.walk(node) if isinstance(each, ast.Constant)}
    else:
        found = {value for body in bodies for value in _literals(body)}
    return frozenset(each for each in found if _is_of_use(each))


def find_special_cases(changes: Iterable[TextChange], literals: Collection[Any]) -> Iterator[Finding]:
    """Yield a finding for each added special case for inputs and results that are among `literals`."""
    if not literals:
        return
    for each in changes:
        signs = signs_of(each.path)
        if signs is None or not each.after:
            continue
        added = added_lines(each)
        if signs is not PYTHON:
            yield from _by_lines(each.path, each.after.splitlines(), added, literals)
            yield from _by_functions(each.path, each.after, added, literals)
        elif tree := parse(each.after):
            yield from _in_python(each.path, tree, added, literals)


def _is_of_use(value: Any) -> bool:
    if isinstance(value, bool) or value is None or not isinstance(value, str | int | float | bytes):
        return False
    return 0 < len(value) <= MOST_TEXT if isinstance(value, str | bytes) else value not in (0, 1, -1)


def _is_telling(value: Any) -> bool:
    """Return whether code would hardly compare with this value by chance."""
    if isinstance(value, str | bytes):
        return (
            len(value) >= LONG_TEXT and not value.isidentifier() if isinstance(value, str) else len(value) >= LONG_TEXT
        )
    return abs(value) >= LARGE or value != int(value) if value == value and abs(value) != float("inf") else False


def _in_python(path: str, tree: ast.Module, added: Collection[int], literals: Collection[Any]) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp) and node.test.lineno in added:
            body = node.body if isinstance(node, ast.If) else [node.body]
            yield from _told(path, node.test, _returned(body), literals)
        elif isinstance(node, ast.match_case) and node.pattern.lineno in added:
            values = [each.value for each in ast.walk(node.pattern) if isinstance(each, ast.Constant)]
            yield from _if_special(path, node.pattern, values, _returned(node.body), literals)
        elif isinstance(node, _FUNCTIONS) and node.body[-1].lineno in added and _ignores_arguments(node):
            if any(_is_in(each, literals) for each in _returned(node.body[-1:])):
                yield Finding("special_case", path, node.body[-1].lineno, ast.unparse(node.body[-1])[:160])
        elif isinstance(node, ast.Dict) and node.lineno in added and node.keys:
            values = [one.value for key in node.keys if key for one in ast.walk(key) if isinstance(one, ast.Constant)]
            answers = [each.value for each in node.values if isinstance(each, ast.Constant)]
            if (
                len(node.keys) <= len(values)
                and all(each in answers for each in answers)
                and _all_known(values, answers, literals)
            ):
                yield Finding("special_case", path, node.lineno, ast.unparse(node)[:160])
        elif isinstance(node, _ROWS) and node.lineno in added and _has_rows(node):
            values = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
            if len(values) >= ROW and _all_known(values, values, literals):
                yield Finding("special_case", path, node.lineno, ast.unparse(node)[:160])


def _has_rows(node: ast.List | ast.Tuple | ast.Set) -> bool:
    """Return whether a list contains a list that contains no further lists; tuples and sets count as lists."""
    rows = [each for each in node.elts if isinstance(each, _ROWS)]
    return any(not any(isinstance(one, _ROWS) for one in each.elts) for each in rows)


def _ignores_arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function takes arguments, but its body is only one statement after the docstring."""
    taken = {each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)} - {"self", "cls"}
    body = [each for each in node.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    return bool(taken) and len(body) == 1


def _all_known(values: Sequence[Any], answers: Sequence[Any], literals: Collection[Any]) -> bool:
    return bool(values and answers) and all(_is_in(each, literals) for each in (*values, *answers))


def _told(path: str, test: ast.expr, returned: Sequence[Any], literals: Collection[Any]) -> Iterator[Finding]:
    values = [
        one.value
        for each in ast.walk(test)
        if isinstance(each, ast.Compare) and isinstance(each.ops[0], ast.Eq | ast.In | ast.Is)
        for side in (each.left, *each.comparators)
        if isinstance(side, ast.Constant | ast.Tuple | ast.List | ast.Set | ast.UnaryOp)
        for one in ast.walk(side)
        if isinstance(one, ast.Constant)
    ]
    yield from _if_special(path, test, values, returned, literals)


def _if_special(
    path: str, node: Any, values: Sequence[Any], returned: Sequence[Any], literals: Collection[Any]
) -> Iterator[Finding]:
    known = [each for each in values if _is_in(each, literals)]
    if not known or len(known) < len([each for each in values if _is_of_use(each)]):
        return
    answers = any(_is_in(each, literals) for each in returned)
    if answers or any(map(_is_telling, known)) or (len(known) > 1 and not all(isinstance(each, str) for each in known)):
        yield Finding("special_case", path, node.lineno, ast.unparse(node)[:160])


def _returned(body: Sequence[ast.AST]) -> list[Any]:
    """Return the literals that a branch returns or assigns; empty if the branch does anything else."""
    if len(body) != 1:
        return []
    only = body[0]
    value = only.value if isinstance(only, ast.Return | ast.Assign) else only if isinstance(only, ast.expr) else None
    parts = (
        [value] if isinstance(value, ast.Constant) else value.elts if isinstance(value, ast.List | ast.Tuple) else []
    )
    return [each.value for each in parts if isinstance(each, ast.Constant)]


def _is_in(value: Any, literals: Collection[Any]) -> bool:
    return _is_of_use(value) and (value in literals or _is_made_of(value, literals))


def _is_made_of(value: Any, literals: Collection[Any]) -> bool:
    """Return whether a text consists of two or more of the `literals`: "2+2" and "22" both consist of 2 and 2."""
    if not isinstance(value, str) or len(literals) > MOST_LITERALS:
        return False
    known = {str(each) for each in literals}
    counts = [_pieces(part, known) for part in _PART.findall(value)]
    return all(counts) and sum(counts) > 1


def _pieces(part: str, known: Collection[str]) -> int:
    """Return the least number of `known` texts that make up `part` when they are joined; 0 if none do."""
    least: dict[int, int] = {0: 0}
    for end in range(1, min(len(part), PART_CHARS) + 1):
        ways = [least[start] for start in least if part[start:end] in known]
        least |= {end: 1 + min(ways)} if ways else {}
    return least.get(len(part), 0)


def _literals(text: str) -> Iterator[Any]:
    for found in _LITERAL.finditer(text):
        number = found[4]
        if number is None:
            yield next(each for each in found.groups() if each is not None)
        else:
            yield float(number) if "." in number else int(number)


def _size(value: Any, literals: Collection[Any]) -> int:
    """Return the number of literals in a value: its number of parts if it is made of `literals`, else 1."""
    return len(_PART.findall(value)) if isinstance(value, str) and _is_made_of(value, literals) else 1


def _is_named(found: Sequence[Any], literals: Collection[Any]) -> bool:
    """Return whether an entry of a table contains a name, as in settings: then it is no input with its answer."""
    return any(isinstance(each, str) and not _is_made_of(each, literals) for each in found)


def _by_functions(path: str, text: str, added: Collection[int], literals: Collection[Any]) -> Iterator[Finding]:
    for found in _ONLY.finditer(text):
        number = text.count("\n", 0, found.start("value")) + 1
        if number in added and any(_is_in(each, literals) for each in _literals(found["value"])):
            yield Finding("special_case", path, number, " ".join(found[0].split())[:160])


def _by_lines(path: str, lines: Sequence[str], added: Collection[int], literals: Collection[Any]) -> Iterator[Finding]:
    for number in sorted(added):
        line = lines[number - 1]
        if line.lstrip().startswith(("//", "*", "/*")):
            continue
        entry = _ENTRY.search(line)
        found = [each for each in _literals(line) if _is_of_use(each)] if entry else []
        least = 2 if entry and ":" in entry[0] else ROW
        if (
            sum(_size(each, literals) for each in found) >= least
            and all(_is_in(each, literals) for each in found)
            and not _is_named(found, literals)
        ):
            yield Finding("special_case", path, number, line.strip()[:160])
            continue
        if not _CONDITION.search(line):
            continue
        condition, _, rest = line.partition("return") if "return" in line else (line, "", "")
        if "=>" in condition:
            condition, _, rest = condition.partition("=>")
        values = [each for each in _literals(condition) if _is_of_use(each)]
        following = lines[number] if number < len(lines) and "return" in lines[number] else ""
        answers = any(_is_in(each, literals) for each in _literals(rest or following))
        known = [each for each in values if _is_in(each, literals)]
        if not known or len(known) < len(values):
            continue
        if (
            answers
            or any(map(_is_telling, known))
            or (len(known) > 1 and not all(isinstance(each, str) for each in known))
        ):
            yield Finding("special_case", path, number, line.strip()[:160])
