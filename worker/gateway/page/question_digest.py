"""What a form asks a person, as a digest: what is sent counts for what its reader saw, and for nothing that came later.

Pure.
"""

from __future__ import annotations

from hashlib import blake2b

from schemas import codec
from schemas.plan import StepView, Waiting
from worker.gateway.problems import Refusal

STATUS = 409
BYTES = 16
OF_STEP = {"step_id", "title", "type", "mode", "risk_level", "attempt", "allowed_files", "verify"}  # what a form shows


def digest_of(waiting: Waiting | None, step: StepView | None, until: int | None) -> str:
    """Return the digest of what a plan asks, and of a step that waits for its approval until a time in ms.

    Each time that something is asked it has another end, which tells two questions apart that say the same.
    """
    question = waiting.model_dump(mode="json") if waiting else None
    told = step.model_dump(mode="json", include=OF_STEP) if step else None
    return blake2b(codec.canonical([question, told, until]), digest_size=BYTES).hexdigest()


def changed() -> Refusal:
    """Refuse what was sent about something that is not asked any more."""
    return Refusal("question_changed", "The question has changed since this page was opened. Read it again.", STATUS)
