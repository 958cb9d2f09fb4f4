"""Makes the document of an evolution plan: the prompt, the plan, and the attempts and time of its draft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.kinds.evolution import PLANNING_OUTPUT_SCHEMA, PlanningAgentResponse, PlanningPlan, ValidationMode
from tasks.rules.strategy import LivePlan
from tasks.strategies.drafting.steps import GovernedSteps
from tasks.text.fields import several_lines
from tasks.text.json_in_prose import as_text
from tasks.text.secrets import fit_redacted

MAX_PROMPT = 16_000  # stored characters of the prompt
MAX_RAW = 8000  # stored characters of the answer


@dataclass(frozen=True, slots=True)
class AcceptedDraft:
    """The accepted answer of a drafter, with its attempts, seconds, notes, command and error output."""

    plan: PlanningPlan
    output: Any
    attempts: int
    seconds: float
    notes: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    stderr: str = ""


def document_of(live: LivePlan) -> PlanningAgentResponse:
    """Return the document of a plan."""
    return PlanningAgentResponse.model_validate(live.document)


def drafted_plan(live: LivePlan) -> PlanningPlan:
    """Return the drafted plan. Raises LookupError if the plan has not been drafted yet."""
    plan = document_of(live).plan
    if plan is None:
        raise LookupError("This plan has not been drafted yet.")
    return plan


def mode_of(live: LivePlan) -> ValidationMode:
    """Return the mode that decides how the drafter's answer is read: strict, lenient or none."""
    return document_of(live).validation_mode


def schema_of(live: LivePlan) -> Mapping[str, Any] | None:
    """Return the schema for the drafter; None if it writes free text."""
    return None if mode_of(live) is ValidationMode.NONE else PLANNING_OUTPUT_SCHEMA


def shown_prompt(prompt: str) -> str:
    """Return a sanitized prompt for the document; if it is too long, its end is cut and counted."""
    more = len(prompt) - MAX_PROMPT
    return f"{prompt[:MAX_PROMPT]}\n[{more} characters more]" if more > 0 else prompt


def describe_draft(live: LivePlan, draft: AcceptedDraft, made: GovernedSteps) -> PlanningAgentResponse:
    """Return the document with the drafted plan, the drafter's output, its attempts and its time."""
    return document_of(live).model_copy(
        update={
            "plan": draft.plan,
            "raw_output": fit_redacted(as_text(draft.output), MAX_RAW, cut=several_lines),
            "command": draft.command,
            "stderr": draft.stderr,
            "attempts": draft.attempts,
            "duration_seconds": round(draft.seconds, 3),
            "notes": (*draft.notes, *notes_of((*made.faults, *made.notes))),
        }
    )


def notes_of(found: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the faults and changes of a draft as sentences, each after the pointer to its place."""
    return tuple(f"{where}: {why}" for where, why in found)
