"""The files of a reviewed plan: plan.json, qr-{phase}.json, and the record of a gate.

plan.json, of schema version 2, is the result of planning and the only input of execution. Each of its entities has a
`version`, which each change raises. `depends_on` of a milestone is an addition of the planner: waves follow from it.
"""

from __future__ import annotations

import operator
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, StringConstraints, field_validator

from schemas.base import Inbound, Line, Path, Record, Word
from schemas.text_kinds import TextKind

PLAN_SCHEMA_VERSION, MAX_PLAN_BYTES = 2, 208 * 1024  # so that a goal, of 256 kB, has room for a frozen plan
MILESTONE_ID = r"^M-[0-9]{1,6}$"
MAX_MILESTONES, MAX_OF_A_MILESTONE = 200, 100  # of a plan; code intents, and code changes, of each

Prose = Annotated[str, StringConstraints(max_length=8000), TextKind.PROSE]
Drawing = Annotated[str, StringConstraints(max_length=8000), TextKind.CODE]
Diff = Annotated[str, StringConstraints(max_length=60_000), TextKind.CODE]

DecisionId = Annotated[str, StringConstraints(pattern=r"^DL-[A-Za-z0-9][A-Za-z0-9-]{0,30}$"), TextKind.KEY]
AlternativeId = Annotated[str, StringConstraints(pattern=r"^RA-[A-Za-z0-9][A-Za-z0-9-]{0,30}$"), TextKind.KEY]
ConstraintId = Annotated[str, StringConstraints(pattern=r"^C-[A-Za-z0-9][A-Za-z0-9-]{0,30}$"), TextKind.KEY]
RiskId = Annotated[str, StringConstraints(pattern=r"^R-[A-Za-z0-9][A-Za-z0-9-]{0,30}$"), TextKind.KEY]
IntentId = Annotated[str, StringConstraints(pattern=r"^CI-[A-Za-z0-9][A-Za-z0-9-]{0,30}$"), TextKind.KEY]
ChangeId = Annotated[str, StringConstraints(pattern=r"^CC-[A-Za-z0-9][A-Za-z0-9-]{0,30}$"), TextKind.KEY]
MilestoneId = Annotated[str, StringConstraints(pattern=MILESTONE_ID), TextKind.KEY]

Lines = Annotated[tuple[Line, ...], Field(max_length=100)]
Paths = Annotated[tuple[Path, ...], Field(max_length=100)]
DecisionRefs = Annotated[tuple[DecisionId, ...], Field(max_length=50)]


class Entity(Inbound):
    """A part of the plan that is changed as a whole; `version` counts its changes."""

    version: int = Field(default=1, ge=1, le=10**6)


class Named(Entity):
    """An entity with an id."""

    id: Annotated[str, TextKind.KEY]


class Overview(Entity):
    """The subject of the plan."""

    title: Word | None = None
    problem: Prose = ""
    approach: Prose = ""


class Decision(Named):
    """A decision with its chain of reasons."""

    id: DecisionId
    decision: Annotated[str, StringConstraints(min_length=1, max_length=2000), TextKind.PROSE]
    reasoning_chain: Prose = ""
    timestamp: Word | None = None


class RejectedAlternative(Named):
    """A rejected alternative, and the decision that excludes it."""

    id: AlternativeId
    alternative: Annotated[str, StringConstraints(min_length=1, max_length=2000), TextKind.PROSE]
    rejection_reason: Annotated[str, StringConstraints(min_length=1, max_length=2000), TextKind.PROSE]
    decision_ref: DecisionId


class Constraint(Named):
    """A constraint of the plan, and its source."""

    id: ConstraintId
    type: Word
    description: Annotated[str, StringConstraints(min_length=1, max_length=2000), TextKind.PROSE]
    source: Line = ""


class Risk(Named):
    """A risk, and its mitigation."""

    id: RiskId
    risk: Annotated[str, StringConstraints(min_length=1, max_length=2000), TextKind.PROSE]
    mitigation: Prose = ""
    anchor: Line | None = None  # such as src/a.py:L10-L20
    decision_ref: DecisionId | None = None


class PlanningContext(Inbound):
    """Decisions, rejected alternatives, constraints and risks."""

    decision_log: tuple[Decision, ...] = Field(default=(), max_length=200)
    rejected_alternatives: tuple[RejectedAlternative, ...] = Field(default=(), max_length=200)
    constraints: tuple[Constraint, ...] = Field(default=(), max_length=200)
    known_risks: tuple[Risk, ...] = Field(default=(), max_length=200)


