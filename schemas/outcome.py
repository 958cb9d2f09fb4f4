"""A controller's report about one attempt."""

from __future__ import annotations

import math
import operator
from enum import StrEnum
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    FiniteFloat,
    GetPydanticSchema,
    StringConstraints,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)
from pydantic_core import core_schema

from schemas.base import Folder, Inbound, Line, Path, PlanId, StepId, Word
from schemas.integrity import Integrity
from schemas.text_kinds import TextKind
from schemas.traceparent import Traceparent

MAX_OUTCOME_BYTES = 256 * 1024
MAX_OUTPUT_BYTES = 64 * 1024
MAX_TRACE_CHARS = 4096
MAX_TOUCHED = 1000  # files of each list of an outcome
MAX_NEEDED = 20
_AS_DOUBLE = 10**308  # readers with doubles cannot hold larger integers


def _whole(value: float) -> int:
    """Round away from 0, so that an exit code of 0.5 does not pass; values beyond 10^18 become 10^18.

    An infinite value raises ValueError: not every reader of JSON accepts its form.
    """
    if not math.isfinite(value):
        raise ValueError("not finite")
    bounded = min(max(-1e18, value), 1e18)
    return math.ceil(bounded) if bounded > 0 else math.floor(bounded)


# A number of any value: the decision about the plan limits it. Integers are read without a call into Python.
Figure = Annotated[
    int,
    GetPydanticSchema(
        lambda _source, _handler: core_schema.union_schema(
            [
                core_schema.int_schema(ge=-_AS_DOUBLE, le=_AS_DOUBLE),
                core_schema.no_info_after_validator_function(_whole, core_schema.float_schema(allow_inf_nan=True)),
            ],
            mode="left_to_right",
            custom_error_type="number_type",
            custom_error_message="Input should be a number",
        )
    ),
    WithJsonSchema({"type": "number"}),
]


