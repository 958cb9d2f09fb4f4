"""Finds every call in the worker's code that logs, and reads from it the event, the level and the fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEVELS = ("debug", "info", "warning", "error", "exception", "critical", "log")
LOGGERS = ("log", "failures", "impossible")
IDS = {"plan_id", "step_id", "attempt"}  # of `<spec>.ids`


@dataclass(slots=True)
class LogEvent:
    """An event as all calls together log it; `is_open` where some field is known only when it runs."""

    levels: set[str] = field(default_factory=set)
    fields: set[str] = field(default_factory=set)
    is_open: bool = False
    is_level_open: bool = False  # whether the level too is known only then


def log_events() -> dict[str, LogEvent]:
    """Read all events of the code below `worker/`."""
    found: dict[str, LogEvent] = {}
    trees = {path: ast.parse(path.read_text()) for path in sorted((ROOT / "worker").rglob("*.py"))}
    outages = {name for tree in trees.values() for name in _constants_given(tree, "Outage")}
    for path, tree in trees.items():
        for function in _functions(tree):
            for call in _calls(function):
                for event in _events(path, tree, function, call.args[-1], outages):
                    _note(found.setdefault(event, LogEvent()), function, call)
    return found


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _calls(function: ast.AST) -> Iterator[ast.Call]:
    """Yield the logging calls of a function, without those of the functions inside it."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
            of = ast.unparse(node.func.value)
            if of in LOGGERS or of.startswith("logging.getLogger("):
                yield node
        yield from _calls(node)


def _events(
    path: Path, tree: ast.Module, function: ast.FunctionDef | ast.AsyncFunctionDef, said: ast.expr, outages: set[str]
) -> set[str]:
    """Return the names of events that the expression `said` may have."""
    if path.parent.name == "drafters" and ast.unparse(said) == "sentence":
        return {"WORKER_* is not read here"}  # the one event that is a sentence
    if isinstance(said, ast.Constant):
        return {str(said.value)}
    if isinstance(said, ast.IfExp):
        return _events(path, tree, function, said.body, outages) | _events(path, tree, function, said.orelse, outages)
    if isinstance(said, ast.JoinedStr):  # of an outage: the server, and what became of it
        (_, rest) = said.values
        assert isinstance(rest, ast.Constant)
        assert isinstance(rest.value, str)
        return {name + rest.value for name in outages}
    if isinstance(said, ast.Attribute):  # of a trouble, whose classes each name one
        client = (ast.parse(found.read_text()) for found in (ROOT / "worker/client").glob("*.py"))
        return {value for tree in client for name, value in _assigned_constants(tree) if name == said.attr}
    if isinstance(said, ast.Name) and said.id in {each.arg for each in function.args.args}:
        return _constants_given(tree, function.name)
    assert isinstance(said, ast.Name), f"{path}: what event is {ast.unparse(said)}?"
    for node in ast.walk(tree):  # one of a table's
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in (said.id, "LINES"):
            return {str(each.value) for each in _values(node.value)}
    raise AssertionError(f"{path}: what event is {said.id}?")


def _values(of: ast.expr) -> Iterator[ast.Constant]:
    tables = (node for node in ast.walk(of) if isinstance(node, ast.Dict))
    yield from (value for table in tables for value in table.values if isinstance(value, ast.Constant))


def _assigned_constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            yield ast.unparse(node.targets[0]).rpartition(".")[2], str(node.value.value)


def _constants_given(tree: ast.Module, name: str) -> set[str]:
    """Return the string constants that calls of a function or class pass as the first argument."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == name)
    return {each.value for call in calls for each in ast.walk(call.args[0]) if _is_text(each)}  # type: ignore[attr-defined]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _note(event: LogEvent, function: ast.AST, call: ast.Call) -> None:
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr == "log":
        event.levels |= {"DEBUG", "INFO", "WARNING"}
        event.is_level_open = True
    else:
        event.levels.add("ERROR" if call.func.attr == "exception" else call.func.attr.upper())
    for keyword in call.keywords:
        if keyword.arg == "extra":
            _fields(event, function, keyword.value)


def _fields(event: LogEvent, function: ast.AST, extra: ast.expr) -> None:
    if isinstance(extra, ast.Dict):
        for key, value in zip(extra.keys, extra.values, strict=True):
            if key is None:
                _fields(event, function, value)
            else:
                assert isinstance(key, ast.Constant)
                event.fields.add(str(key.value))
    elif ast.unparse(extra).endswith("ids"):
        event.fields |= IDS
    elif isinstance(extra, ast.Name):
        _assigned(event, function, extra.id)
    else:
        event.is_open = True


def _assigned(event: LogEvent, function: ast.AST, name: str) -> None:
    """Read the fields that a function puts into the dictionary that it logs."""
    for node in ast.walk(function):
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign | ast.AugAssign):
            targets = [node.target]
        for target in targets:
            if ast.unparse(target) == name and isinstance(getattr(node, "value", None), ast.Dict):
                _fields(event, function, node.value)  # type: ignore[attr-defined]
            elif ast.unparse(target) == name:
                event.is_open = True
            elif isinstance(target, ast.Subscript) and ast.unparse(target.value) == name:
                assert isinstance(target.slice, ast.Constant)
                event.fields.add(str(target.slice.value))
