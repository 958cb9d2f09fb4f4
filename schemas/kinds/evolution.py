"""An evolution: its input, the request to its drafters and their answers, and the stored plan.

A drafter gets PLANNING_OUTPUT_SCHEMA, which is made from the models that validate its answer.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_serializer,
)

from schemas.base import Inbound, Outbound, Record
from schemas.text_kinds import TextKind

MAX_CARDS = 50_000  # chains of 4096 commits for a base and ten inspirations, and some more
MAX_SUMMARIES = 2000
MAX_KEY_FILES, MAX_HIGHLIGHTS, MAX_METRICS = 20, 8, 100  # of a card
NOT_TOLD = "N/A"  # replaces a blank summary


class ValidationMode(StrEnum):
    """How a drafted plan is read: by its schema or not, by its valid fields, or as free text."""

    STRICT = "strict"
    LENIENT = "lenient"
    NONE = "none"


def _on_one_line(value: Any) -> Any:
    return " ".join(value.split()) if isinstance(value, str) else value


CommitHash = Annotated[
    str, StringConstraints(min_length=1, max_length=64, pattern=r"^[^\s\x00-\x1f\x7f\x85]+$"), TextKind.REVISION
]
CardHash = Annotated[  # of commits that are only mentioned
    str, StringConstraints(min_length=1, max_length=64, pattern=r"^[^\s\x00-\x1f\x7f\x85]+$"), TextKind.KEY
]


def _cut(most: int) -> Any:
    """Truncate a text of a card that is too long: a card is about history, which cannot be rewritten."""
    return AfterValidator(lambda found: found if len(found) <= most else f"{found[: most - 1]}…")


def _first(most: int) -> Any:
    """Keep the first items of a card's list."""
    return AfterValidator(lambda found: found[:most])


Subject = Annotated[str, BeforeValidator(_on_one_line), _cut(72), TextKind.LOG]
Summary = Annotated[str, _cut(512), TextKind.LOG]
Bullet = Annotated[str, _cut(200), TextKind.LOG]
Demand = Annotated[str, StringConstraints(max_length=200), TextKind.SENTENCE]
Name = Annotated[str, _cut(256), TextKind.LOG]
Number = Annotated[float, Field(allow_inf_nan=False)]


class CommitMetric(Inbound):
    """One number from an evaluation."""

    name: Annotated[str, StringConstraints(min_length=1), _cut(128), TextKind.LOG]
    value: Number
    unit: Annotated[str, _cut(32), TextKind.LOG] | None = None
    higher_is_better: bool | None = None
    summary: Annotated[str, _cut(120), TextKind.LOG] | None = None


class _Commit(Inbound):
    """The facts of any commit; a blank subject or summary is filled in, and long values are truncated."""

    commit_hash: CommitHash
    subject: Subject = Field(default="", validate_default=True)
    change_summary: Summary = Field(default="", validate_default=True)
    key_files: Annotated[tuple[Name, ...], _first(MAX_KEY_FILES)] = ()
    highlights: Annotated[tuple[Bullet, ...], _first(MAX_HIGHLIGHTS)] = ()
    evaluation_summary: Summary | None = None
    metrics: Annotated[tuple[CommitMetric, ...], _first(MAX_METRICS)] = ()

    @field_validator("subject")
    @classmethod
    def _named(cls, subject: str, info: ValidationInfo) -> str:
        return subject or f"Commit {info.data.get('commit_hash', '')}".strip()

    @field_validator("change_summary")
    @classmethod
    def _summarised(cls, summary: str) -> str:
        return summary if summary.strip() else NOT_TOLD


class CommitCard(_Commit):
    """A link of the chain of evolution: a commit, and the one it came from."""

    commit_hash: CardHash
    parent_commit_hash: CardHash | None = None


class CommitPlanningContext(_Commit):
    """The facts about one commit for a plan: its change, its evaluation, and its origin."""

    trajectory: tuple[Annotated[str, StringConstraints(max_length=1000), TextKind.LOG], ...] = Field(
        default=(), max_length=100
    )
    trajectory_meta: Annotated[dict[str, Any], TextKind.LOG] | None = None
    cell_index: int | None = Field(
        default=None, validation_alias=AliasChoices("cell_index", "map_elites_cell_index"), ge=-(2**53), le=2**53
    )
    objective: Number | None = Field(default=None, validation_alias=AliasChoices("objective", "map_elites_objective"))
    measures: tuple[Number, ...] = Field(
        default=(), validation_alias=AliasChoices("measures", "map_elites_measures"), max_length=100
    )


class _Asked(Inbound):
    """The common fields of an evolution goal and of its request."""

    base: CommitPlanningContext
    inspirations: tuple[CommitPlanningContext, ...] = Field(default=(), max_length=10)
    constraints: tuple[Demand, ...] = Field(default=(), max_length=20)
    acceptance_criteria: tuple[Demand, ...] = Field(default=(), max_length=20)
    iteration_hint: Annotated[str, StringConstraints(max_length=256), TextKind.SENTENCE] | None = None
    cold_start: bool = False


class PlanningAgentRequest(_Asked):
    """The request to a drafter, ready for its prompt."""

    goal: Annotated[str, StringConstraints(min_length=1), TextKind.SENTENCE]