def _take_words_for_none(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """Read a value that is no number as None: earlier outcomes used these names for other data.

    A number that cannot be read is still refused, because a log with it could not be read.
    """
    return read(value) if isinstance(value, int | float) else None


LaterFigure = Annotated[Figure | None, WrapValidator(_take_words_for_none)]


class Metrics(Inbound):
    """The usage of the attempt; for missing tokens and patch cycles the reservation counts, below 0 counts as 0.

    Tokens are booked up to the rest of the plan's limit.
    """

    tokens_used: Figure | None = None
    duration_ms: Figure | None = None
    patch_cycles: Figure | None = None
    tool_calls: Figure | None = None
    input_tokens: LaterFigure = (
        None  # `cached_tokens` of them from the provider's cache; `tokens_used` leaves these out
    )
    output_tokens: LaterFigure = None
    cached_tokens: LaterFigure = None
    cost_usd: Annotated[FiniteFloat | None, WrapValidator(_take_words_for_none)] = None


class FailureEvidence(Inbound):
    """The controller's evidence of a failure. Untrusted data; `category` may be any word and is then classified."""

    category: Word | None = None
    top_failing_tests: tuple[Line, ...] = Field(default=(), max_length=100)
    stack_trace_head: Annotated[str, StringConstraints(max_length=MAX_TRACE_CHARS), TextKind.LOG] | None = None
    suggestion: Annotated[str, StringConstraints(max_length=4096), TextKind.LOG] | None = None
    error_codes: tuple[Word, ...] = Field(default=(), max_length=100)
    affected_files: tuple[Path, ...] = Field(default=(), max_length=100)
    error_line: Figure | None = None


class ReleaseKind(StrEnum):
    """The kind of trouble for which a controller hands an attempt back."""

    HOST = "host"  # a program, a repository, its setup
    PROVIDER = "provider"  # of the agent's model: a rate limit, an expired login, an outage
    REVIEW = "review"  # the repository has as many open changes as people can review
    REQUIRES = "requires"  # an addition to the spec that the controller does not understand


def _take_unreadable_for_none(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """Read an invalid value as None: no outcome is refused because of it."""
    try:
        return read(value)
    except ValidationError:
        return None


class Transcript(Inbound):
    """The place of an agent's transcript: a file on the controller's host, next to the attempt's other files."""

    path: Line
    digest: Word | None = None
    host: Word | None = None
    sent: Annotated[Word | None, WrapValidator(_take_unreadable_for_none)] = None  # digest of the attached transcript


class ReportKind(StrEnum):
    """How much of a tool's report of its tests was read."""

    WHOLE = "whole"
    PARTIAL = "partial"  # it began, and its end is missing or contradicts it
    NONE = "none"


class TestWord(StrEnum):
    """The result of one test in a report."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    XFAILED = "xfailed"
    DESELECTED = "deselected"
    ABSENT = "absent"  # the report does not have it


MAX_NAMED = 50  # named tests of a receipt
MAX_TEST_FILES = 100  # whose tests a receipt counts
TestCount = Annotated[int, Field(ge=0, le=10**9)]
TestName = Annotated[str, StringConstraints(min_length=1, max_length=1000), TextKind.LOG]


class TestFigures(Inbound):
    """The counts in the report of a verification, and the results of the failing tests that the spec names."""

    passed: TestCount = 0
    failed: TestCount = 0
    skipped: TestCount = 0
    xfailed: TestCount = 0
    deselected: TestCount = 0
    collected: TestCount = 0  # all of them but those that were deselected
    digest: Word | None = None
    named: dict[TestName, TestWord] = Field(default_factory=dict, max_length=MAX_NAMED)
    files: dict[Path, TestCount] = Field(  # collected by file, where the names of tests have one
        default_factory=dict, max_length=MAX_TEST_FILES, exclude_if=operator.not_
    )

    @property
    def ended(self) -> int:
        """Count the tests that have an outcome."""
        return self.passed + self.failed + self.skipped + self.xfailed


class VerifyReceipt(Inbound):
    """The proof that a verification ran: its exit code, the digest of its output, and its report of tests."""

    tool: Word
    exit_code: Figure
    output_digest: Word | None = None
    tests: Annotated[TestFigures | None, WrapValidator(_take_unreadable_for_none)] = None
    report: Annotated[ReportKind | None, WrapValidator(_take_unreadable_for_none)] = None
    isolation: Annotated[Word | None, WrapValidator(_take_unreadable_for_none)] = None
    cwd: Annotated[Folder | None, WrapValidator(_take_unreadable_for_none)] = Field(
        default=None, exclude_if=lambda folder: folder is None
    )  # the folder that it ran in, where that is told
    strict: Annotated[bool | None, WrapValidator(_take_unreadable_for_none)] = Field(
        default=None, exclude_if=lambda told: told is None
    )  # whether it ran in its strict mode, where its step asks for that


class Released(Inbound):
    """Why an attempt is handed back: the trouble of its host or its model's provider."""

    reason: Annotated[str, StringConstraints(max_length=4096), TextKind.LOG]
    kind: Annotated[ReleaseKind | None, WrapValidator(_take_unreadable_for_none)] = None


Evaluation = Annotated[  # what was measured of the change, by the names of metrics
    dict[Annotated[str, StringConstraints(min_length=1, max_length=128)], FiniteFloat], Field(max_length=100)
]


def _cut(size: int) -> BeforeValidator:
    """Keep the first `size` items of a list: no outcome is refused because of a long list."""
    return BeforeValidator(lambda value: value[:size] if isinstance(value, list | tuple) else value)


FewPaths = Annotated[tuple[Path, ...], Field(max_length=MAX_NEEDED), _cut(MAX_NEEDED)]
LinesByFile = Annotated[dict[Path, Figure], Field(max_length=MAX_TOUCHED)]
ManyPaths = Annotated[tuple[Path, ...], Field(max_length=MAX_TOUCHED), _cut(MAX_TOUCHED)]


class Needs(Inbound):
    """Further files that an attempt has to change, and why."""

    files: FewPaths
    reason: Annotated[str, StringConstraints(max_length=4096), TextKind.LOG] = ""


class CannotVerify(Inbound):
    """A tool of the verification that could not run: its output, and its folder."""

    tool: Word
    cwd: Path | None = None
    reason: Annotated[str, StringConstraints(max_length=4096), TextKind.LOG] = ""


class BaseJudgement(StrEnum):
    """The result of the tests of the base."""

    SAME = "same"  # they fail no more than the plan's own, or there are none
    DIVERGES = "diverges"
    NOT_RUN = "not_run"  # a tool could not run, or ran none of them


class Judged(Inbound):
    """The results of additional judgements of an attempt that its spec requested (`judged_by`)."""

    base: Annotated[BaseJudgement | None, WrapValidator(_take_unreadable_for_none)] = None
    holdout: Word | None = None  # the digest of held-out tests that ran and passed


class GivenInstructions(Inbound):
    """The repository's own instructions that an agent got, with their digests, or why it got none."""

    given: dict[Path, Word] = Field(default_factory=dict, max_length=1000)
    left_out: Line | None = None


class AtTarget(Inbound):
    """The verification at the tip of the target branch, if that has moved from the plan's first commit."""

    target_sha: Word
    verify: tuple[VerifyReceipt, ...] = Field(default=(), max_length=50)


class Outcome(Inbound):
    """The result of one attempt. `plan_id`, `attempt` and `lease` may be in the entry's fields instead."""

    step_id: StepId
    success: bool
    tests_passed: bool | None = None
    touched_files: ManyPaths = ()
    diff_hash: Word | None = None
    metrics: Metrics | None = None
    failure_evidence: FailureEvidence | None = None
    plan_id: PlanId | None = None
    attempt: int | None = Field(default=None, ge=1, le=1_000_000)
    lease: Word | None = None
    created_files: ManyPaths = ()
    growth_kb: Figure | None = None
    error_message: Annotated[str, StringConstraints(max_length=4096), TextKind.LOG] | None = None
    verify: tuple[VerifyReceipt, ...] | None = Field(default=None, max_length=50)
    output: Annotated[Any, TextKind.LOG] = None
    controller: Word | None = None
    nothing_to_change: Annotated[str, StringConstraints(max_length=4096), TextKind.LOG] | None = None
    verified_at: Word | None = None  # the commit that was verified, where the spec asked for another than the tip
    at_target: Annotated[AtTarget | None, WrapValidator(_take_unreadable_for_none)] = None  # where the spec asked
    failing_tests: tuple[Line, ...] = Field(default=(), max_length=2000)
    failing_tests_complete: bool = False  # whether these are all tests that fail
    released: Released | None = None
    transcript: Annotated[Transcript | None, WrapValidator(_take_unreadable_for_none)] = None
    evaluation: Annotated[Evaluation | None, TextKind.LOG, WrapValidator(_take_unreadable_for_none)] = None
    commit: Annotated[Word | None, WrapValidator(_take_unreadable_for_none)] = None  # that the change landed as
    ref: Annotated[Word | None, WrapValidator(_take_unreadable_for_none)] = None  # that has it: of the remote, or here
    needs: Annotated[Needs | None, WrapValidator(_take_unreadable_for_none)] = None  # next to `success: false`
    cannot_verify: Annotated[CannotVerify | None, WrapValidator(_take_unreadable_for_none)] = None  # as `needs` does
    patterns: Annotated[bool | None, WrapValidator(_take_unreadable_for_none)] = None  # `allowed_patterns` were obeyed
    discarded_files: ManyPaths = ()
    deleted_files: ManyPaths = ()  # of those touched, the ones that are no more; the old name of a file is one
    changed_lines: Annotated[LinesByFile | None, WrapValidator(_take_unreadable_for_none)] = None  # new or gone
    touched_count: LaterFigure = None  # of the files that were touched, where the list was cut
    integrity: Annotated[Integrity | None, WrapValidator(_take_unreadable_for_none)] = None  # of the change
    judged: Annotated[Judged | None, WrapValidator(_take_unreadable_for_none)] = None  # in addition to its verification
    instructions: Annotated[GivenInstructions | None, WrapValidator(_take_unreadable_for_none)] = None
    agent: Annotated[Word | None, WrapValidator(_take_unreadable_for_none)] = None  # that did the work
    model: Annotated[Word | None, WrapValidator(_take_unreadable_for_none)] = None  # that it asked
    traceparent: Traceparent = None  # of the attempt, or as the spec has it; may be the entry's field instead

    @model_validator(mode="before")
    @classmethod
    def _count_touched(cls, said: Any) -> Any:
        """Count the files of a truncated list; the controller's own count is used if it is larger."""
        touched = said.get("touched_files") if isinstance(said, dict) else None
        if not isinstance(touched, list | tuple) or len(touched) <= MAX_TOUCHED:
            return said
        told = said.get("touched_count")
        return {**said, "touched_count": max(len(touched), told) if type(told) is int else len(touched)}

    def tells(self, name: str) -> bool:
        """Return whether the outcome has the field; an empty list counts."""
        return name in self.model_fields_set
