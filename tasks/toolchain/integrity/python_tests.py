"""Reads Python tests from the syntax tree: their assertions, their skips, and their number of cases.

Only assertions that can fail are counted. An assertion cannot fail after a `return`, in a `try` that swallows its
error, or if it asserts a constant.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from tasks.toolchain.integrity.finding import Finding, Test

_SKIPS = frozenset({"skip", "skipif", "xfail", "skipIf", "skipUnless", "expectedFailure"})
_SKIP_CALLS = frozenset({"pytest.skip", "pytest.xfail", "self.skipTest", "unittest.SkipTest", "pytest.importorskip"})
_SWALLOWING = frozenset({"AssertionError", "Exception", "BaseException"})
_RAISES = frozenset({"raises", "warns", "assertRaises", "assertRaisesRegex", "assertWarns", "deprecated_call"})
_WEAK_METHODS = frozenset(
    {"assertTrue", "assertFalse", "assertIsNone", "assertIsNotNone", "assertIsInstance", "assert_called"}
)
# Hooks of pytest that let a conftest.py or a plugin change the outcome of tests.
_HOOKS = frozenset(
    {
        *("pytest_runtest_makereport", "pytest_runtest_logreport", "pytest_report_teststatus", "pytest_pyfunc_call"),
        *("pytest_runtest_call", "pytest_runtest_protocol", "pytest_sessionfinish", "pytest_collection_modifyitems"),
        *("pytest_ignore_collect", "pytest_itemcollected", "pytest_make_collect_report", "pytest_runtestloop"),
        *("pytest_exception_interact", "pytest_unconfigure", "pytest_cmdline_main", "pytest_pycollect_makeitem"),
    }
)
_IGNORES = frozenset({"collect_ignore", "collect_ignore_glob"})
# Skips on systems where this controller never runs; any other condition may be true here.
_ON_WINDOWS = re.compile(
    r"(?:\w+\.)*skip[iI]f\((?:condition=)?"
    r"(?:sys\.platform(?: == '(?:win32|cygwin)'|\.startswith\('win(?:32)?'\))|os\.name == 'nt'"
    r"|platform\.system\(\) == 'Windows')(?:, [^()]*)?\)"
)
_LOOSE = frozenset({"approx", "type", "isclose", "bool", "isinstance", "issubclass", "hasattr", "callable"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_LITERALS = (ast.List, ast.Tuple, ast.Set)


@lru_cache(maxsize=256)
def parse(text: str) -> ast.Module | None:
    """Return the syntax tree; None if the text is invalid."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def read_tests(text: str) -> list[Test] | None:
    """Return the tests of a file; None if it cannot be parsed."""
    tree = parse(text)
    if tree is None:
        return None
    whole = next((found for node in tree.body if (found := _module_skip(node))), "")
    return [*_tests_in(tree.body, "", whole, text.splitlines())]


def read_bindings(text: str) -> dict[str, str]:
    """Map the names that a module binds to the statements that bind them; empty if it cannot be parsed."""
    tree = parse(text)
    found: dict[str, str] = {}
    for node in tree.body if tree else ():
        if isinstance(node, ast.Import | ast.ImportFrom):
            source = node.module if isinstance(node, ast.ImportFrom) else None
            for each in node.names:
                found[(each.asname or each.name).partition(".")[0]] = f"{source}:{each.name}"
        elif isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            found[node.name] = ast.dump(node)
        elif isinstance(node, ast.Assign):
            named = (each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name))
            found |= dict.fromkeys(named, ast.dump(node.value))
    return found


def is_on_windows(skipped: str) -> bool:
    """Return whether the condition of a skipped test is only true on Windows."""
    return _ON_WINDOWS.fullmatch(skipped) is not None


def overrides(text: str, path: str) -> list[Finding]:
    """Return the code that changes the outcome of tests elsewhere: hooks of pytest, replaced assertions."""
    tree = parse(text)
    found: list[Finding] = []
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, _FUNCTIONS) and node.name in _HOOKS:
            found.append(Finding("outcome_overridden", path, node.lineno, f"def {node.name}"))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                name = ast.unparse(target) if isinstance(target, ast.Name | ast.Attribute) else ""
                if name in _IGNORES:
                    found.append(Finding("tests_deselected", path, node.lineno, ast.unparse(node)[:200]))
                elif _is_of_test_tools(name):
                    found.append(Finding("outcome_overridden", path, node.lineno, f"{name} = ..."))
    return found


