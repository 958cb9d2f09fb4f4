"""A campaign: its input, the answers of explorers and people, and its document plan.json."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, FiniteFloat, StringConstraints

from schemas.base import CommandLine, Inbound, Line, Outbound, Path, Record, Word
from schemas.text_kinds import TextKind

MAX_TASKS = 64
MAX_OBJECTIVE = 16_000
LEAST_CONFIDENCE = 0.6  # a framework that was found with less is only noted


class ModeStatus(StrEnum):
    """How one of the four modes of an exploration ended."""

    OK = "ok"
    PARTIAL = "partial"
    ERROR = "error"


class Relevance(StrEnum):
    """How certain it is that a candidate file changes."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class CoherenceDecision(StrEnum):
    """The decision whether a task's delta alone is enough to write its verification."""

    PROCEED = "PROCEED"
    CONFIRM = "CONFIRM"
    CLARIFY = "CLARIFY"


class TaskType(StrEnum):
    """Tests first, then code, then the final validation."""

    SPEC = "SPEC"
    BUILD = "BUILD"
    VERIFY = "VERIFY"


class TaskStatus(StrEnum):
    """The progress of a task."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETE = "complete"
    BLOCKED = "blocked"


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _letter(value: Any) -> Any:
    said = _lower(value)
    return "c" if said == "both" else said


def _none(value: Any) -> Any:
    return () if value is None else value


_T = TypeVar("_T")
_Status = Annotated[ModeStatus, BeforeValidator(_lower)]
_Relevance = Annotated[Relevance, BeforeValidator(_lower)]
_Range = Annotated[str, StringConstraints(max_length=1000), TextKind.KEY]  # such as 10-40
_Number = Annotated[str, StringConstraints(pattern=r"^[1-9]$"), TextKind.KEY]
_Pattern = Annotated[str, StringConstraints(max_length=1000), TextKind.PATH]
_Share = Annotated[FiniteFloat, Field(ge=0, le=1)]
_Lines = Annotated[tuple[Line, ...], Field(max_length=100), BeforeValidator(_none)]
_Many = Annotated[tuple[_T, ...], Field(max_length=500), BeforeValidator(_none)]


class Function(Inbound):
    """A function of a candidate file, and the line it begins at."""

    name: Word
    line: int = Field(ge=1, le=10**7)


class Candidate(Inbound):
    """A file that may have to change."""

    path: Path
    lines: Annotated[Any, TextKind.LOG] = None
    functions: _Many[Function] = ()
    relevance: _Relevance = Relevance.MEDIUM
    confidence: _Share = 0.5


class FoundIdioms(Inbound):
    """The idioms that an explorer found the framework to require and to forbid."""

    required: _Lines = ()
    forbidden: _Lines = ()


class StructureMode(Inbound):
    """How the repository is laid out."""

    status: _Status = ModeStatus.OK
    directories: Annotated[Any, TextKind.LOG] = None
    test_pattern: _Pattern | None = None
    test_patterns: Annotated[tuple[_Pattern, ...], Field(max_length=100), BeforeValidator(_none)] = ()
    entry_points: Annotated[Any, TextKind.LOG] = None
    config_files: Annotated[Any, TextKind.LOG] = None
    file_count: int = Field(default=0, ge=0, le=10**9)
    language: Word | None = None


class PatternMode(Inbound):
    """The framework of the repository, the confidence in it, and its idioms."""

    status: _Status = ModeStatus.OK
    framework: Word | None = None
    confidence: _Share = 0.5
    idioms: FoundIdioms | None = None
    style: Annotated[Any, TextKind.LOG] = None
    readme_sections: Annotated[Any, TextKind.LOG] = None


class RememberedFailure(Inbound):
    """A failure of an earlier campaign that is relevant to the objective."""

    name: Word
    cost: Annotated[FiniteFloat, Field(ge=0, le=10**9)] = 0
    trigger: Annotated[str, TextKind.PROSE] | None = Field(default=None, max_length=4000)
    fix: Annotated[str, TextKind.PROSE] | None = Field(default=None, max_length=4000)


class RememberedPattern(Inbound):
    """A practice that worked in an earlier campaign."""

    name: Word
    saved: Annotated[FiniteFloat, Field(ge=0, le=10**9)] = 0
    insight: Annotated[str, TextKind.PROSE] | None = Field(default=None, max_length=4000)


class Memory(Inbound):
    """Remembered results of earlier campaigns."""

    failures: _Many[RememberedFailure] = ()
    patterns: _Many[RememberedPattern] = ()
    similar_campaigns: _Many[Annotated[Any, TextKind.LOG]] = ()


class MemoryMode(Memory):
    """The part of the memory that is relevant to the objective."""

    status: _Status = ModeStatus.OK
    total_in_memory: int = Field(default=0, ge=0, le=10**9)


class DeltaMode(Inbound):
    """The files of the objective."""

    status: _Status = ModeStatus.OK
    search_terms: _Lines = ()
    candidates: _Many[Candidate] = ()


class Exploration(Inbound):
    """The answers of the four modes; a missing one has not answered."""

    structure: StructureMode | None = None
    pattern: PatternMode | None = None
    memory: MemoryMode | None = None
    delta: DeltaMode | None = None


class GivenTask(Inbound):
    """A task of a plan made elsewhere. The planner judges its fields itself, and reports all errors at once."""

    seq: Annotated[str, TextKind.KEY] = Field(max_length=20)
    slug: Annotated[str, TextKind.KEY] = Field(max_length=100)
    type: TaskType = TaskType.BUILD
    delta: tuple[Path, ...] = Field(default=(), max_length=500)
    verify: CommandLine
    budget: FiniteFloat | None = None  # none: by the formula
    depends: Annotated[Any, TextKind.KEY] = "none"
    preflight: tuple[CommandLine, ...] = Field(default=(), max_length=20)
    verify_source: Line | None = None
    target_lines: dict[Path, _Range] = Field(default_factory=dict, max_length=100)
    creates: tuple[Path, ...] = Field(default=(), max_length=500)


class CampaignInput(Inbound):
    """The input of a goal of the kind `campaign`; without an objective the goal's sentence is the objective."""

    objective: Annotated[str, StringConstraints(max_length=MAX_OBJECTIVE), TextKind.PROSE] | None = None
    exploration: Exploration | None = None
    memory: Memory | None = None
    tasks: tuple[GivenTask, ...] | None = Field(default=None, max_length=MAX_TASKS)
    framework: Word | None = None


