"""Small mistakes in changed lines, which tests of these lines should notice.

Python is read from its syntax tree, other languages by a table of words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import zip_longest
from types import MappingProxyType
from typing import NamedTuple

from tasks.toolchain.files import Role, role_of
from tasks.toolchain.integrity.compared import added_lines
from tasks.toolchain.integrity.finding import TextChange
from tasks.toolchain.integrity.languages import PYTHON, signs_of
from tasks.toolchain.integrity.marked_tests import without_texts

_COMPARISONS: Mapping[type[ast.cmpop], tuple[str, str]] = MappingProxyType(
    {
        ast.Eq: ("==", "!="),
        ast.NotEq: ("!=", "=="),
        ast.Lt: ("<", "<="),
        ast.LtE: ("<=", "<"),
        ast.Gt: (">", ">="),
        ast.GtE: (">=", ">"),
        ast.Is: ("is", "is not"),
        ast.IsNot: ("is not", "is"),
        ast.In: ("in", "not in"),
        ast.NotIn: ("not in", "in"),
    }
)
_OPERATORS: Mapping[type[ast.operator], tuple[str, str]] = MappingProxyType(
    {
        ast.Add: ("+", "-"),
        ast.Sub: ("-", "+"),
        ast.Mult: ("*", "/"),
        ast.Div: ("/", "*"),
        ast.FloorDiv: ("//", "*"),
        ast.Mod: ("%", "*"),
        ast.Pow: ("**", "*"),
        ast.BitAnd: ("&", "|"),
        ast.BitOr: ("|", "&"),
        ast.LShift: ("<<", ">>"),
        ast.RShift: (">>", "<<"),
    }
)
_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "===": "!==",
        "!==": "===",
        "==": "!=",
        "!=": "==",
        "<=": "<",
        ">=": ">",
        "&&": "||",
        "||": "&&",
        " + ": " - ",
        " - ": " + ",
        " * ": " / ",
        " / ": " * ",
        " % ": " * ",
        " < ": " <= ",
        " > ": " >= ",
        "+=": "-=",
        "-=": "+=",
        "true": "false",
        "false": "true",
    }
)
_WORD = re.compile(
    r"[!=]==?(?!=)|(?<![<>=-])[<>]=|&&|\|\||(?<= )[-+*/%<>](?= )|[-+]=|\b(?:true|false)\b|(?<![\w.])\d+(?![\w.])"
)


class Mutant(NamedTuple):
    """A file's `text` with one small mistake in its `line`; `what` quotes the code before and after."""

    path: str
    line: int
    what: str
    text: str


class _Edit(NamedTuple):
    line: int  # from 1
    start: int  # columns, in bytes of UTF-8
    end: int
    by: str


def mutants_of(changes: Sequence[TextChange], count: int) -> list[Mutant]:
    """Return up to `count` mutants of the changed lines of sources, from each file in turn; deterministic."""
    found = [sorted(_mutants(each), key=_rank) for each in changes if each.after and role_of(each.path) is Role.SOURCE]
    turns = (one for turn in zip_longest(*found) for one in turn if one)
    return [each for each, _ in zip(turns, range(count), strict=False)]


def _rank(each: Mutant) -> bytes:
    return blake2b(f"{each.path}\0{each.line}\0{each.what}".encode(errors="replace"), digest_size=8).digest()


def _mutants(change: TextChange) -> Iterator[Mutant]:
    signs, text = signs_of(change.path), change.after or ""
    if signs is None:
        return
    lines, changed = text.split("\n"), added_lines(change)
    if signs is PYTHON:
        edits = _in_python(text, changed)
    else:
        bare = without_texts(text, signs.tests.texts) if signs.tests else text
        edits = _by_words(bare.split("\n"), changed)
    for edit in edits:
        raw = lines[edit.line - 1].encode(errors="surrogateescape")
        new = (raw[: edit.start] + edit.by.encode() + raw[edit.end :]).decode(errors="surrogateescape")
        mutated = "\n".join([*lines[: edit.line - 1], new, *lines[edit.line :]])
        if signs is not PYTHON or _parses(mutated):
            what = f"{lines[edit.line - 1].strip()[:90]} -> {new.strip()[:90]}"
            yield Mutant(change.path, edit.line, what, mutated)


def _parses(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _in_python(text: str, changed: Collection[int]) -> Iterator[_Edit]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    lines = [line.encode(errors="surrogateescape") for line in text.split("\n")]
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt) and node.lineno in changed and node.lineno == node.end_lineno:
            yield from _of_node(node, lines[node.lineno - 1])


def _of_node(node: ast.expr | ast.stmt, line: bytes) -> Iterator[_Edit]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            yield from _between(left, right, line, *_COMPARISONS[type(op)])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            yield from _between(left, right, line, *_OPERATORS[type(op)])
        case ast.BoolOp(op=op, values=[left, right, *_]):
            words = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
            yield from _between(left, right, line, *words)
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in _OPERATORS:
            was, now = _OPERATORS[type(op)]
            yield from _between(target, value, line, f"{was}=", f"{now}=")
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield _Edit(node.lineno, node.col_offset, operand.col_offset, "")
        case ast.Constant(value=bool() as value):
            yield _replaced(node, str(not value))
        case ast.Constant(value=int() | float() as value):
            yield _replaced(node, repr(value + 1))
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield _replaced(value, "None")


def _between(left: ast.expr, right: ast.expr, line: bytes, was: str, now: str) -> Iterator[_Edit]:
    """Yield the edit that replaces the operator between two operands; nothing if the operator is not found there."""
    start = left.end_col_offset or 0
    at = line.find(was.encode(), start, right.col_offset)
    if at >= 0:
        yield _Edit(left.lineno, at, at + len(was), now)


def _replaced(node: ast.expr, by: str) -> _Edit:
    return _Edit(node.lineno, node.col_offset, node.end_col_offset or node.col_offset, by)


def _by_words(lines: Sequence[str], changed: Collection[int]) -> Iterator[_Edit]:
    for number in sorted(changed):
        line = lines[number - 1] if number <= len(lines) else ""
        for found in _WORD.finditer(line):
            word = found[0]
            spaced = _WORDS.get(f" {word} ")
            by = str(int(word) + 1) if word.isdigit() else _WORDS.get(word) or (spaced or "").strip()
            start = len(line[: found.start()].encode(errors="surrogateescape"))
            yield _Edit(number, start, start + len(word), by)
