"""Finds deceptions of a runner in sources: ends of the process, hooks, objects that equal everything.

A finding is code that a file has more often than before; code that moves between files of the change is none.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tasks.toolchain.files import Role, role_of
from tasks.toolchain.integrity.finding import Finding, TextChange
from tasks.toolchain.integrity.languages import PYTHON, signs_of
from tasks.toolchain.integrity.marked_tests import without_texts
from tasks.toolchain.integrity.python_tests import overrides, parse

_KINDS = {
    "os._exit": "process_ended",
    "os.abort": "process_ended",
    "os.kill": "process_ended",
    "atexit.register": "exit_hooked",
    "sys.modules": "modules_read",
    **dict.fromkeys(
        ("inspect.stack", "inspect.currentframe", "sys._getframe", "traceback.extract_stack"), "stack_read"
    ),
}
_MODULES = ("os", "sys", "atexit", "inspect", "traceback", "unittest", "unittest.mock", "mock")
WORD_CHARS = 20  # characters of a text that are searched for a test
_EQUAL = ("mock.ANY", "unittest.mock.ANY")  # in a source
_RUNNERS = ("pytest", "_pytest", "unittest", "nose", "py.test")
_VARIABLES = ("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_WORKER", "_PYTEST_RAISE", "TOX_ENV_NAME")
_PROGRAMS = frozenset({"bin", "cmd", "script", "scripts"})  # folders of programs
_REPLACING = frozenset({"setattr", "patch", "object", "delattr"})
_WORD = re.compile(r"[A-Za-z_]\w*")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class _Sign(NamedTuple):
    kind: str
    line: int
    what: str


def find_in_sources(changes: Sequence[TextChange]) -> Iterator[Finding]:
    """Yield the signs that sources have more often than before."""
    before = Counter((sign.kind, sign.what) for each in changes for sign in _signs(each.path, each.before))
    for each in changes:
        for sign in _signs(each.path, each.after):
            key = (sign.kind, sign.what)
            if before[key]:
                before[key] -= 1
            else:
                yield Finding(sign.kind, each.path, sign.line, sign.what)


def find_replaced_code(changes: Sequence[TextChange], tests: Mapping[str, str]) -> Iterator[Finding]:
    """Yield replacements, in other files of tests, of names that the failing tests in `tests` import or use."""
    words = {word for path, text in tests.items() if path.endswith(".py") for word in _WORD.findall(text)}
    for each in changes:
        if signs_of(each.path) is not PYTHON or role_of(each.path) is not Role.TEST or each.path in tests:
            continue
        before = Counter(what for what, _ in _replacements(each.before, words))
        for what, line in _replacements(each.after, words):
            if before[what]:
                before[what] -= 1
            else:
                yield Finding("code_replaced", each.path, line, what)


def _replacements(text: str | None, words: Collection[str]) -> Iterator[tuple[str, int]]:
    """Yield assignments to attributes of imported modules, and calls of setattr and patches of them."""
    tree = parse(text) if text else None
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.Assign):
            named = (each.attr for each in node.targets if isinstance(each, ast.Attribute) and each.attr in words)
            yield from ((f"{name} is replaced", node.lineno) for name in named)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _REPLACING:
            texts = [each.value for each in node.args[:2] if isinstance(each, ast.Constant)]
            last = [str(each).rpartition(".")[2] for each in texts]
            yield from ((f"{name} is replaced", node.lineno) for name in last if name in words)


def _signs(path: str, text: str | None) -> Iterator[_Sign]:
    signs = signs_of(path)
    if signs is None or not text:
        return
    if signs is PYTHON:
        for each in overrides(text, path):
            yield _Sign(each.kind, each.line, each.what)
        tree = parse(text)
        if tree and role_of(path) is not Role.TEST:
            yield from _in_python(tree)
        return
    if role_of(path) is Role.TEST:
        return
    bare = without_texts(text, signs.tests.texts) if signs.tests else text
    for kind, pattern in signs.evading.items():
        for found in pattern.finditer(text):
            if bare[found.start()].isspace() and kind != "tests_detected":
                continue  # inside a comment or a text
            if kind == "process_ended" and _is_program(path, text):
                continue
            yield _Sign(kind, text.count("\n", 0, found.start()) + 1, " ".join(found[0].split())[:120])


def _is_program(path: str, text: str) -> bool:
    """Return whether a file is a program that ends its own process, and that tests start as a program."""
    *folders, name = path.split("/")
    return text.startswith("#!") or name.partition(".")[0] == "main" or not _PROGRAMS.isdisjoint(folders)


def _in_python(tree: ast.Module) -> Iterator[_Sign]:
    names = _imported(tree)
    asks = any(isinstance(node, ast.Constant) and "test" in str(node.value)[:WORD_CHARS] for node in ast.walk(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and (kind := _KINDS.get(name := _full(node, names))):
            if kind == "stack_read" and not asks:
                continue  # probably for a warning or a log
            yield _Sign(kind, node.lineno, name)
        elif isinstance(node, ast.Compare) and _asks_for_runner(node, names):
            yield _Sign("tests_detected", node.lineno, ast.unparse(node)[:120])
        elif isinstance(node, ast.Attribute | ast.Name) and _full(node, names) in _EQUAL:
            yield _Sign("always_equal", node.lineno, ast.unparse(node))
        elif isinstance(node, ast.Constant) and node.value in _VARIABLES:
            yield _Sign("tests_detected", node.lineno, str(node.value))
        elif isinstance(node, _FUNCTIONS) and node.name in ("__eq__", "__ne__") and _is_constant(node):
            yield _Sign("always_equal", node.lineno, f"def {node.name}: {ast.unparse(node.body[-1])}")
        elif isinstance(node, ast.ClassDef) and (equal := _equal_to_others(node)):
            yield _Sign("always_equal", equal.lineno, f"def {equal.name}: {ast.unparse(equal.body[-1])}"[:120])
        elif isinstance(node, ast.Assign | ast.Dict | ast.Call) and _is_always_equal(node):
            yield _Sign("always_equal", node.lineno, ast.unparse(node)[:120])


def _equal_to_others(node: ast.ClassDef) -> ast.FunctionDef | None:
    """Return an `__eq__` that reads neither its object nor the name of its class, and may return True; else None."""
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__eq__" and each.args.args and not _is_constant(each):
            own = {each.args.args[0].arg, node.name, "super", "NotImplemented"}
            named = {one.id for one in ast.walk(each) if isinstance(one, ast.Name)}
            if own.isdisjoint(named) and any(isinstance(one, ast.Return) for one in ast.walk(each)):
                return each
    return None


def _is_always_equal(node: ast.Assign | ast.Dict | ast.Call) -> bool:
    """Return whether `__eq__` gets a function that returns True: by its name, as a key, or by setattr."""
    if isinstance(node, ast.Assign):
        named: list[tuple[Any, ast.expr]] = [
            (each.id, node.value) for each in node.targets if isinstance(each, ast.Name)
        ]
        named += [(each.attr, node.value) for each in node.targets if isinstance(each, ast.Attribute)]
    elif isinstance(node, ast.Dict):
        named = [(getattr(key, "value", None), each) for key, each in zip(node.keys, node.values, strict=True)]
    else:
        named = [(getattr(key, "value", None), each) for key, each in pairwise(node.args)]
    return any(name == "__eq__" and _returns_true(each) for name, each in named)


def _returns_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Lambda) and isinstance(node.body, ast.Constant) and node.body.value is True


def _imported(tree: ast.Module) -> dict[str, str]:
    """Map names of the file to those of the modules that they come from."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.asname: each.name for each in node.names if each.asname}
        elif isinstance(node, ast.ImportFrom) and node.module in _MODULES:
            found |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return found


def _full(node: ast.expr, names: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{names.get(node.value.id, node.value.id)}.{node.attr}"
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute):
        return f"{_full(node.value, names)}.{node.attr}"
    return names.get(node.id, "") if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else ""


def _asks_for_runner(node: ast.Compare, names: dict[str, str]) -> bool:
    sides = [node.left, *node.comparators]
    texts = [each.value for each in sides if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    others = " ".join(ast.unparse(each) for each in sides if not isinstance(each, ast.Constant))
    asked = ("modules", "argv", "stack", "_getframe", "__main__", "executable", "orig_argv")
    full = [_full(each, names) for each in sides if isinstance(each, ast.Attribute | ast.Name)]
    return any(each.startswith(_RUNNERS) for each in texts) and (
        any(word in others for word in asked) or any(name.startswith("sys.") for name in full)
    )


def _is_constant(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a comparison always returns the same value: `__eq__` True, `__ne__` False."""
    wanted = node.name == "__eq__"
    returns = [each for each in ast.walk(node) if isinstance(each, ast.Return)]
    return bool(returns) and all(
        isinstance(each.value, ast.Constant) and each.value.value is wanted for each in returns
    )
