"""What modules import, read from their syntax trees once a process."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path


@cache
def imports_of(module: Path) -> tuple[str, ...]:
    """List the dotted names that a module imports, also inside its functions."""
    return tuple(name for name, _ in imports_in(module.read_text()))


def imports_in(source: str) -> Iterator[tuple[str, int]]:
    """Yield the dotted names that `source` imports, with their lines."""
    for statement in _statements(ast.parse(source)):
        if isinstance(statement, ast.Import):
            yield from ((each.name, statement.lineno) for each in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            yield from ((f"{statement.module}.{each.name}", statement.lineno) for each in statement.names)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements below a node; there are few of them compared with the expressions that they hold."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        below = getattr(node, name, ())
        for each in below if isinstance(below, list) else ():
            yield each
            yield from _statements(each)
