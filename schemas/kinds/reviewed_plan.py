"""The kind `reviewed_plan`: its input, the answers of its controllers and people, and its stored state."""

from __future__ import annotations

import operator
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from schemas.base import Inbound, Line, Path, Record, StepId
from schemas.kinds.reviewed_plan_files import (
    MAX_GATES,
    GateRecord,
    LoopState,
    MilestoneId,
    Plan,
    QrFile,
    QrPhase,
    Severity,
)
from schemas.text_kinds import TextKind

MAX_ROUNDS = 20  # of one gate between two words of a person
MAX_OPERATIONS = 500  # of one answer

MAX_FACT = 2000  # characters of one line of context.json

Facts = Annotated[
    tuple[Annotated[str, StringConstraints(max_length=MAX_FACT), TextKind.PROSE], ...], Field(max_length=100)
]


class Workflow(StrEnum):
    """The requested part of the work."""

    PLAN = "plan"
    EXECUTE = "execute"
    BOTH = "both"


class ReviewContext(Inbound):
    """context.json: eight lists. An empty list is filled with a sentinel."""

    task_spec: Facts = ()
    constraints: Facts = ()
    entry_points: Facts = ()
    rejected_alternatives: Facts = ()
    current_understanding: Facts = ()
    assumptions: Facts = ()
    invisible_knowledge: Facts = ()
    user_quotes: Facts = ()


class SeverityRow(Inbound):
    """The severities that block from this iteration on."""

    from_iteration: int = Field(ge=1, le=1000)
    blocks: Annotated[tuple[Severity, ...], Field(max_length=3)]


class ReviewedPlanInput(Inbound):
    """The input of a goal of this kind."""

    context: ReviewContext = ReviewContext()
    workflow: Workflow = Workflow.BOTH
    severity_schedule: Literal["seed", "early", "late"] | Annotated[tuple[SeverityRow, ...], Field(max_length=10)] = (
        "seed"
    )
    convergence_cap: int | None = Field(default=None, ge=1, le=MAX_ROUNDS)  # fails of one item; None: no cap
    max_iterations: int = Field(default=6, ge=1, le=MAX_ROUNDS)  # of one gate, then a person decides
    plan: Plan | None = None
    ask_context: bool = False  # where the goal brings no context, the second step asks a role for it
    review_first: bool = False  # with `execute`: the plan is not frozen yet, so that its gates come first


class Operation(Inbound):
    """One change of plan.json.

    `add` makes an entity (`id` only if the writer wants to choose it), `set` changes the given fields, `remove` deletes
    it. All but `add` name the `version` that they change.
    """

    op: Literal["set", "add", "remove"]
    entity: Annotated[str, StringConstraints(min_length=1, max_length=50)]
    id: Annotated[str, StringConstraints(min_length=1, max_length=50)] | None = None
    version: int | None = Field(default=None, ge=1)
    value: dict[str, Any] | None = None


class WorkAnswer(Inbound):
    """The output of a role that works on the plan; with `more` it asks for another step of the same phase."""

    operations: tuple[Operation, ...] = Field(max_length=MAX_OPERATIONS)
    more: bool = False


class ContextAnswer(Inbound):
    """The output of the role that writes context.json."""

    context: ReviewContext


class MilestoneReview(Inbound):
    """The reviewer's result for one milestone in the comparison of plan and outcome."""

    id: MilestoneId
    outcome: Literal["SATISFIED", "PARTIALLY_SATISFIED", "NOT_SATISFIED"]
    deviations: Annotated[tuple[Line, ...], Field(max_length=20)] = ()


class Reconciliation(Inbound):
    """The output of the last step: every milestone once."""

    milestones: tuple[MilestoneReview, ...] = Field(max_length=200)
    summary: Annotated[str, StringConstraints(max_length=4000)] = ""


class WorkReport(Inbound):
    """A role's report about its changed files; the plan depends on the files, people read the words."""

    summary: Line
    deviations: Annotated[tuple[Line, ...], Field(max_length=20)] = ()
    nothing_to_change: Line | None = None  # why, where no file had to be changed


class PersonsDecision(Inbound):
    """A person's decision about a gate that does not pass."""

    decision: Literal["continue", "accept", "stop"]
    reason: Annotated[str, StringConstraints(max_length=1000)] = ""


class Loop(Record):
    """The repetitions of one gate: its review and the repairs after it."""

    state: LoopState = LoopState.INITIAL
    iteration: int = 1
    limit: int  # of iterations, before a person decides
    continued: int = 0  # how often a person decided so


class StepEnd(Record):
    """How one step of the workflow's current row ended."""

    step_id: StepId
    state: str
    untouched: tuple[Path, ...] = ()  # files it might have changed and did not
    why: str | None = Field(default=None, exclude_if=operator.not_)  # it failed


class ReviewState(Record):
    """The strategy state of a reviewed plan."""

    workflow: Workflow
    schedule: tuple[tuple[int, tuple[Severity, ...]], ...]
    cap: int | None
    max_iterations: int
    language: str | None = None  # of the project, by its goal or its files at the plan's creation
    row: str = ""  # the row of the workflow that is open
    part: int = 1  # of that row's work: another answer of a role, or the next steps of a wave
    wave: int = 0  # number of the wave that is open, from 0
    open: tuple[StepId, ...] = ()  # steps of the row that have not ended
    ended: tuple[StepEnd, ...] = ()  # the others
    failed: bool = False  # a step of the row failed
    loops: dict[QrPhase, Loop] = Field(default_factory=dict)
    asked: QrPhase | None = None  # the gate a person is asked about
    mended: tuple[Path, ...] = ()  # files that the next review has to cover
    contradicted: bool = False  # the reviewer is asked again after a PASS with open MUST findings
    asks_context: bool = False  # until the second step has its answer
    review_first: bool = False  # existing parts of the plan are not written again
    work_asked: bool = False  # a person is asked about steps that failed
    tries: int = 0  # how often a person had them tried again
    # Results of similar attempts, for the architect.
    memory: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)


class MilestoneOutcome(Record):
    """The outcome of a milestone."""

    outcome: str
    untouched: tuple[Path, ...] = ()
    delegated_to: str | None = None
    mended: tuple[Path, ...] = Field(default=(), exclude_if=operator.not_)  # its files that a repair changed afterwards


class ReviewReport(Record):
    """The report that compares the plan with its outcome."""

    status: Literal["COMPLETED", "BLOCKED", "ABORTED"]
    milestones: tuple[dict[str, Any], ...] = ()
    gates: dict[QrPhase, dict[str, Any]] = Field(default_factory=dict)
    summary: str = ""


class ReviewDocument(Record):
    """The files of a review as one document; `qr` has the files with a gate that has not passed."""

    plan: Plan
    context: ReviewContext
    qr: dict[QrPhase, QrFile] = Field(default_factory=dict)
    gate_history: tuple[GateRecord, ...] = Field(default=(), max_length=MAX_GATES)
    plan_md: str | None = None
    outcomes: dict[MilestoneId, MilestoneOutcome] = Field(default_factory=dict)
    report: ReviewReport | None = None
