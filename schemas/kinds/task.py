"""A drafter's answer for a `task`: the steps of a plan, in its own words."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from schemas.base import Outbound


def _words(most: int) -> Any:
    return StringConstraints(min_length=1, max_length=most)


Line = Annotated[str, _words(200)]


class TaskStepDraft(Outbound):
    """One step as a drafter writes it; one without files only reads."""

    id: Annotated[str, _words(64)]
    title: Annotated[str, _words(100)]
    intent: Annotated[str, _words(400)]
    actions: tuple[Line, ...] = Field(default=(), max_length=12)
    files: tuple[Annotated[str, _words(512)], ...] = Field(default=(), max_length=40)
    depends_on: tuple[Line, ...] = Field(default=(), max_length=12)
    validation: tuple[Line, ...] = Field(default=(), max_length=12)


class TaskDraft(Outbound):
    """A plan as a drafter writes it."""

    summary: Annotated[str, _words(512)]
    steps: tuple[TaskStepDraft, ...] = Field(min_length=1, max_length=12)


def _shape(model: type[Outbound]) -> dict[str, Any]:
    """Return the schema of a model for a drafter, with every field required: some endpoints know no optional ones."""
    found = model.model_json_schema()
    properties = {
        name: {word: value for word, value in each.items() if word not in ("title", "default")}
        for name, each in found["properties"].items()
    }
    shape = {"type": "object", "additionalProperties": False, "required": list(properties)}
    return {**shape, "properties": properties}


TASK_DRAFT_SCHEMA: dict[str, Any] = _shape(TaskDraft)
TASK_DRAFT_SCHEMA["properties"]["steps"]["items"] = _shape(TaskStepDraft)
