"""Campaign goals as producers publish them, and controllers that answer the steps from a script."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.scripted import Says

FILES = ["src/auth.py", "src/api.py", "tests/test_auth.py", "tests/test_api.py"]
EXPLORATION: dict[str, Any] = {
    "structure": {"status": "ok", "test_pattern": "tests/test_*.py", "file_count": 12, "language": "python"},
    "pattern": {"status": "ok", "framework": "FastAPI", "confidence": 0.9},
    "memory": {"status": "partial", "failures": [{"name": "race", "cost": 5000, "fix": "lock the session"}]},
    "delta": {
        "status": "ok",
        "candidates": [
            {"path": "src/auth.py", "relevance": "high", "functions": [{"name": "login", "line": 12}]},
            {"path": "src/api.py", "relevance": "medium"},
        ],
    },
}


def a_task(seq: str, slug: str, kind: str, depends: Any, verify: str, *delta: str) -> dict[str, Any]:
    return {"seq": seq, "slug": slug, "type": kind, "depends": depends, "verify": verify, "delta": list(delta)}


TASKS = [
    a_task("001", "spec-auth", "SPEC", "none", "python-syntax", "tests/test_auth.py"),
    a_task("002", "build-auth", "BUILD", "001", "pytest -q tests/test_auth.py", "src/auth.py"),
    a_task("003", "verify-all", "VERIFY", ["002"], "pytest -q"),
]


def a_goal(objective: str = "Add sessions", *, drafter: str | None = None, **campaign: Any) -> dict[str, Any]:
    said = {"objective": objective, **campaign}
    goal = {"goal": "Add sessions", "kind": "campaign", "campaign": said, "allowed_files": FILES, "drafter": drafter}
    return {**goal, "context": {"repo": "acme/shop", "base_sha": "9f1c2d4", "test_command": "pytest -q"}}


def scripted(answers: Mapping[str, Any]) -> Says:
    """Controllers that answer a step, by its id or its type, with these in turn, and then with success."""
    left = {name: list(each) if isinstance(each, list) else [each] for name, each in answers.items()}

    def says(spec: dict[str, Any]) -> Mapping[str, Any]:
        for name in (spec["step_id"], spec["controller_task_spec"]["type"]):
            if left.get(name):
                return {"output": left[name].pop(0)}
        return {"touched_files": spec["allowed_files"]}

    return says
