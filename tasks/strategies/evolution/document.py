"""What the document of an evolution plan shows: the prompt, the plan, and what it took to get it."""

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

MAX_PROMPT = 16_000  # characters of the prompt that are kept
MAX_RAW = 8000  # characters of the answer that are kept


@dataclass(frozen=True, slots=True)
class AcceptedDraft:
    """The answer that was accepted, and what it took to get it."""

    plan: PlanningPlan
    output: Any
    attempts: int
    seconds: float
    notes: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    stderr: str = ""


def document_of(live: LivePlan) -> PlanningAgentResponse:
    """Read the document of a plan."""
    return PlanningAgentResponse.model_validate(live.document)


def drafted_plan(live: LivePlan) -> PlanningPlan:
    """Read the drafted plan; there is one once drafting has ended."""
    plan = document_of(live).plan
    if plan is None:
        raise LookupError("This plan has not been drafted yet.")
    return plan


def mode_of(live: LivePlan) -> ValidationMode:
    """Return how this plan's draft is read."""
    return document_of(live).validation_mode


def schema_of(live: LivePlan) -> Mapping[str, Any] | None:
    """Give the schema that the drafter is shown; free text has none."""
    return None if mode_of(live) is ValidationMode.NONE else PLANNING_OUTPUT_SCHEMA


def shown_prompt(prompt: str) -> str:
    """Bound a prompt for the document; it is sanitised already."""
    more = len(prompt) - MAX_PROMPT
    return f"{prompt[:MAX_PROMPT]}\n[{more} characters more]" if more > 0 else prompt


def describe_draft(live: LivePlan, draft: AcceptedDraft, made: GovernedSteps) -> PlanningAgentResponse:
    """Add the plan, and what it took to get it, to the document."""
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
    """Return what was changed without asking, of pointers and sentences."""
    return tuple(f"{where}: {why}" for where, why in found)
