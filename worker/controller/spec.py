"""A step spec as a controller reads it: only what it needs, so that a newer planner may say more."""

from __future__ import annotations

from typing import Any

from pydantic import AwareDatetime, Field

from schemas.base import Inbound, Mode, Path, PlanId, StepId, Word


class Tool(Inbound):
    """One verification, ready to run without a shell."""

    tool: Word
    argv: tuple[str, ...] = Field(min_length=1)
    timeout_s: float = Field(gt=0)
    pass_codes: tuple[int, ...] = (0,)


class Context(Inbound):
    """Where the work begins."""

    base_sha: str | None = Field(default=None, pattern=r"^[^-]")  # a word that git cannot take for an option


class Limits(Inbound):
    """How large the change may be."""

    max_diff_lines: int | None = None


class Spec(Inbound):
    """One attempt of one step."""

    plan_id: PlanId
    step_id: StepId
    attempt: int = Field(ge=1, le=1_000_000)
    mode: Mode
    title: str = ""
    allowed_files: tuple[Path, ...] = ()
    verify_tools: tuple[Tool, ...] = ()
    context: Context = Context()
    limits: Limits = Limits()
    lease: Word
    lease_key: str
    deadline: AwareDatetime
    reply_to: str
    input: Any = None  # what the agent is asked beside the spec; its answer is what the plan goes on with

    @property
    def ids(self) -> dict[str, str | int]:
        """Say which attempt this is. Without its lease, which is a secret and has no place in a log."""
        return {"plan_id": self.plan_id, "step_id": self.step_id, "attempt": self.attempt}
