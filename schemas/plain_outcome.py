"""The outcome of a successful attempt in the strict form of nearly all outcomes: it is read eight times as fast.

Another form is no error: `Outcome` judges it. A value in this form has the same meaning there, and all of its fields
are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

_Figure = Annotated[int, Meta(ge=0, le=10**12)]  # any such figure counts as it is reported
_Word = Annotated[str, Meta(min_length=1, max_length=200)]
_Path = Annotated[str, Meta(min_length=1, max_length=512)]
_Count = Annotated[int, Meta(ge=0, le=10**9)]
_TestName = Annotated[str, Meta(min_length=1, max_length=1000)]
_Paths = Annotated[Sequence[_Path], Meta(max_length=1000)]  # a list where it was sent, else the default


class PlainMetrics(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """The usage of the attempt, as in `Metrics`."""

    tokens_used: _Figure | None = None
    duration_ms: _Figure | None = None
    patch_cycles: _Figure | None = None
    tool_calls: _Figure | None = None
    input_tokens: _Figure | None = None
    output_tokens: _Figure | None = None
    cached_tokens: _Figure | None = None
    cost_usd: Annotated[float, Meta(ge=0, le=10**9)] | None = None


class PlainTests(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """The counts of a report, as in `TestFigures`."""

    passed: _Count = 0
    failed: _Count = 0
    skipped: _Count = 0
    xfailed: _Count = 0
    deselected: _Count = 0
    collected: _Count = 0
    digest: _Word | None = None
    named: Annotated[dict[_TestName, Literal["passed"]], Meta(max_length=50)] = msgspec.field(default_factory=dict)
    files: Annotated[dict[_Path, _Count], Meta(max_length=100)] = msgspec.field(default_factory=dict)

    @property
    def ended(self) -> int:
        """The number of tests that have an outcome, as in `TestFigures`."""
        return self.passed + self.failed + self.skipped + self.xfailed


class PlainReceipt(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """The proof that a verification ran, as in `VerifyReceipt`."""

    tool: _Word
    exit_code: Annotated[int, Meta(ge=-(10**9), le=10**9)]
    output_digest: _Word | None = None
    tests: PlainTests | None = None
    report: Literal["whole", "none"] | None = None
    isolation: _Word | None = None
    cwd: _Path | None = None
    strict: bool | None = None


class PlainTranscript(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """The place of the agent's transcript, as in `Transcript`."""

    path: Annotated[str, Meta(max_length=1000)]
    digest: _Word | None = None
    host: _Word | None = None
    sent: _Word | None = None


class PlainInstructions(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """The instructions that the agent got, as in `GivenInstructions`."""

    given: Annotated[dict[_Path, _Word], Meta(max_length=1000)] = msgspec.field(default_factory=dict)
    left_out: None = None


class PlainOutcome(Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """A success that names its plan, attempt and lease, and has no rare field.

    `step_id` and `plan_id` may be any text here: the search for the step finds nothing for a wrong id.
    """

    step_id: str
    success: bool
    plan_id: str
    attempt: Annotated[int, Meta(ge=1, le=1_000_000)]
    lease: _Word
    tests_passed: bool | None = None
    touched_files: _Paths = ()
    diff_hash: _Word | None = None
    metrics: PlainMetrics | None = None
    failure_evidence: None = None
    created_files: _Paths = ()
    deleted_files: _Paths = ()
    growth_kb: None = None
    error_message: None = None
    verify: Annotated[list[PlainReceipt], Meta(max_length=50)] | None = None
    output: None = None
    controller: _Word | None = None
    nothing_to_change: None = None
    verified_at: _Word | None = None
    released: None = None
    transcript: PlainTranscript | None = None
    commit: _Word | None = None
    patterns: bool | None = None
    instructions: PlainInstructions | None = None

    def tells(self, name: str) -> bool:
        """Return whether the outcome has the list `name`, as in `Outcome`."""
        return isinstance(getattr(self, name), list)


decode_plain = msgspec.json.Decoder(PlainOutcome).decode  # raises the errors in NOT_PLAIN for another form
NOT_PLAIN = (msgspec.DecodeError, UnicodeDecodeError)