class DraftedTasks(Inbound):
    """A drafter's answer: plan.json; only its tasks count."""

    tasks: tuple[GivenTask, ...] = Field(min_length=1, max_length=MAX_TASKS)


class ClarifyAnswer(Inbound):
    """A person's answer to a question, as an object instead of a text."""

    candidates: tuple[Path, ...] = Field(default=(), max_length=100)
    test_pattern: _Pattern | None = None
    verify: CommandLine | None = None
    choice: Annotated[str, BeforeValidator(_letter), StringConstraints(pattern=r"^[abc]$"), TextKind.KEY] | None = None
    choices: dict[
        _Number, Annotated[str, BeforeValidator(_letter), StringConstraints(pattern=r"^[abc]$"), TextKind.KEY]
    ] = Field(default_factory=dict, max_length=9)  # of the further questions, by their numbers
    confirm: bool | None = None
    depends: dict[Word, Annotated[tuple[Word, ...], Field(max_length=MAX_TASKS)]] = Field(
        default_factory=dict, max_length=MAX_TASKS
    )  # of tasks that wait for what is not there


class Idioms(Record):
    """The idioms that the framework requires and forbids."""

    required: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()


class PlanTask(Record):
    """A task of plan.json."""

    seq: str
    slug: str
    type: TaskType
    delta: tuple[str, ...]
    verify: str
    budget: int
    depends: str | tuple[str, ...]
    preflight: tuple[str, ...] | None = None
    verify_source: str | None = None
    target_lines: dict[str, str] | None = None
    creates: tuple[str, ...] | None = None
    sections: tuple[str, ...] | None = None  # of the objective, that it is for


class CampaignPlan(Outbound):
    """The document plan.json of a campaign: these five fields, all required."""

    objective: str
    campaign: str
    framework: str
    idioms: Idioms
    tasks: tuple[PlanTask, ...]


_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
TASKS_SCHEMA: dict[str, Any] = {  # for a drafter's answer, with explanations for a model
    "type": "object",
    "required": ["tasks"],
    "properties": {
        "tasks": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_TASKS,
            "items": {
                "type": "object",
                "required": ["seq", "slug", "type", "delta", "verify", "depends"],
                "properties": {
                    "seq": {"type": "string", "pattern": "^[0-9]{3}$"},
                    "slug": {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$", "maxLength": 100},
                    "type": {"type": "string", "enum": [each.value for each in TaskType]},
                    "delta": _TEXTS,
                    "verify": {"type": "string", "minLength": 1, "maxLength": 1000},
                    "budget": {"type": "integer", "minimum": 5, "maximum": 9},
                    "depends": {"anyOf": [_TEXT, _TEXTS]},
                    "preflight": _TEXTS,
                    "creates": _TEXTS,
                },
            },
        }
    },
}
