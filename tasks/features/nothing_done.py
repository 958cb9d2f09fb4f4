"""Refuses successes that changed nothing: an attempt of a patching step that touched no file did not do its step.

Only an empty list of touched files shows that; a controller that sends no list is not judged. A step may allow an empty
change. Parts of a split change may be empty, if at least one of them changed a file. A controller may also report why
there is nothing to change, if the verification of the step passed.
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
NOTHING_TO_CHANGE = "nothing_to_change"  # the reason of a done step that needed no change
_CHANGED = "changed "  # with the first part after it, the note that a part changed a file


def refuse(unit: UnitOfWork, seen: Judgement) -> Failure | None:
    """Refuse a success that changed nothing; if it counts anyway, set the reason of the step's end."""
    step, outcome, passed = seen.step, seen.outcome, seen.doubt is None
    if outcome.touched_files and not step.facts["piece_of"]:
        return None
    failure = _failure_of(unit, step, outcome, passed=passed)
    if failure is None:
        seen.reason = seen.reason or _reason_of(step.facts, outcome, passed=passed)
    return failure


def _failure_of(unit: UnitOfWork, step: Step, outcome: Outcome, *, passed: bool) -> Failure | None:
    """Return the failure of a success that changed nothing, and note a part that changed a file; None if it counts.

    `passed` is whether the verification of the step passed. Raises NeedsSteps if the snapshot lacks the note.
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
    """Return whether the controller reports why there is nothing to change, and a verification passed."""
    said = bool(outcome.nothing_to_change and outcome.nothing_to_change.strip())
    return said and passed and bool(facts["verify_tools"])


def _reason_of(facts: Mapping[str, Any], outcome: Outcome, *, passed: bool) -> str | None:
    """Return the reason of a done step that changed nothing; None for any other step."""
    if facts["mode"] != Mode.PATCH or outcome.touched_files or outcome.created_files:
        return None
    return NOTHING_TO_CHANGE if _says_why(facts, outcome, passed=passed) else None


def _suggestion(outcome: Outcome) -> str:
    if outcome.nothing_to_change:
        return "Nothing was changed, and no passed verification shows that no change is needed: make the asked change"
    if outcome.discarded_files:
        return f"Not this step's, and put back: {', '.join(outcome.discarded_files[:SHOWN])}. Nothing else was changed"
    return "Nothing was changed: change what is asked, or say in nothing_to_change why nothing has to be."


FEATURE = Feature("nothing_done", (REFUSALS.row(refuse),), is_idle_about=did_something, end_fields=("piece_of",))
