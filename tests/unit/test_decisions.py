"""What was decided about a plan, in plain words, with the values that it rests on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from schemas import codec
from tasks.features.baseline.red_checks import DROPPED
from tasks.features.riskier_files import APART
from tasks.features.split_changes import SPLIT
from tasks.policy.pre_steps import BASELINE, MEND
from tasks.policy.revision import STRATEGIES
from tests.corpus.record import read
from tests.support.sources import ROOT
from worker.render.decisions import CAME_IN, REVISED, TITLES, decisions_of

TOLD_ELSEWHERE = {
    "outcome", "backoff over", "unclaimed", "grants", "order", "queue paused", "queue resumed", "let through",
    "file wait", "file wait over",
    "split", "risk_apart",  # by the revision that comes with them
}  # fmt: skip
TOLD = {"command", "expired", "handed back", "held", *CAME_IN}


def modules() -> Iterator[tuple[ModuleType, ast.Module]]:
    """Yield every module that decides, with its syntax."""
    for path in sorted((ROOT / "tasks").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        yield import_module(name), ast.parse(path.read_text())


def value_of(module: ModuleType, node: ast.expr) -> Any:
    """Evaluate a literal, or a name of its module; None of anything else."""
    if isinstance(node, ast.Constant):
        return node.value
    return getattr(module, node.id, None) if isinstance(node, ast.Name) else None


def reasons() -> Iterator[str]:
    """Yield the first word of all that any module notes as what a decision came of."""
    for module, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "unit.inputs.append":
                given = node.args[0]
                if isinstance(given, ast.List):
                    yield value_of(module, given.elts[0])


def rules() -> Iterator[str]:
    """Yield the rule of every revision that a module makes, and of steps that it adds."""
    for module, tree in modules():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            name, given = ast.unparse(node.func).rpartition(".")[2], node.args
            if name == "Revision" and len(given) > 2 and isinstance(given[2], ast.Tuple):
                yield from (value_of(module, each) for each in given[2].elts)
            elif name in ("log_added", "insert_behind"):
                rule = given[1] if name == "log_added" else given[4]
                yield from filter(None, [value_of(module, rule)])


def test_every_revision_that_there_is_has_words() -> None:
    found = set(rules())

    assert {SPLIT, APART, BASELINE, MEND, DROPPED, "check_changed", "unfolding"} < found
    assert REVISED.keys() == {*STRATEGIES, *found}


def test_every_reason_that_a_decision_is_noted_with_has_words() -> None:
    found = set(reasons())

    assert found >= {"outcome", "needs", "no place", "file wait", SPLIT}
    assert found <= TOLD | TOLD_ELSEWHERE


def test_files_that_were_given_are_named() -> None:
    line = {"now": 0, "in": [["needs", "fix", 2, ["src/a.py", "src/b.py"]]]}

    (found,) = decisions_of([line], None, None)

    assert (found.title, found.step_id) == ("Given files", "fix")
    assert found.values == (("attempt", "2"), ("files", "src/a.py, src/b.py"))


def test_every_line_of_every_recorded_plan_is_told_in_words() -> None:
    seen: set[str] = set()
    for recorded in read():
        lines = [codec.loads(line) for each in recorded["outputs"] for line in each.get("log", ())]
        came_in = {said[0] for line in lines for said in line["in"]}
        assert came_in <= TOLD | TOLD_ELSEWHERE, came_in
        for each in decisions_of(lines, None, None):
            assert each.kind in TITLES
            assert each.text.endswith(".")
            assert not any(part in each.text for part in ("{", "[", "The rule ")), each.text
            assert all(isinstance(value, str) and value for _, value in each.values)
            seen.add(each.kind)
    assert seen >= {"revised", "refused", "command", "lapsed", "released", "held", "clock"}


def test_a_halt_is_told_with_its_rule_value_limit_and_what_would_let_it_go_on() -> None:
    evidence = {"value": 3, "limit": 3, "limit_name": "identical_failures", "step_id": "a", "unblock": "Raise it."}
    halt = {"rule": "identical_failure", "reason": "a failed 3 times", "evidence": evidence}

    (found,) = decisions_of([], halt, "2026-11-24T10:00:00.000Z")

    assert (found.kind, found.text, found.step_id) == ("halted", "A failed 3 times.", "a")
    assert dict(found.values) == {
        "rule": "identical_failure", "value": "3", "limit": "3", "counted": "identical failures",
        "to go on": "Raise it.",
    }  # fmt: skip


def test_a_goal_that_was_rejected_is_told_as_a_sentence() -> None:
    halt = {"rule": "rejected", "reason": "path_traversal", "evidence": {"value": 1, "limit": 0}}

    (found,) = decisions_of([], halt, "2026-11-24T10:00:00.000Z")

    assert (found.kind, found.text) == ("rejected", "The goal was rejected: path_traversal.")
