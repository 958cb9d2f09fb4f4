"""The files of a reviewed plan: plan.json, qr-{phase}.json, and what a gate leaves behind.

plan.json, of schema version 2, is what planning makes and execution needs nothing beside. Each of its entities has a
`version`, raised by each change of it. `depends_on` of a milestone is ours: waves follow from it.
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
    """An entity of which there are many."""

    id: Annotated[str, TextKind.KEY]


class Overview(Entity):
    """What the plan is about."""

    title: Word | None = None
    problem: Prose = ""
    approach: Prose = ""


class Decision(Named):
    """A decision with the chain of reasons that led to it."""

    id: DecisionId
    decision: Annotated[str, StringConstraints(min_length=1, max_length=2000), TextKind.PROSE]
    reasoning_chain: Prose = ""
    timestamp: Word | None = None


class RejectedAlternative(Named):
    """What was not done, and the decision that ruled it out."""

    id: AlternativeId
    alternative: Annotated[str, StringConstraints(min_length=1, max_length=2000), TextKind.PROSE]
    rejection_reason: Annotated[str, StringConstraints(min_length=1, max_length=2000), TextKind.PROSE]
    decision_ref: DecisionId


class Constraint(Named):
    """What binds the plan, and who said so."""

    id: ConstraintId
    type: Word
    description: Annotated[str, StringConstraints(min_length=1, max_length=2000), TextKind.PROSE]
    source: Line = ""


class Risk(Named):
    """What may go wrong, and what is done about it."""

    id: RiskId
    risk: Annotated[str, StringConstraints(min_length=1, max_length=2000), TextKind.PROSE]
    mitigation: Prose = ""
    anchor: Line | None = None  # such as src/a.py:L10-L20
    decision_ref: DecisionId | None = None


class PlanningContext(Inbound):
    """What was decided, turned down, given and feared."""

    decision_log: tuple[Decision, ...] = Field(default=(), max_length=200)
    rejected_alternatives: tuple[RejectedAlternative, ...] = Field(default=(), max_length=200)
    constraints: tuple[Constraint, ...] = Field(default=(), max_length=200)
    known_risks: tuple[Risk, ...] = Field(default=(), max_length=200)


class Diagram(Inbound):
    """A drawing in characters, with what it shows."""

    diagram_ascii: Drawing = ""
    description: Prose = ""


class InvisibleKnowledge(Entity):
    """What the code alone does not tell."""

    architecture: Diagram = Diagram()
    data_flow: Diagram = Diagram()
    structure_rationale: Prose = ""
    invariants: Lines = ()
    tradeoffs: Lines = ()


class Scenarios(Inbound):
    """What the tests of a milestone go through."""

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
    """What one place of the code shall do."""

    id: IntentId
    function: Word | None = None
    behavior: Annotated[str, StringConstraints(min_length=1, max_length=4000), TextKind.PROSE]
    decision_refs: DecisionRefs = ()
    params: Annotated[dict[Word, Line], Field(max_length=50)] = Field(default_factory=dict)


class CodeChange(Placed):
    """How an intent is carried out, as a unified diff of one file."""

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
    """A comment with where its reason comes from."""

    comment: Prose
    decision_ref: DecisionId | None = None
    source: Line | None = None


class AlgorithmBlock(Comment):
    """What explains a whole algorithm, above it."""

    function: Word


class InlineComment(Comment):
    """Why one line is as it is."""

    location: Line


class Documentation(Entity):
    """What is written about a milestone's code."""

    module_comment: Prose | None = None
    docstrings: Annotated[tuple[Docstring, ...], Field(max_length=100)] = ()
    algorithm_blocks: Annotated[tuple[AlgorithmBlock, ...], Field(max_length=100)] = ()
    inline_comments: Annotated[tuple[InlineComment, ...], Field(max_length=200)] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written yet."""
        return not (self.module_comment or self.docstrings or self.algorithm_blocks or self.inline_comments)


class MilestoneFacts(Named):
    """A milestone without what is written into it later."""

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
    """The order of the milestones; without waves it follows from what each depends on."""

    diagram_ascii: Drawing = ""
    waves: Annotated[tuple[Wave, ...], Field(max_length=MAX_MILESTONES)] = ()


class Plan(Inbound):
    """plan.json. Once `frozen_at` is set nothing of it changes any more."""

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
    """What a review is about."""

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
    """What the reviewer said of an item."""

    TODO = "TODO"
    PASS = "PASS"  # noqa: S105  a verdict, not a password
    FAIL = "FAIL"


class LoopState(StrEnum):
    """Where the loop of a gate stands."""

    INITIAL = "INITIAL"
    RETRY = "RETRY"
    COMPLETE = "COMPLETE"


class GateVerdict(StrEnum):
    """What a gate said: ACCEPTED is a pass by a person's word, SKIPPED a review that did not take place."""

    PASS = "PASS"  # noqa: S105  a verdict, not a password
    FAIL = "FAIL"
    ACCEPTED = "ACCEPTED"
    SKIPPED = "SKIPPED"


class QrItem(Record):
    """One thing that is checked, and what came of it."""

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
    """What a reviewer says of one item; a new one needs its `check`."""

    id: ItemId
    scope: Annotated[str, StringConstraints(min_length=1, max_length=1000)] | None = None
    check: Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=r"\S")] | None = None
    severity: Severity | None = None
    status: ItemStatus
    finding: Finding | None = None


class Review(Inbound):
    """The output of a review: every item decided; `verdict` is the reviewer's word, PASS or FAIL."""

    items: tuple[ReviewedItem, ...] = Field(min_length=1, max_length=MAX_ITEMS)
    verdict: str | None = None

    @field_validator("verdict", mode="before")
    @classmethod
    def _any_word(cls, value: Any) -> str | None:
        """Take whatever was claimed as a short word; one that is neither PASS nor FAIL decides nothing."""
        return None if value is None else str(value)[:20].strip().upper()


class GateRecord(Record):
    """What stays of a review once its gate has spoken."""

    phase: QrPhase
    iteration: int
    verdict: GateVerdict
    blocks: tuple[Severity, ...]  # what blocked at this iteration
    counts: dict[Severity, dict[ItemStatus, int]] = Field(default_factory=dict)
    blocking: tuple[ItemId, ...] = ()
    findings: tuple[str, ...] = ()  # of the first of them, since their file goes when the gate passes
    claimed: Word | None = None  # the reviewer's word
    contradicted: bool = False  # the items said otherwise
    unverified: bool = Field(default=False, exclude_if=operator.not_)  # passed beside open MUST findings
    accepted: tuple[ItemId, ...] = ()
    reason: str | None = None
