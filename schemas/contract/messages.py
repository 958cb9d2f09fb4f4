"""The public contract as documents: a JSON Schema per message, and the streams as AsyncAPI, both made of the models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from schemas import codec
from schemas.attachment import Attachment
from schemas.base import SCHEMA_VERSION, Outbound
from schemas.command import Command
from schemas.contract import streams
from schemas.contract.strict import strict_form
from schemas.envelope import DeadEntry
from schemas.event import EventData
from schemas.goal import Goal
from schemas.kinds.campaign import TASKS_SCHEMA
from schemas.kinds.evolution import PLANNING_OUTPUT_SCHEMA
from schemas.kinds.reviewed_plan_answers import PUBLISHED
from schemas.kinds.reviewed_plan_strict import strict_answer
from schemas.kinds.task import TASK_DRAFT_SCHEMA
from schemas.outcome import Outcome
from schemas.plan import PlanView
from schemas.step import StepContext, StepSpec

DIALECT = "https://json-schema.org/draft/2020-12/schema"
BASE = f"https://planner.dev/schemas/{SCHEMA_VERSION}/"


MESSAGES: dict[str, type[BaseModel]] = {
    "goal": Goal,
    "step_spec": StepSpec,
    "outcome": Outcome,
    "attachment": Attachment,
    "command": Command,
    "event": EventData,
    "dead": DeadEntry,
    "plan": PlanView,
}
ANSWERS: dict[str, dict[str, Any]] = {  # of drafters
    "task_draft": TASK_DRAFT_SCHEMA,
    "planning_output": PLANNING_OUTPUT_SCHEMA,
    "campaign_tasks": TASKS_SCHEMA,
}
UNPROMISED = {
    "step_spec": (
        "retry_limit",
        "queue",
        "estimate",
        "inserted_by",
        "allow_empty",
        "piece_of",
        "quick_checks",
        "answers_from",
        "allowed_patterns",
        "excluded_patterns",
        "focus",
        "requires",
        "setup",
        "judged_by",
        "input",
        "traceparent",
    )
}  # in every spec, no matter to controllers
GIVEN = ("repo", "base_sha", "failing_tests", "previous_failure")  # of the context of every spec
# Of parts of messages: fields that are only present with a value.
SELDOM = {
    "StepContext": tuple(name for name in StepContext.model_fields if name not in GIVEN),
    "StepLimits": ("max_files", "max_risk", "mutants"),
    "Place": ("lines",),
    "VerifyTool": ("cwd", "strict"),
}


class _Plain(GenerateJsonSchema):
    """Leaves out the titles that only repeat a field's name."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 (pydantic's signature)
        return False


class _Complete(_Plain):
    """Makes every field required, because the planner always sends all fields, defaults included."""

    def field_is_required(self, field: Any, total: bool) -> bool:  # noqa: ARG002 (pydantic's signature)
        return True


def documents() -> Iterator[tuple[str, bytes]]:
    """Yield the name and the text of every file of the contract."""
    for name in MESSAGES:
        yield f"{name}.schema.json", codec.pretty(schema(name))
    yield "planning_output.schema.json", codec.pretty(PLANNING_OUTPUT_SCHEMA)
    for name, answer in ANSWERS.items():
        if strict := strict_form(answer):
            about = {"$schema": DIALECT, "$id": f"{BASE}{name}.strict.schema.json"}
            yield f"{name}.strict.schema.json", codec.pretty({**about, **strict})
    for name, describe in PUBLISHED.items():
        for suffix, form in ((".schema.json", describe()), (".strict.schema.json", strict_answer(describe()))):
            yield f"{name}{suffix}", codec.pretty({"$schema": DIALECT, "$id": f"{BASE}{name}{suffix}", **form})
    yield "asyncapi.json", codec.pretty(streams.document(tuple(MESSAGES), SCHEMA_VERSION))


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a message.

    Readers and writers must accept fields that are not described: the planner's may gain some, and theirs are ignored.
    """
    model = MESSAGES[name]
    complete = issubclass(model, Outbound) and model is not EventData
    body = model.model_json_schema(schema_generator=_Complete if complete else _Plain)
    open_schema(body)
    unpromised = UNPROMISED.get(name, ())
    body["required"] = [field for field in body.get("required", ()) if field not in unpromised]
    for part, fields in SELDOM.items():
        if described := body.get("$defs", {}).get(part):
            described["required"] = [field for field in described["required"] if field not in fields]
    return {"$schema": DIALECT, "$id": f"{BASE}{name}.schema.json", **body}


def open_schema(schema: Any) -> None:
    """Remove `additionalProperties: false`: it protects the planner from its own defects, but must not bind readers."""
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    if isinstance(schema, dict) and schema.get("additionalProperties") is False:
        schema["additionalProperties"] = True
    for part in parts:
        open_schema(part)