class ChunkSummary(Inbound):
    """An earlier summary of a whole block of commits; its ends and size identify it."""

    start_commit_hash: CardHash
    end_commit_hash: CardHash
    block_size: int = Field(default=8, ge=1, le=4096)
    model: Annotated[str, StringConstraints(max_length=200), TextKind.LOG] | None = None
    summary: Annotated[str, StringConstraints(min_length=1, max_length=4096), TextKind.LOG]


class Evolution(_Asked):
    """The input of an evolution goal; without `goal` the sentence of the goal is the aim."""

    goal: Annotated[str, StringConstraints(min_length=1, max_length=512), TextKind.SENTENCE] | None = None
    validation_mode: ValidationMode | None = None
    commit_cards: tuple[CommitCard, ...] = Field(default=(), max_length=MAX_CARDS)
    experiment_root: CardHash | None = None
    chunk_summaries: tuple[ChunkSummary, ...] = Field(default=(), max_length=MAX_SUMMARIES)


def _words(most: int) -> Any:
    return StringConstraints(min_length=1, max_length=most)


Item200 = Annotated[str, _words(200)]
Item256 = Annotated[str, _words(256)]


class PlanStepOutput(Outbound):
    """One step as a drafter writes it."""

    id: Annotated[str, _words(64)]
    title: Annotated[str, _words(120)]
    intent: Annotated[str, _words(400)]
    actions: tuple[Item200, ...] = Field(min_length=1, max_length=12)
    validation: tuple[Item200, ...] = Field(min_length=1, max_length=12)
    files: tuple[Item256, ...] = Field(default=(), max_length=30)
    references: tuple[Item256, ...] = Field(default=(), max_length=12)
    dependencies: tuple[Item200, ...] = Field(default=(), max_length=12)
    risks: tuple[Item200, ...] = Field(default=(), max_length=12)


class PlanningOutput(Outbound):
    """A plan as a drafter writes it."""

    plan_summary: Annotated[str, _words(512)]
    rationale: Annotated[str, _words(2048)]
    focus_metrics: tuple[Item200, ...] = Field(min_length=1, max_length=10)
    guardrails: tuple[Item200, ...] = Field(min_length=1, max_length=20)
    risks: tuple[Item200, ...] = Field(min_length=1, max_length=20)
    validation: tuple[Item200, ...] = Field(min_length=1, max_length=20)
    steps: tuple[PlanStepOutput, ...] = Field(min_length=1, max_length=6)
    handoff_notes: tuple[Item200, ...] = Field(default=(), max_length=20)
    fallback_plan: Annotated[
        Annotated[str, StringConstraints(max_length=1200)] | None,
        WithJsonSchema({"type": ["string", "null"], "maxLength": 1200}),
    ] = None


_KEYWORDS = (  # in the order of the document
    *("type", "additionalProperties", "required", "properties"),
    *("minItems", "maxItems", "items", "minLength", "maxLength"),
)


def _describe(part: dict[str, Any], models: dict[str, Any]) -> dict[str, Any]:
    """Describe a part of a model without titles and defaults, other models where they are used."""
    if "$ref" in part:
        part = models[part["$ref"].removeprefix("#/$defs/")]
    shape = {word: part[word] for word in _KEYWORDS if word in part}
    if "items" in shape:
        shape["items"] = _describe(shape["items"], models)
    if "properties" in shape:
        shape["properties"] = {name: _describe(each, models) for name, each in shape["properties"].items()}
    return shape


_MODEL_SCHEMA = PlanningOutput.model_json_schema()
PLANNING_OUTPUT_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "https://planner.dev/schemas/1/planning_output.schema.json",
    **_describe(_MODEL_SCHEMA, _MODEL_SCHEMA["$defs"]),
}


# The plan as it is kept: the same words under the names of its domain.


class PlanStep(Record):
    """One step of a drafted plan."""

    step_id: str
    title: str
    intent: str
    actions: tuple[str, ...]
    files: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    validation: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()
    references: tuple[str, ...] = ()


class PlanningPlan(Record):
    """A drafted plan, read and held to its limits."""

    summary: str
    rationale: str
    focus_metrics: tuple[str, ...]
    guardrails: tuple[str, ...]
    risks: tuple[str, ...]
    validation: tuple[str, ...]
    steps: tuple[PlanStep, ...]
    handoff_notes: tuple[str, ...] = ()
    fallback_plan: str | None = None


LEFT_OUT = ("commit_card", "acceptance_criteria")  # of a document that has none


class PlanningAgentResponse(Record):
    """How a plan was drafted: the document of an evolution goal. `plan` is null until the draft is there.

    `attempts` counts the answers that were asked for, `duration_seconds` is the time from the first question to the
    answer that was taken.
    """

    plan: PlanningPlan | None = None
    raw_output: str = ""
    prompt: str  # as it was rendered; of a long one the beginning, with how much there is
    prompt_digest: str = ""  # of all of it
    request: str  # the digest of the request
    validation_mode: ValidationMode
    drafter: str = "queue"
    command: tuple[str, ...] = ()
    stderr: str = ""
    attempts: int | None = None
    duration_seconds: float | None = None
    notes: tuple[str, ...] = ()
    acceptance_criteria: tuple[str, ...] = ()  # of the goal
    trajectories: tuple[dict[str, Any], ...] = ()
    commit_card: dict[str, Any] | None = None  # the CommitCard of the finished plan, for the next goals

    @model_serializer(mode="wrap")
    def _without_card(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the card and the criteria if there are none."""
        return {name: value for name, value in dump(self).items() if value or name not in LEFT_OUT}
