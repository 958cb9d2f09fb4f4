"""What a controller reports of one attempt (WIRE.md section 3; seed 001 "Controller -> Planner")."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from schemas.base import Count, Inbound, Line, Path, PlanId, StepId, Word

MAX_OUTCOME_BYTES = 256 * 1024
MAX_OUTPUT_BYTES = 64 * 1024
MAX_TRACE_CHARS = 4096


class Metrics(Inbound):
    """What the attempt used up; a figure that is missing settles at the step's estimate."""

    tokens_used: Count | None = None
    duration_ms: Count | None = None
    patch_cycles: Count | None = None
    tool_calls: Count | None = None


class FailureEvidence(Inbound):
    """What the controller saw go wrong. Untrusted data; `category` may be any word and is then classified."""

    category: Word | None = None
    top_failing_tests: tuple[Line, ...] = Field(default=(), max_length=100)
    stack_trace_head: Annotated[str, StringConstraints(max_length=MAX_TRACE_CHARS)] | None = None
    suggestion: Annotated[str, StringConstraints(max_length=4096)] | None = None
    error_codes: tuple[Word, ...] = Field(default=(), max_length=100)
    affected_files: tuple[Path, ...] = Field(default=(), max_length=100)
    error_line: int | None = None


class VerifyReceipt(Inbound):
    """The proof that a verification ran: its exit code and the digest of what it printed."""

    tool: Word
    exit_code: int
    output_digest: Word | None = None


class Outcome(Inbound):
    """The result of one attempt. `plan_id`, `attempt` and `lease` may stand in the entry's fields instead."""

    step_id: StepId
    success: bool
    tests_passed: bool | None = None
    touched_files: tuple[Path, ...] = Field(default=(), max_length=1000)
    diff_hash: Word | None = None
    metrics: Metrics | None = None
    failure_evidence: FailureEvidence | None = None
    plan_id: PlanId | None = None
    attempt: int | None = Field(default=None, ge=1, le=1_000_000)
    lease: Word | None = None
    created_files: tuple[Path, ...] = Field(default=(), max_length=1000)
    growth_kb: int | None = Field(default=None, ge=-(10**9), le=10**9)
    error_message: Annotated[str, StringConstraints(max_length=4096)] | None = None
    verify: tuple[VerifyReceipt, ...] | None = Field(default=None, max_length=50)
    output: Any = None
    controller: Word | None = None
