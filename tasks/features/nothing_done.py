"""Whether a success did anything: an attempt that was to patch and changed no file has not done its step.

Only a list of touched files that was sent and is empty says so; a controller that sends none is not judged by it. A
step may allow it, pieces of a split change do as long as one of them changed a file, and a controller may say why there
is nothing to change, if the verification of the step passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.base import FailureCategory, Mode
from schemas.outcome import Outcome
from schemas.step import PreviousFailure
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.outcome_verdict import did_something, is_empty
from tasks.policy.pipeline import REFUSALS, Failure, Feature, Judgement

SHOWN = 5  # files that were put back
NOTHING_TO_CHANGE = "nothing_to_change"  # the reason of a step that is done so
_CHANGED = "changed "  # before the first of the pieces: the name of the note that one of them changed a file


def refuse(unit: UnitOfWork, seen: Judgement) -> Failure | None:
    """Refuse a success that did nothing; one that counts all the same may be the reason for which its step is done."""
    step, outcome, passed = seen.step, seen.outcome, seen.doubt is None
    if outcome.touched_files and not step.facts["piece_of"]:
        return None
    failure = _failure_of(unit, step, outcome, passed=passed)
    if failure is None:
        seen.reason = seen.reason or _reason_of(step.facts, outcome, passed=passed)
    return failure


def _failure_of(unit: UnitOfWork, step: Step, outcome: Outcome, *, passed: bool) -> Failure | None:
    """Return why a success is none that did nothing, and note where it did something; None where it counts.

    `passed` is whether the verification of the step did. Raises NeedsSteps where the snapshot lacks the note.
    """
    facts = step.facts
    if facts["mode"] != Mode.PATCH:
        return None
    pieces = facts["piece_of"]
    if not is_empty(outcome):
        if pieces:
            unit.keep_note(_CHANGED + pieces, value=True)
        return None
    if facts["allow_empty"] or facts["inserted_by"] or _says_why(facts, outcome, passed=passed):
        return None
    if pieces and unit.note(_CHANGED + pieces):
        return None
    unit.inputs.append(["no change", step.step_id, step.status.attempt])
    return PreviousFailure(category=FailureCategory.NO_CHANGE.value, suggestion=_suggestion(outcome)).model_dump()


def _says_why(facts: Mapping[str, Any], outcome: Outcome, *, passed: bool) -> bool:
    """Whether the controller says why there is nothing to change, and a verification that passed stands for it."""
    said = bool(outcome.nothing_to_change and outcome.nothing_to_change.strip())
    return said and passed and bool(facts["verify_tools"])


def _reason_of(facts: Mapping[str, Any], outcome: Outcome, *, passed: bool) -> str | None:
    """Name the reason for which a step is done that changed nothing, None for any other."""
    if facts["mode"] != Mode.PATCH or outcome.touched_files or outcome.created_files:
        return None
    return NOTHING_TO_CHANGE if _says_why(facts, outcome, passed=passed) else None


def _suggestion(outcome: Outcome) -> str:
    if outcome.nothing_to_change:
        return "Nothing was changed, and no verification that passed shows that nothing has to be: change what is asked"
    if outcome.discarded_files:
        return f"Not this step's, and put back: {', '.join(outcome.discarded_files[:SHOWN])}. Nothing else was changed"
    return "Nothing was changed: change what is asked, or say in nothing_to_change why nothing has to be."


FEATURE = Feature("nothing_done", (REFUSALS.row(refuse),), is_idle_about=did_something, end_fields=("piece_of",))
