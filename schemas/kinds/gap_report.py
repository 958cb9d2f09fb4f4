"""The input of a `gap_report` goal, and its iteration plan."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from schemas.base import Inbound, Line, Path, Record, Word
from schemas.text_kinds import TextKind

MAX_EVIDENCE = 16_000
MAX_TARGETS = 100  # files of one action


class _Lower(StrEnum):
    """Words that are lower case on the wire and may come in any case."""

    @classmethod
    def _missing_(cls, value: object) -> _Lower | None:
        word = value.strip().casefold() if isinstance(value, str) else None
        return next((each for each in cls if each.value == word), None)


class Priority(_Lower):
    """How urgent a gap is, the most urgent first."""

    URGENT = "urgent"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class IterationOutcome(_Lower):
    """How an iteration ended."""

    SUCCESS = "success"
    PARTIAL = "partial"
    FAILURE = "failure"
    ROLLBACK = "rollback"


class ActionType(_Lower):
    """The effect of an action on its files."""

    CREATE = "create"
    MODIFY = "modify"
    DELETE = "delete"


class EstimatedRisk(_Lower):
    """The scale of an iteration's risk, which is not that of steps."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError as error:
        raise ValueError("This time is out of range.") from error


def _lines(value: Any) -> Any:
    """Take a text as its lines, without the marks of a list."""
    if not isinstance(value, str):
        return value
    return [line for line in (each.strip().lstrip("-*+").strip() for each in value.splitlines()) if line]


CheckName = Annotated[str, StringConstraints(min_length=1, max_length=200), TextKind.COMMAND]
Moment = Annotated[datetime, AfterValidator(_in_utc)]
Text = Annotated[str, StringConstraints(max_length=4096), TextKind.PROSE]


class Gap(Inbound):
    """A missing or wrong thing in a project. Its words are untrusted."""

    category: Word
    description: Text
    priority: Priority = Priority.MEDIUM
    roadmap_version: Annotated[str, StringConstraints(max_length=200), TextKind.SENTENCE] = ""
    evidence: Annotated[str, StringConstraints(max_length=MAX_EVIDENCE), TextKind.LOG] = ""


class GapReport(Inbound):
    """All gaps of a project. `most_critical` is null if there are none; if it is left out it is the first in order.

    The order is that of the analysis: priority first, then quality, inbox, roadmap.
    """

    gaps: tuple[Gap, ...] = Field(default=(), max_length=1000)
    most_critical: Gap | None = None
    timestamp: Moment | None = None


class Execution(Inbound):
    """The changes of an earlier iteration; the fields that the planner reads."""

    success: bool | None = None
    files_changed: tuple[Annotated[Any, TextKind.LOG], ...] = ()
    error_message: Text | None = None


class Verification(Inbound):
    """The verification of an earlier iteration; the fields that the planner reads."""

    all_passed: bool | None = None
    summary: Text | None = None


class IterationRecord(Inbound):
    """An iteration that is over; records may come in any order."""

    iteration_id: Word
    timestamp: Moment
    gap_addressed: Gap
    outcome: IterationOutcome
    plan: Annotated[dict[str, Any], TextKind.LOG] | None = None
    execution: Execution | None = None
    verification: Verification | None = None
    duration_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    notes: Text | None = None


class InboxItem(Inbound):
    """A wish of a person, from a file of the inbox."""

    filename: Word
    title: Line
    what: Text = ""
    why: Text = ""
    priority: Priority = Priority.MEDIUM
    constraints: Annotated[tuple[Line, ...], BeforeValidator(_lines), Field(max_length=100)] = ()


class GapProject(Inbound):
    """The project as it is: its files, and the texts of those that describe its modules."""

    files: tuple[Path, ...] = ()
    documents: dict[Path, Annotated[str, TextKind.LOG]] = Field(default_factory=dict)


class GapGoal(Inbound):
    """The input of a `gap_report` goal; without a report, the inbox is analysed."""

    gap_report: GapReport | None = None
    recent_records: tuple[IterationRecord, ...] = Field(default=(), max_length=1000)
    inbox: tuple[InboxItem, ...] = Field(default=(), max_length=500)
    project: GapProject = GapProject()
    protected_paths: tuple[Path, ...] = Field(default=(), max_length=500)
    checks: tuple[CheckName, ...] | None = Field(default=None, max_length=20)  # with a `+`: added to the default ones


def _is_empty(value: object) -> bool:
    return not value


class PlannedGap(Record):
    """The gap of an iteration, in the plan's document.

    `tally` counts the findings of its tool, such as `UP007 (51), I001 (10)`, or the failed tests.
    """

    category: str
    description: str
    priority: Priority
    roadmap_version: str
    evidence: str
    tally: str = Field(default="", exclude_if=_is_empty)


class PlannedAction(Record):
    """One action; `target_files` may name folders, which end with a slash, and may be empty."""

    description: str
    target_files: tuple[str, ...] = Field(default=(), max_length=MAX_TARGETS)
    action_type: ActionType


class PassedReason(StrEnum):
    """Why a gap was passed over."""

    OUTSIDE = "outside"  # the goal allows none of its files
    PROTECTED = "protected"  # all that it is about is
    FAILED = "failed"  # too often in a row


class PassedGap(Record):
    """A gap before the planned one; `files` are those that the goal does not allow."""

    category: str
    description: str
    reason: PassedReason
    files: tuple[str, ...] = ()


class IterationPlan(Record):
    """The document of a `gap_report` plan: one gap, its actions, and its acceptance criteria.

    `outside` are files of the actions that the goal does not allow: no step touches them. `gaps_left` counts the other
    gaps of the report.
    """

    iteration_id: Annotated[str, StringConstraints(pattern=r"^iter-\d{4,}-\d{8}-\d{6}$")]
    gap: PlannedGap
    actions: tuple[PlannedAction, ...]
    acceptance_criteria: tuple[str, ...]
    estimated_risk: EstimatedRisk
    outside: tuple[str, ...] = Field(default=(), exclude_if=_is_empty)
    passed_over: tuple[PassedGap, ...] = Field(default=(), exclude_if=_is_empty)
    gaps_left: int = Field(default=0, exclude_if=_is_empty)
