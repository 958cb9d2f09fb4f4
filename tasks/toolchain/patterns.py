"""Which dialects each tool speaks. What stands first decides: among dialects, and among the rules of one."""

from __future__ import annotations

from types import MappingProxyType

from schemas.base import FailureCategory as Category
from tasks.toolchain.pattern import Dialect, Rule
from tasks.toolchain.patterns_compiled import CC, CMAKE, CTEST, GO, GO_VET, GOFMT, RUST
from tasks.toolchain.patterns_node import ESLINT, JS_TESTS, NODE, NPM, TSC
from tasks.toolchain.patterns_python import MYPY, PIP, PYRIGHT, PYTEST, PYTHON, RUFF, UNITTEST
from tasks.toolchain.taxonomy import HALTS_AT_ONCE

# A controller without evidence may say a category as plain text. It halts plans, so any tool's own line goes first.
PLAIN: Dialect = tuple(Rule(rf"{word}(?:: |$)", word) for word in sorted(HALTS_AT_ONCE | {Category.FLAKY_TEST}))

ANY: Dialect = (
    PYTEST + UNITTEST + JS_TESTS + RUST + GO + CTEST + MYPY + PYRIGHT + RUFF + TSC + ESLINT + CC + CMAKE + PIP + NPM
    + PYTHON + NODE + PLAIN
)  # fmt: skip

_PYTHON = UNITTEST + PIP + PYTHON
_NODE = TSC + ESLINT + NPM + NODE

# by the first word of a contract's id, so that `pytest-focused` and `cargo-clippy` need no line of their own
OF_TOOL = MappingProxyType(
    {
        "pytest": PYTEST + _PYTHON,
        "unittest": _PYTHON,
        "py": PYTHON,
        "compileall": PYTHON,
        "mypy": MYPY + PYTHON,
        "pyright": PYRIGHT,
        "ruff": RUFF,
        "black": RUFF,
        "flake8": RUFF,
        "jest": JS_TESTS + _NODE,
        "vitest": JS_TESTS + _NODE,
        "npm": JS_TESTS + _NODE,
        "node": JS_TESTS + NODE,
        "eslint": ESLINT + NODE,
        "prettier": ESLINT,
        "tsc": TSC + NODE,
        "go": GO,
        "gofmt": GO + GOFMT,
        "golangci": GO_VET + GO,
        "cargo": RUST,
        "cmake": CC + CMAKE,
        "ctest": CTEST + CC,
    }
)


def dialects(tool: str | None) -> Dialect:
    """Find the rules for what `tool` (a contract's id) prints; for no tool or an unknown one, every rule there is."""
    if tool == "go-vet":
        return GO_VET + GO
    return OF_TOOL.get((tool or "").split("-")[0], ANY)
