"""Reads a drafter's answer as a plan: by the schema, by its valid fields, or as free text; then judges the plan.

`parse` never raises. In every mode the result is within the limits of PLANNING_OUTPUT_SCHEMA. It contains no attack on
its later readers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from schemas.base import Mode
from schemas.contract.strict import leave_out_nulls
from schemas.envelope import FieldError, field_error
from schemas.kinds.evolution import (
    PLANNING_OUTPUT_SCHEMA,
    PlanningAgentRequest,
    PlanningOutput,
    PlanningPlan,
    PlanStep,
    PlanStepOutput,
    ValidationMode,
)
from schemas.wording import expected
from tasks.rules.strategy import LivePlan
from tasks.strategies.drafting.cycle import QUEUE, Refusal
from tasks.strategies.drafting.steps import crowd, room_for
from tasks.strategies.evolution.document import document_of, drafted_plan, mode_of
from tasks.strategies.evolution.request import FOCUS
from tasks.strategies.evolution.state import project_in, state_of
from tasks.strategies.evolution.steps import Places, places, plan_steps
from tasks.text.fields import fit, several_lines
from tasks.text.forbidden_paths import JUDGED
from tasks.text.json_in_prose import fit_schema, read_json
from tasks.text.paths import fault
from tasks.text.secrets import hold_back

MAX_ERRORS = 20  # shown at once
NO_FIELDS = "/"  # pointer of a fault in the whole answer

RATIONALE = "The answer gave no reasons in the requested form; the plan follows it without them."
TEST_LINE = "Run the tests: nothing that passed before may fail."
NO_METRIC = "The evaluation of the base commit."
NO_GUARDRAIL = "Change nothing that the goal does not ask for."
NO_RISK = "The drafter named no risks."
NOTHING_TO_CHANGE = "No step of the plan changes a file that may be changed."
NOTHING_FOUND = "None of these files is among the allowed ones."
NOTES = MappingProxyType(
    {
        ValidationMode.LENIENT: "Made of an answer that did not follow the schema.",
        ValidationMode.NONE: "Made of free text: no schema was asked for.",
    }
)


@dataclass(frozen=True, slots=True)
class ParsedPlan:
    """A drafter's plan with sanitized words, the faults that a lenient mode ignored, and the changes of the answer."""

    plan: PlanningPlan
    errors: tuple[FieldError, ...] = ()  # faults of the answer that a mode other than strict ignored
    notes: tuple[str, ...] = ()  # changes of the answer


def parse(output: Any, mode: ValidationMode, request: PlanningAgentRequest) -> ParsedPlan | Refusal:
    """Return the plan in the answer to `request`, or a refusal; an empty answer is refused in every mode."""
    output, text = hold_back(output)
    if not fit(text, 512):
        return Refusal((field_error(NO_FIELDS, "empty_output", "The answer is empty."),))
    if mode is ValidationMode.NONE:
        return _synthetic(text, request, mode)
    output = _without_nulls(output)
    found = _strict(output)
    if mode is ValidationMode.STRICT or isinstance(found, ParsedPlan):
        return found
    try:
        mended = fit_schema(_with_ids(read_json(output)), PLANNING_OUTPUT_SCHEMA)
    except ValueError:
        return _synthetic(text, request, mode, errors=found.errors)
    again = _strict(mended)
    if isinstance(again, ParsedPlan):
        return ParsedPlan(again.plan, found.errors, ("Parts that were too long or not requested were cut.",))
    return _synthetic(text, request, mode, _valid_fields(mended), found.errors)


def judge(live: LivePlan, output: Any) -> ParsedPlan | Refusal:
    """Return the plan in an answer, or a refusal with the faults to repair.

    In modes other than strict, an answer is refused only if it is empty, changes nothing, or has too many steps.
    """
    found = parse(output, mode_of(live), state_of(live).request)
    if isinstance(found, Refusal):
        return found
    made = plan_steps(project_in(live), found.plan, state_of(live).request.acceptance_criteria)
    if mode_of(live) is ValidationMode.STRICT and made.faults:
        return Refusal(tuple(field_error(where, "invalid_plan", why) for where, why in made.faults))
    if made.steps and all(step.mode is not Mode.PATCH for step in made.steps):
        return Refusal((field_error("/steps", "nothing_to_change", NOTHING_TO_CHANGE),))
    errors = crowd(made.steps, _room(live))
    return Refusal(errors) if errors else found


def find_places(live: LivePlan, output: Any) -> Places | str:
    """Return the files for each step that named none, or a sentence if an answer cannot be used."""
    found = places(output, drafted_plan(live), state_of(live).unplaced, project_in(live))
    if not any(found.values()):
        return NOTHING_FOUND
    made = plan_steps(project_in(live), drafted_plan(live), state_of(live).request.acceptance_criteria, found)
    return Refusal(crowd(made.steps, _room(live, 1))).message or found


def _room(live: LivePlan, before: int = 0) -> int:
    """Return how many more steps the plan may have; a step that asked a controller for the draft counts."""
    return room_for(live.goal, before + (document_of(live).drafter == QUEUE))


