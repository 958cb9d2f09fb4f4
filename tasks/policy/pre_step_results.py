"""What a preparation found goes to the attempt that it was for: as data, in the context of that attempt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.base import StepState as S
from schemas.outcome import Outcome
from schemas.stored import StepStatus
from tasks.plan.snapshot import Step
from tasks.policy.outcome_verdict import fit


def found(facts: Mapping[str, Any], outcome: Outcome) -> dict[str, Any] | None:
    """Take what the outcome of a preparation tells; None for any other step, or where it tells nothing."""
    if not facts["inserted_by"]:
        return None
    evidence, said = outcome.failure_evidence, outcome.output if isinstance(outcome.output, str) else ""
    codes = fit(", ".join(f"{each.tool} exit code {each.exit_code}" for each in outcome.verify or ()))
    text = fit((evidence and evidence.stack_trace_head) or said)
    return {"codes": codes, "text": text} if codes or text else None


def note_doubt(step: Step) -> None:
    """Keep with a step that is done that nothing proved it, beside what a preparation found.

    Workers of before read `codes` and `text` of every preparation that left something.
    """
    empty = {"codes": "", "text": ""} if step.facts["inserted_by"] else {}
    step.status.previous = {**empty, **(step.status.previous or {}), "verified": False}


def is_verified(status: StepStatus, facts: Mapping[str, Any]) -> bool | None:
    """Tell whether a step that is done was proved; None where it is not done, or nothing verifies it."""
    if status.state != S.DONE or not facts["verify_tools"]:
        return None
    return bool((status.previous or {}).get("verified", True))


def hand_on(step: Step, preparation: Step) -> None:
    """Put what `preparation` found behind what the last failure of `step` suggested."""
    known, previous = preparation.status.previous, step.status.previous
    if known and previous and (known["codes"] or known["text"]):
        told = f"Before this attempt {preparation.step_id} ran ({known['codes'] or 'no exit code'}): {known['text']}"
        suggestion = " ".join(filter(None, (previous["suggestion"], told.strip())))
        step.status.previous = {**previous, "suggestion": suggestion}
