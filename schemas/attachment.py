"""Attachments of an attempt, which are too large for its outcome."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Base64Bytes, Field

from schemas.base import Inbound, PlanId, StepId, Word

MAX_ATTACHMENT_BYTES = 256 * 1024


Kind = Literal["diff", "transcript"]


class Attachment(Inbound, defer_build=False):  # FastAPI builds no body that is deferred
    """The diff of an attempt or a transcript of its agent, sent before its outcome.

    It is shown only after an outcome with its SHA-256 as `diff_hash` or as `transcript.sent` was accepted. One of each
    kind is kept for an attempt.
    """

    plan_id: PlanId
    step_id: StepId
    attempt: int = Field(ge=1, le=1_000_000)
    kind: Kind = "diff"
    content: Annotated[Base64Bytes, Field(max_length=MAX_ATTACHMENT_BYTES)]
    lease: Word | None = None
