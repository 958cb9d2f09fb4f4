"""What a drafter of an evolution plan answers, and what is kept of it.

The models hold an answer to the same limits as PLANNING_OUTPUT_SCHEMA, which its drafter is shown.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from schemas.base import Outbound, Record
from schemas.evolution import ValidationMode


def _words(most: int) -> Any:
    return StringConstraints(min_length=1, max_length=most)


Item200 = Annotated[str, _words(200)]
Item256 = Annotated[str, _words(256)]


class PlanStepOutput(Outbound):
    """One step as a drafter writes it."""

    id: Annotated[str, _words(64)]
    title: Annotated[str, _words(120)]
    intent: Annotated[str, _words(400)]
    actions: tuple[Item200, ...] = Field(min_length=1, max_length=12)
    validation: tuple[Item200, ...] = Field(min_length=1, max_length=12)
    files: tuple[Item256, ...] = Field(default=(), max_length=30)
    references: tuple[Item256, ...] = Field(default=(), max_length=12)
    dependencies: tuple[Item200, ...] = Field(default=(), max_length=12)
    risks: tuple[Item200, ...] = Field(default=(), max_length=12)


class PlanningOutput(Outbound):
    """A plan as a drafter writes it."""

    plan_summary: Annotated[str, _words(512)]
    rationale: Annotated[str, _words(2048)]
    focus_metrics: tuple[Item200, ...] = Field(min_length=1, max_length=10)
    guardrails: tuple[Item200, ...] = Field(min_length=1, max_length=20)
    risks: tuple[Item200, ...] = Field(min_length=1, max_length=20)
    validation: tuple[Item200, ...] = Field(min_length=1, max_length=20)
    steps: tuple[PlanStepOutput, ...] = Field(min_length=1, max_length=6)
    handoff_notes: tuple[Item200, ...] = Field(default=(), max_length=20)
    fallback_plan: Annotated[str, StringConstraints(max_length=1200)] | None = None


def _text(most: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": most}


def _list(least: int, most: int, items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", **({"minItems": least} if least else {}), "maxItems": most, "items": items}


def _object(required: dict[str, Any], optional: dict[str, Any]) -> dict[str, Any]:
    shape = {"type": "object", "additionalProperties": False}
    return {**shape, "required": list(required), "properties": {**required, **optional}}


PLANNING_OUTPUT_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://planner.dev/schemas/1/planning_output.schema.json",
    **_object(
        {
            "plan_summary": _text(512),
            "rationale": _text(2048),
            "focus_metrics": _list(1, 10, _text(200)),
            "guardrails": _list(1, 20, _text(200)),
            "risks": _list(1, 20, _text(200)),
            "validation": _list(1, 20, _text(200)),
            "steps": _list(
                1,
                6,
                _object(
                    {
                        "id": _text(64),
                        "title": _text(120),
                        "intent": _text(400),
                        "actions": _list(1, 12, _text(200)),
                        "validation": _list(1, 12, _text(200)),
                    },
                    {
                        "files": _list(0, 30, _text(256)),
                        "references": _list(0, 12, _text(256)),
                        "dependencies": _list(0, 12, _text(200)),
                        "risks": _list(0, 12, _text(200)),
                    },
                ),
            ),
        },
        {
            "handoff_notes": _list(0, 20, _text(200)),
            "fallback_plan": {"type": ["string", "null"], "maxLength": 1200},
        },
    ),
}


# The plan as it is kept: the same words under the names of its domain.


class PlanStep(Record):
    """One step of a drafted plan."""

    step_id: str
    title: str
    intent: str
    actions: tuple[str, ...]
    files: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()
    references: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Tell the step as JSON does, with lists."""
        return self.model_dump(mode="json")


class PlanningPlan(Record):
    """A drafted plan, read and held to its limits."""

    summary: str
    rationale: str
    focus_metrics: tuple[str, ...]
    guardrails: tuple[str, ...]
    risks: tuple[str, ...]
    validation: tuple[str, ...]
    steps: tuple[PlanStep, ...]
    handoff_notes: tuple[str, ...] = ()
    fallback_plan: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Tell the plan as JSON does, with lists."""
        return self.model_dump(mode="json")


class PlanningAgentResponse(Record):
    """How a plan was drafted: the document of an evolution goal. `plan` is null until the draft is there.

    `attempts` counts the answers that were asked for, `duration_seconds` is the time from the first question to the
    answer that was taken.
    """

    plan: PlanningPlan | None = None
    raw_output: str = ""
    prompt: str  # the digest of the prompt; the prompt itself goes to the drafter
    request: str  # the digest of the request
    validation_mode: ValidationMode
    drafter: str = "queue"
    command: tuple[str, ...] = ()
    stderr: str = ""
    attempts: int | None = None
    duration_seconds: float | None = None
    notes: tuple[str, ...] = ()
    trajectories: tuple[dict[str, Any], ...] = ()