class Diagram(Inbound):
    """A drawing in characters, with its description."""

    diagram_ascii: Drawing = ""
    description: Prose = ""


class InvisibleKnowledge(Entity):
    """Knowledge that is not in the code."""

    architecture: Diagram = Diagram()
    data_flow: Diagram = Diagram()
    structure_rationale: Prose = ""
    invariants: Lines = ()
    tradeoffs: Lines = ()


class Scenarios(Inbound):
    """The scenarios of a milestone's tests."""

    normal: Lines = ()
    edge: Lines = ()
    error: Lines = ()


class MilestoneTests(Inbound):
    """How a milestone is tested, or why it is not."""

    files: Paths = ()
    type: Word | None = None
    backing: Line | None = None
    scenarios: Scenarios = Scenarios()
    skip_reason: Line | None = None


class Placed(Named):
    """An entity that is about one file."""

    file: Path


class CodeIntent(Placed):
    """The intended behaviour of one place of the code."""

    id: IntentId
    function: Word | None = None
    behavior: Annotated[str, StringConstraints(min_length=1, max_length=4000), TextKind.PROSE]
    decision_refs: DecisionRefs = ()
    params: Annotated[dict[Word, Line], Field(max_length=50)] = Field(default_factory=dict)


class CodeChange(Placed):
    """The implementation of an intent, as a unified diff of one file."""

    id: ChangeId
    intent_ref: IntentId
    diff: Diff
    context_lines: int = Field(default=3, ge=0, le=100)
    why_comments: Lines = ()


class Docstring(Inbound):
    """The docstring of one function."""

    function: Word
    docstring: Prose


class Comment(Inbound):
    """A comment with the source of its reason."""

    comment: Prose
    decision_ref: DecisionId | None = None
    source: Line | None = None


class AlgorithmBlock(Comment):
    """An explanation of a whole algorithm, above it."""

    function: Word


class InlineComment(Comment):
    """The reason for one line."""

    location: Line


class Documentation(Entity):
    """The documentation of a milestone's code."""

    module_comment: Prose | None = None
    docstrings: Annotated[tuple[Docstring, ...], Field(max_length=100)] = ()
    algorithm_blocks: Annotated[tuple[AlgorithmBlock, ...], Field(max_length=100)] = ()
    inline_comments: Annotated[tuple[InlineComment, ...], Field(max_length=200)] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written yet."""
        return not (self.module_comment or self.docstrings or self.algorithm_blocks or self.inline_comments)


class MilestoneFacts(Named):
    """A milestone without its code intents, code changes and documentation, which later answers add."""

    id: MilestoneId
    number: int = Field(ge=0, le=10**6)
    name: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"\S"), TextKind.SENTENCE]
    files: Annotated[tuple[Path, ...], Field(min_length=1, max_length=100)]
    flags: Annotated[tuple[Word, ...], Field(max_length=20)] = ()
    requirements: Lines = ()
    acceptance_criteria: Lines = ()
    tests: MilestoneTests = MilestoneTests()
    is_documentation_only: bool = False
    delegated_to: Word | None = None
    depends_on: Annotated[tuple[MilestoneId, ...], Field(max_length=MAX_MILESTONES)] = ()


class Milestone(MilestoneFacts):
    """A part of the work that can be done, tested and accepted by itself."""

    code_intents: Annotated[tuple[CodeIntent, ...], Field(max_length=MAX_OF_A_MILESTONE)] = ()
    code_changes: Annotated[tuple[CodeChange, ...], Field(max_length=MAX_OF_A_MILESTONE)] = ()
    documentation: Documentation = Documentation()


class Wave(Inbound):
    """Milestones that may be worked on at the same time."""

    wave: int = Field(ge=1, le=MAX_MILESTONES)
    milestones: Annotated[tuple[MilestoneId, ...], Field(min_length=1, max_length=MAX_MILESTONES)]


class MilestoneDependencies(Entity):
    """The order of the milestones; without waves it follows from their dependencies."""

    diagram_ascii: Drawing = ""
    waves: Annotated[tuple[Wave, ...], Field(max_length=MAX_MILESTONES)] = ()


class Plan(Inbound):
    """plan.json. After `frozen_at` is set nothing in it changes any more."""

    schema_version: int = Field(default=PLAN_SCHEMA_VERSION, ge=PLAN_SCHEMA_VERSION, le=PLAN_SCHEMA_VERSION)
    plan_id: Annotated[
        str, StringConstraints(pattern=r"^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"), TextKind.KEY
    ]
    created_at: Word
    frozen_at: Word | None = None
    overview: Overview = Overview()
    planning_context: PlanningContext = PlanningContext()
    invisible_knowledge: InvisibleKnowledge = InvisibleKnowledge()
    milestones: Annotated[tuple[Milestone, ...], Field(max_length=MAX_MILESTONES)] = ()
    milestone_dependencies: MilestoneDependencies = MilestoneDependencies()


QR_SCHEMA_VERSION = "1.0"
MAX_ITEMS = 200  # of one phase
MAX_GATES = 500  # records that are kept

ItemId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Finding = Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=r"\S")]


class QrPhase(StrEnum):
    """The subject of a review."""

    PLAN_DESIGN = "plan-design"
    PLAN_CODE = "plan-code"
    PLAN_DOCS = "plan-docs"
    IMPL_CODE = "impl-code"
    IMPL_DOCS = "impl-docs"


class Severity(StrEnum):
    """How much an item matters; the later the iteration, the fewer of them block."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    COULD = "COULD"


