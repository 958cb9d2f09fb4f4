"""Validation errors speak JSON: what was expected stands in words of the schema, whatever Python makes of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from schemas import codec
from schemas.command import Command
from schemas.envelope import Problem
from schemas.goal import Goal
from schemas.outcome import Outcome
from worker.streams.decode import read_command, read_goal, read_outcome
from worker.streams.inbox import StreamEntry

PYTHON = re.compile(r"\b(tuple|dictionary|dict|list|set|frozenset|instance|None|Value error|model|after validation)\b")
SHOWN = re.compile(r"""\[(["'])msg\1\]""")
ROOT = Path(__file__).parents[2]
WRONG: tuple[Any, ...] = (7, "x", [], {}, [1], {"a": 1}, True, None, [[]], [{"a": []}], 1.5)
GOOD: dict[type[BaseModel], dict[str, Any]] = {
    Goal: {"goal": "Fix it", "goal_id": "g-1", "allowed_files": ["a.py"]},
    Outcome: {"plan_id": "p", "step_id": "s", "attempt": 1, "lease": "l", "success": True},
    Command: {"command": "halt", "scope": "plan", "plan_id": "p", "command_id": "c"},
}


def refused(model: type[BaseModel], body: dict[str, Any]) -> list[str]:
    entry = StreamEntry("", b"", {b"data": codec.dumps(body)})
    read: Any
    if model is Goal:
        read = read_goal(entry, 10_000, strict=True)
    else:
        read = read_outcome(entry) if model is Outcome else read_command(entry, strict=True)
    return [f"{each.pointer}: {each.message}" for each in read.errors] if isinstance(read, Problem) else []


@pytest.mark.parametrize("model", [Goal, Outcome, Command])
def test_no_error_of_any_field_speaks_of_pythons_types(model: type[BaseModel]) -> None:
    said = {
        sentence
        for name in model.model_fields
        for value in WRONG
        for sentence in refused(model, GOOD[model] | {name: value})
    }

    assert len(said) > 10
    assert sorted(each for each in said if PYTHON.search(each.partition(": ")[2])) == []
    assert all(each.startswith(("/", ": ")) for each in said)


def test_an_array_and_an_object_are_called_so() -> None:
    assert refused(Goal, GOOD[Goal] | {"allowed_files": "a.py"}) == ["/allowed_files: Input should be an array"]
    assert refused(Goal, GOOD[Goal] | {"context": []}) == ["/context: Input should be an object"]


def test_no_module_shows_what_pydantic_says_of_an_error() -> None:
    modules = {path for ring in ("schemas", "tasks", "worker") for path in (ROOT / ring).rglob("*.py")}

    assert {path.relative_to(ROOT).as_posix() for path in modules if SHOWN.search(path.read_text())} == {
        "schemas/wording.py"
    }
