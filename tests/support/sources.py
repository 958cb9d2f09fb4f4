"""Reads the codes and events that the sources can emit from their syntax trees, so that no list can lack one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from schemas.base import Verdict
from tasks.policy.pipeline import Feature
from worker.gateway.problems import CODES

ROOT = Path(__file__).parents[2]
RULE_CODES = ("tasks/rules/validation.py", "tasks/text/paths.py", "tasks/text/patterns.py")  # of the validator
GOAL_CODES = (
    *(
        "tasks/handlers/goals.py",
        "tasks/features/duplicates.py",
        "tasks/features/overlaps.py",
        "tasks/rules/budget.py",
        "tasks/rules/goal_cleaning.py",
        "tasks/strategies/task/strategy.py",
        "tasks/strategies/task/supplied.py",
        "worker/engine/beginnings.py",
    ),
    *("tasks/strategies/gap_report/strategy.py", "tasks/strategies/gap_report/checks.py"),
    "tasks/strategies/reviewed_plan/strategy.py",
    *(f"tasks/strategies/campaign/{name}.py" for name in ("drafts", "outline", "sequence", "strategy", "tasks")),
    *(f"tasks/strategies/evolution/{name}.py" for name in ("plan_parser", "request", "strategy")),
    "tasks/strategies/task/plan_parser.py",
    *(f"tasks/strategies/drafting/{name}.py" for name in ("cycle", "project", "steps")),
    *("worker/drafters/consulting.py", "worker/engine/plan_creation.py", "worker/streams/internal_error.py"),
)

PROBLEM_CLASSES = frozenset(
    {
        *("Problem", "Failure", "Trouble", "WrongUse", "NotFound", "NoRight", "Away"),
        *("Refusal", "NoRetry", "NoRest", "RefusedRedis", "refused", "_too_large"),
    }
)
PROBLEMS_BESIDE = {
    *CODES.values(),
    "worker_ended",
    "gateway_ended",
    "refused",
}  # worker/gateway/problems.py, `planner up`


def codes(*names: str) -> set[str]:
    """Return the error codes that these modules can emit."""
    return {code for name in names for node in _nodes(ROOT / name) for code in _codes(node)}


def problems() -> set[str]:
    """Return the problem codes in the sources; PROBLEMS_BESIDE lists those that the code builds at run time."""
    paths = [path for ring in ("schemas", "tasks", "worker") for path in (ROOT / ring).rglob("*.py")]
    return {code for path in paths for code in _problems(list(_nodes(path)))} | PROBLEMS_BESIDE


def _problems(nodes: list[ast.AST]) -> Iterator[str]:
    constants = {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Call) and node.args and _problem_class(node) in PROBLEM_CLASSES:
            code = node.args[0]
            yield from _words(constants.get(code.id, code) if isinstance(code, ast.Name) else code)


def _problem_class(call: ast.Call) -> str:
    """Return the name of the class that is called, directly or through its `of`."""
    of = call.func if isinstance(call.func, ast.Attribute) and call.func.attr == "of" else None
    return getattr(of.value, "id", "") if of else getattr(call.func, "id", "")


def events(*paths: Path) -> set[str]:
    """Return the event types that these modules emit, such as step.done; without paths, those of all modules."""
    folders = ("tasks", "worker/engine", "worker/delivered")
    every = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    found = {event for path in paths or every for node in _nodes(path) for event in _events(node)}
    verdicts = () if paths else (each for each in Verdict if each is not Verdict.APPLIED)
    return {event for event in found if not event.endswith(".")} | {f"outcome.{verdict}" for verdict in verdicts}


def modules_of(feature: Feature) -> list[Path]:
    """Return the modules of a feature, by its name; if it has none, its module of the policy."""
    folder = ROOT / "tasks/features" / feature.name
    found = [*folder.rglob("*.py")] or [folder.with_suffix(".py")]
    return found if found[0].exists() else [ROOT / "tasks/policy" / f"{feature.name}.py"]


def halts() -> set[str]:
    """Return the halting rules of decisions outside the table of rules."""
    nodes = (node for path in (ROOT / "tasks").rglob("*.py") for node in _nodes(path))
    return {word for node in nodes for word in (_halts(node) if isinstance(node, ast.Call) else _fires(node))}


def _fires(node: ast.AST) -> Iterator[str]:
    """Yield the rule of a feature that fires."""
    if isinstance(node, ast.FunctionDef) and node.name == "fires":
        for each in ast.walk(node):
            if isinstance(each, ast.Return) and isinstance(each.value, ast.Tuple):
                yield from _words(each.value.elts[0])


def _halts(call: ast.Call) -> Iterator[str]:
    """Yield the rules of a call to `halt`, or of an expansion with the argument `halt`."""
    if _name(call) == "halt" and len(call.args) > 1:
        yield from _words(call.args[1])
    for keyword in call.keywords:
        if keyword.arg == "halt" and isinstance(keyword.value, ast.Tuple):
            yield from _words(keyword.value.elts[0])


def _nodes(path: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(path.read_text()))


def _codes(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call):
        place = {"reject": 0, "Fault": 0, "field_error": 1}.get(_name(node), len(node.args))
        for argument in (*node.args[place : place + 1], *(each.value for each in node.keywords if each.arg == "code")):
            yield from _words(argument)
    elif isinstance(node, ast.Yield) and isinstance(node.value, ast.Tuple):
        yield from _words(node.value.elts[1])
    elif isinstance(node, ast.Tuple) and len(node.elts) == 3 and isinstance(node.elts[2], ast.Lambda):
        yield from _words(node.elts[0])
    elif isinstance(node, ast.Tuple) and len(node.elts) == 4 and any(word[:1] == "/" for word in _words(node.elts[1])):
        yield from _words(node.elts[2])


def _events(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and (isinstance(node.func, ast.Attribute) or _name(node) == "event_type"):
        steps, plans = ("step.", 2), ("plan.", 1)
        prefix, place = {
            "emit": ("", 0),
            "event_type": ("", 0),
            "move_step": steps,
            "end_step": steps,
            "move_plan": plans,
        }.get(_name(node), ("", len(node.args)))
        for argument in node.args[place : place + 1]:
            yield from (prefix + word for word in _words(argument))


def _words(node: ast.AST) -> Iterator[str]:
    """Yield the string constants that an expression may give; a conditional expression has two."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from (*_words(node.body), *_words(node.orelse))
    elif isinstance(node, ast.BinOp):
        yield from _words(node.left)


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
