"""A campaign's plan: its document plan.json, and the schema by which a drafter answers with its tasks."""

from __future__ import annotations

from typing import Any

from schemas.base import Outbound, Record
from schemas.campaign import MAX_TASKS, TaskType


class Idioms(Record):
    """What the framework asks for, and what it forbids."""

    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()


class PlanTask(Record):
    """A task of plan.json."""

    seq: str
    slug: str
    type: TaskType
    delta: tuple[str, ...]
    verify: str
    budget: int
    depends: str | tuple[str, ...]
    preflight: tuple[str, ...] | None = None
    verify_source: str | None = None
    target_lines: dict[str, str] | None = None
    creates: tuple[str, ...] | None = None


class CampaignPlan(Outbound):
    """A task of plan.json: these five fields, all required."""

    objective: str
    campaign: str
    framework: str
    idioms: Idioms
    tasks: tuple[PlanTask, ...]


_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
TASKS_SCHEMA: dict[str, Any] = {  # of a drafter's answer, with what a model needs to be told
    "type": "object",
    "required": ["tasks"],
    "properties": {
        "tasks": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_TASKS,
            "items": {
                "type": "object",
                "required": ["seq", "slug", "type", "delta", "verify", "depends"],
                "properties": {
                    "seq": {"type": "string", "pattern": "^[0-9]{3}$"},
                    "slug": {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$", "maxLength": 100},
                    "type": {"type": "string", "enum": [each.value for each in TaskType]},
                    "delta": _TEXTS,
                    "verify": {"type": "string", "minLength": 1, "maxLength": 1000},
                    "budget": {"type": "integer", "minimum": 5, "maximum": 9},
                    "depends": {"anyOf": [_TEXT, _TEXTS]},
                    "preflight": _TEXTS,
                    "creates": _TEXTS,
                },
            },
        }
    },
}