def _is_of_test_tools(name: str) -> bool:
    first, _, rest = name.partition(".")
    last = rest.rpartition(".")[2]
    return (
        bool(rest)
        and (first in ("pytest", "_pytest", "unittest") or "TestCase" in name.split(".")[:-1])
        and (
            last.startswith(("assert", "fail", "run", "raises", "exit", "approx", "main", "add")) or first == "_pytest"
        )
    )


def _module_skip(node: ast.stmt) -> str:
    if isinstance(node, ast.Assign) and any(
        isinstance(each, ast.Name) and each.id == "pytestmark" for each in node.targets
    ):
        return _skip_of(node.value)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _dotted(node.value.func) in _SKIP_CALLS:
        return ast.unparse(node)[:120]
    is_off = isinstance(node, ast.Assign) and any(
        isinstance(each, ast.Name) and each.id == "__test__" for each in node.targets
    )
    return (
        ast.unparse(node) if is_off and isinstance(node, ast.Assign) and not getattr(node.value, "value", True) else ""
    )


def _skip_of(node: ast.expr) -> str:
    """Return the source of a decorator or mark that skips a test; empty if it does not skip."""
    if isinstance(node, _LITERALS):
        return next((found for each in node.elts if (found := _skip_of(each))), "")
    call = node.func if isinstance(node, ast.Call) else node
    return ast.unparse(node)[:120] if _dotted(call).rpartition(".")[2] in _SKIPS else ""


def _tests_in(body: Sequence[ast.stmt], within: str, skipped: str, lines: Sequence[str]) -> Iterator[Test]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            inner = next((found for each in node.decorator_list if (found := _skip_of(each))), "")
            inner = inner or next((found for each in node.body if (found := _module_skip(each))), "")
            yield from _tests_in(node.body, f"{within}{node.name}::", skipped or inner, lines)
        elif isinstance(node, _FUNCTIONS) and node.name.startswith("test"):
            yield _test(node, within, skipped, lines)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            yield from _tests_in(node.body, within, skipped, lines)


def _test(node: ast.FunctionDef | ast.AsyncFunctionDef, within: str, skipped: str, lines: Sequence[str]) -> Test:
    own = next((found for each in node.decorator_list if (found := _skip_of(each))), "")
    own = own or next((ast.unparse(each)[:120] for each in node.body if _skips(each)), "")
    strengths = [*_strengths(node.body)]
    cases = 1
    for each in node.decorator_list:
        cases *= _cases(each)
    body = "\n".join(lines[node.body[0].lineno - 1 : node.end_lineno])
    strong = strengths.count(2)
    asserted = (each.test for each in ast.walk(node) if isinstance(each, ast.Assert) and _strength(each.test))
    compared = len(strengths) + sum(_elements(each) - 1 for each in asserted)
    exact = [*_exact_parts(node)]
    marks = " ".join(map(ast.unparse, node.decorator_list))
    return Test(
        within + node.name,
        node.lineno,
        len(strengths),
        strong,
        skipped or own,
        cases,
        body,
        compared,
        len(exact),
        marks,
        sum(exact),
    )


def _exact_parts(test: ast.AST) -> Iterator[int]:
    """Yield for each comparison of a test that demands one exact value how many elements it compares."""
    calls = [each for each in ast.walk(test) if isinstance(each, ast.Call) and _last(each).startswith("assert")]
    yield from (1 for each in calls if _last(each).lower().endswith("equal") and "not" not in _last(each).lower())
    asserted = [each.test for each in ast.walk(test) if isinstance(each, ast.Assert)]
    for each in {id(one): one for root in (*asserted, *calls) for one in ast.walk(root)}.values():
        if isinstance(each, ast.Compare) and (parts := _parts_of(each)):
            yield parts


def _parts_of(node: ast.Compare) -> int:
    sides = [node.left, *node.comparators]
    is_same = isinstance(node.ops[0], ast.Is) and any(isinstance(each, ast.Constant) for each in sides)
    if any(map(_is_loose, sides)) or not (is_same or isinstance(node.ops[0], ast.Eq)):
        return 0
    rows = [each.elts for each in sides if isinstance(each, ast.List | ast.Tuple)]
    if len(rows) == 2:
        return sum(map(_demands, *rows))
    return max([1, *map(len, rows)])


def _demands(one: ast.expr, other: ast.expr) -> bool:
    is_known = isinstance(one, ast.Constant) and isinstance(other, ast.Constant)
    return not (is_known or _is_loose(one) or _is_loose(other))


def _is_loose(node: ast.expr) -> bool:
    """Return whether a value is only a type, an approximate value or a truth value."""
    if isinstance(node, ast.Compare | ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        return True
    return isinstance(node, ast.Call) and _last(node) in _LOOSE


def _last(node: ast.Call) -> str:
    return _dotted(node.func).rpartition(".")[2]


def _elements(test: ast.expr) -> int:
    """Return how many elements an assertion compares: the length of its longest list, else 1."""
    sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq) else []
    return max([1, *(len(each.elts) for each in sides if isinstance(each, ast.List | ast.Tuple))])