def _without_nulls(output: Any) -> Any:
    """Remove nulls, because the strict form of the schema has no other way to leave a field out."""
    try:
        found = read_json(output)
    except ValueError:
        return output
    return leave_out_nulls(found, PLANNING_OUTPUT_SCHEMA) if isinstance(found, dict) else output


def _strict(output: Any) -> ParsedPlan | Refusal:
    try:
        return ParsedPlan(_plan(PlanningOutput.model_validate(read_json(output))))
    except ValidationError as error:
        return Refusal(_errors(error))
    except ValueError as error:
        return Refusal((field_error(NO_FIELDS, "invalid_json", f"This is no JSON: {fit(str(error), 200)}"),))


def _with_ids(value: Any) -> Any:
    """Accept `step_id` for `id`, as older drafters wrote it."""
    if not isinstance(value, dict) or not isinstance(value.get("steps"), list):
        return value
    steps = [
        {"id": each["step_id"], **each} if isinstance(each, dict) and "step_id" in each else each
        for each in value["steps"]
    ]
    return {**value, "steps": steps}


def _valid_fields(value: Any) -> dict[str, Any]:
    """Return the fields of an answer that have no fault."""
    if not isinstance(value, dict):
        return {}
    try:
        PlanningOutput.model_validate(value)
    except ValidationError as error:
        wrong = {each["loc"][0] for each in error.errors(include_url=False, include_input=False) if each["loc"]}
        return {name: found for name, found in value.items() if name not in wrong}
    return value


def _synthetic(
    text: str,
    request: PlanningAgentRequest,
    mode: ValidationMode,
    fields: Mapping[str, Any] = MappingProxyType({}),
    errors: tuple[FieldError, ...] = (),
) -> ParsedPlan:
    """Return a plan made from free text: one step, unless `fields` contains steps that the answer had."""
    criteria = _lines(request.acceptance_criteria, 20) or [TEST_LINE]
    short = fit(text, 512)
    made = {
        "plan_summary": short,
        "rationale": RATIONALE,
        "focus_metrics": _lines((each.name for each in request.base.metrics[:FOCUS]), FOCUS) or [NO_METRIC],
        "guardrails": _lines(request.constraints, 20) or [NO_GUARDRAIL],
        "risks": [NO_RISK],
        "validation": criteria,
        "handoff_notes": [NOTES[mode]],
        "fallback_plan": fit(text, 1200, several_lines) or None,
        **fields,
    }
    if "steps" not in fields:  # one step, truncated to the size of an action; the whole text is the fallback plan
        step = {
            "id": f"{'lenient' if mode is ValidationMode.LENIENT else 'free'}-1",
            "title": fit(request.goal, 120) or "Carry the plan out",
            "intent": fit(request.goal, 400) or "Carry the plan out",
            "actions": [fit(text, 200)],
            "validation": criteria[:12],
        }
        made["steps"] = [step]
    return ParsedPlan(_plan(PlanningOutput.model_validate(made)), errors, (NOTES[mode],))


def _plan(output: PlanningOutput) -> PlanningPlan:
    """Return the plan of an answer, with sanitized words that are cut to the limits."""
    return PlanningPlan(
        summary=fit(output.plan_summary, 512, several_lines),
        rationale=fit(output.rationale, 2048, several_lines),
        focus_metrics=tuple(_lines(output.focus_metrics, 10)),
        guardrails=tuple(_lines(output.guardrails, 20)),
        risks=tuple(_lines(output.risks, 20)),
        validation=tuple(_lines(output.validation, 20)),
        steps=tuple(map(_step, output.steps)),
        handoff_notes=tuple(_lines(output.handoff_notes, 20)),
        fallback_plan=fit(output.fallback_plan or "", 1200, several_lines) or None,
    )


def _step(step: PlanStepOutput) -> PlanStep:
    return PlanStep(
        step_id=fit(step.id, 64),
        title=fit(step.title, 120),
        intent=fit(step.intent, 400),
        actions=tuple(_lines(step.actions, 12)),
        files=tuple(path if fault(path, JUDGED) is None else fit(path, 256) for path in map(str.strip, step.files)),
        dependencies=tuple(_lines(step.dependencies, 12)),
        validation=tuple(_lines(step.validation, 12)),
        risks=tuple(_lines(step.risks, 12)),
        references=tuple(_lines(step.references, 12, 256)),
    )


def _lines(lines: Iterable[str], most: int, size: int = 200) -> list[str]:
    return [line for line in (fit(each, size) for each in lines) if line][:most]


def _errors(error: ValidationError) -> tuple[FieldError, ...]:
    """Return the errors of an answer, each with its pointer and in terms of JSON.

    An error of a whole object is left out if a field of the same object has an error.
    """
    found = error.errors(include_url=False, include_input=False, include_context=False)
    within = {each["loc"][:depth] for each in found for depth in range(1, len(each["loc"]))}
    errors = []
    for each in [each for each in found if each["loc"] not in within][:MAX_ERRORS]:
        pointer = "/" + "/".join(fit(str(part), 64) for part in each["loc"])
        message = fit(expected(each), 200)
        errors.append(field_error(pointer, each["type"], message))
    return tuple(errors)