class ItemStatus(StrEnum):
    """The reviewer's decision about an item."""

    TODO = "TODO"
    PASS = "PASS"  # noqa: S105  a verdict, not a password
    FAIL = "FAIL"


class LoopState(StrEnum):
    """The state of a gate's loop."""

    INITIAL = "INITIAL"
    RETRY = "RETRY"
    COMPLETE = "COMPLETE"


class GateVerdict(StrEnum):
    """The verdict of a gate: ACCEPTED is a pass by a person, SKIPPED a review that did not happen."""

    PASS = "PASS"  # noqa: S105  a verdict, not a password
    FAIL = "FAIL"
    ACCEPTED = "ACCEPTED"
    SKIPPED = "SKIPPED"


class QrItem(Record):
    """One check of a review, and its result."""

    id: ItemId
    scope: Line = "*"  # everything, or file:path:lines
    check: Line
    status: ItemStatus = ItemStatus.TODO
    finding: str | None = None
    severity: Severity = Severity.SHOULD
    version: int = 1
    fail_count: int = 0
    accepted: bool = False
    acceptance_reason: str | None = None


class QrFile(Record):
    """qr-{phase}.json: it lives from the first review of a phase until its gate passes."""

    schema_version: str = QR_SCHEMA_VERSION
    phase: QrPhase
    iteration: int = 1
    items: tuple[QrItem, ...] = ()


class ReviewedItem(Inbound):
    """A reviewer's decision about one item; a new item needs its `check`."""

    id: ItemId
    scope: Annotated[str, StringConstraints(min_length=1, max_length=1000)] | None = None
    check: Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=r"\S")] | None = None
    severity: Severity | None = None
    status: ItemStatus
    finding: Finding | None = None


class Review(Inbound):
    """The output of a review: every item decided; `verdict` is the reviewer's claim, PASS or FAIL."""

    items: tuple[ReviewedItem, ...] = Field(min_length=1, max_length=MAX_ITEMS)
    verdict: str | None = None

    @field_validator("verdict", mode="before")
    @classmethod
    def _any_word(cls, value: Any) -> str | None:
        """Read any claim as a short word; one that is neither PASS nor FAIL decides nothing."""
        return None if value is None else str(value)[:20].strip().upper()


class GateRecord(Record):
    """The lasting record of a review after the verdict of its gate."""

    phase: QrPhase
    iteration: int
    verdict: GateVerdict
    blocks: tuple[Severity, ...]  # what blocked at this iteration
    counts: dict[Severity, dict[ItemStatus, int]] = Field(default_factory=dict)
    blocking: tuple[ItemId, ...] = ()
    findings: tuple[str, ...] = ()  # of the first of them, since their file goes when the gate passes
    claimed: Word | None = None  # the reviewer's word
    contradicted: bool = False  # the items contradicted it
    unverified: bool = Field(default=False, exclude_if=operator.not_)  # passed with open MUST findings
    accepted: tuple[ItemId, ...] = ()
    reason: str | None = None
