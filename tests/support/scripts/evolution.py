"""Evolution goals as they are published, and controllers that draft their plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.kinds.evolution import FILES
from tests.support.scripted import Says, Spec

BASE = "0123456789abcdef0123456789abcdef01234567"
CARDS = [
    {"commit_hash": BASE, "subject": "Base"},
    {"commit_hash": "c1", "parent_commit_hash": BASE, "change_summary": "Hash the keys"},
    {"commit_hash": "c2", "parent_commit_hash": "c1", "change_summary": "Hash them once"},
]


def a_goal(mode: str, files: list[str] | None = None, **more: Any) -> dict[str, Any]:
    """An evolution goal as a producer writes it, with a history to plan from."""
    history = {"base": {"commit_hash": BASE}, "inspirations": [{"commit_hash": "c2"}], "commit_cards": CARDS}
    body = {"goal": "Make it faster", "kind": "evolution", "allowed_files": files or FILES}
    context = {"language": "python", "test_command": "pytest", "repo": "acme/shop"}
    return {**body, "context": context, "evolution": {**history, "validation_mode": mode}, **more}


def answering(*answers: Any, **others: Mapping[str, Any]) -> Says:
    """Answer the attempts at the draft one after the other, and other steps as their type or with success."""
    left = list(answers)

    def says(spec: Spec) -> Mapping[str, Any]:
        kind = spec["controller_task_spec"]["type"]
        return {"output": left.pop(0)} if kind == "DRAFT" else others.get(kind, {})

    return says