def _skips(node: ast.stmt) -> bool:
    """Return whether a statement at the top of a test skips it."""
    call = node.value if isinstance(node, ast.Expr) else node.exc if isinstance(node, ast.Raise) else None
    return isinstance(call, ast.Call) and _dotted(call.func) in _SKIP_CALLS - {"pytest.importorskip"}


def _cases(node: ast.expr) -> int:
    if isinstance(node, ast.Call) and _dotted(node.func).endswith("parametrize") and len(node.args) > 1:
        values = node.args[1]
        return max(1, len(values.elts)) if isinstance(values, _LITERALS) else 1
    return 1


def _strengths(body: Sequence[ast.stmt]) -> Iterator[int]:
    """Yield the strength of each assertion that can fail: 2 for a comparison, 1 for another one."""
    for node in body:
        if isinstance(node, _LEAVING):
            yield from _in_expressions(node)
            return
        yield from _strengths_of(node)


def _strengths_of(node: ast.stmt) -> Iterator[int]:
    if isinstance(node, ast.Assert):
        if strength := _strength(node.test):
            yield strength
    elif isinstance(node, ast.With | ast.AsyncWith):
        names = [_dotted(each.context_expr.func) for each in node.items if isinstance(each.context_expr, ast.Call)]
        yield from (2 for name in names if name.rpartition(".")[2] in _RAISES)
        yield from () if any(name.endswith("suppress") for name in names) else _strengths(node.body)
    elif parts := _parts(node):
        for part in parts:
            yield from _strengths(part)
    elif not hasattr(node, "body"):
        yield from _in_expressions(node)


def _parts(node: ast.stmt) -> list[list[ast.stmt]]:
    """Return the blocks of a compound statement that can run, except blocks whose failed assertions are swallowed."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Constant):
        return [node.body if node.test.value else node.orelse]
    if isinstance(node, ast.Try):
        handlers = [each.body for each in node.handlers]
        return [*([] if _swallows(node) else [node.body]), *handlers, node.orelse, node.finalbody]
    return [part for part in (getattr(node, "body", []), getattr(node, "orelse", [])) if part]


def _in_expressions(node: ast.AST) -> Iterator[int]:
    for each in ast.walk(node):
        if isinstance(each, ast.Call):
            name = _dotted(each.func).rpartition(".")[2]
            if name.startswith(("assert", "fail")) or name in _RAISES:
                constant = each.args and all(isinstance(one, ast.Constant) for one in each.args) and name != "fail"
                if not constant:
                    yield 1 if name in _WEAK_METHODS else 2


def _swallows(node: ast.Try) -> bool:
    def catches(handler: ast.ExceptHandler) -> bool:
        caught = handler.type
        types = caught.elts if isinstance(caught, ast.Tuple) else [caught] if caught else []
        wide = caught is None or any(_dotted(each) in _SWALLOWING for each in types)
        quiet = not any(
            isinstance(each, ast.Raise | ast.Assert | ast.Call) for one in handler.body for each in ast.walk(one)
        )
        return wide and quiet

    return any(map(catches, node.handlers))


def _strength(test: ast.expr) -> int:
    if isinstance(test, ast.Constant | ast.JoinedStr | ast.Lambda) or (isinstance(test, ast.Tuple) and test.elts):
        return 0
    if isinstance(test, ast.BoolOp):
        parts = [_strength(each) for each in test.values]
        if isinstance(test.op, ast.And):
            return max(parts)
        return 0 if any(isinstance(each, ast.Constant) and each.value for each in test.values) else min(parts)
    if isinstance(test, ast.Compare):
        sides = [test.left, *test.comparators]
        if len({ast.dump(each) for each in sides}) == 1 or all(isinstance(each, ast.Constant) for each in sides):
            return 0
        is_none = any(isinstance(each, ast.Constant) and each.value is None for each in sides)
        return 1 if is_none and isinstance(test.ops[0], ast.IsNot | ast.NotEq) else 2
    if isinstance(test, ast.Call):
        return 1 if _dotted(test.func) in ("isinstance", "hasattr", "callable", "bool") else 2
    if isinstance(test, ast.UnaryOp):
        return _strength(test.operand)
    return 1


def _dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        inner = _dotted(node.value)
        return f"{inner}.{node.attr}" if inner else node.attr
    return node.id if isinstance(node, ast.Name) else ""
