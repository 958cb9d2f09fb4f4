"""A step: as it is planned and stored, and as a controller gets it."""

from __future__ import annotations

import operator
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from schemas import codec
from schemas.base import SCHEMA_VERSION, Mode, Outbound, Record, RiskLevel, StepType


class AtBase(StrEnum):
    """The effect of a step that runs at the plan's base."""

    HALT = "halt"
    WARN = "warn"
    UNLOADED = "unloaded"  # the goal itself is about tests that cannot be loaded


DELIVERIES = "deliver"  # the queue of DELIVER steps, and of no others
MAX_ANSWERS_FROM = 4  # answers of steps that one step gets
MAX_FOCUS = 10  # places in one step's focus
MAX_PATTERNS = 50  # patterns of files that one step may change
MAX_EXCLUDED = 100  # patterns of files that it may not change
MAX_LITERAL = 50  # files that one step with patterns names
ROOT = "."  # the folder of a verification that runs at the root of the repository
STRICT = "#strict"  # no word of a command
CWD = "cwd"  # in `requires`: a verification runs in another folder, and its receipt has to name the folder


class ControllerTaskSpec(Record):
    """A short form of the request."""

    type: StepType
    target_file: str | None = None
    hint: str | None = None


class VerifyTool(Record):
    """One verification, ready to run without a shell; `tool` is its contract in the catalogue."""

    tool: str
    argv: tuple[str, ...]
    timeout_s: int
    pass_codes: tuple[int, ...] = (0,)
    cwd: str = Field(default=ROOT, exclude_if=ROOT.__eq__)  # the folder that it runs in; paths in `argv` begin there
    # Whether the tool runs in its strict mode, with a configuration outside of the repository. The receipt repeats it.
    strict: bool = Field(default=False, exclude_if=operator.not_)

    @property
    def key(self) -> tuple[str, ...]:
        """The folder and the words of the command: verifications with one key are equal."""
        return (self.cwd, *self.argv)

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the command, after its folder if that is not the root; the last word marks a strict mode."""
        found = self.argv if self.cwd == ROOT else self.key
        return (*found, STRICT) if self.strict else found


class StepEstimate(Record):
    """The reservation of one attempt."""

    tokens: int
    patch_cycles: int


class Place(Record):
    """A likely place of a step's work, and the reason."""

    path: str
    lines: str | None = None  # such as 12 or 10-40; left out where none are known
    why: str


class JudgedBy(Record):
    """Tests that judge a step again, after its verification and in a clone that no agent has.

    `base`: test files and configuration of tests and checks are those of `base_sha`, except `own`, which the goal
    names. `holdout`: the digest of tests that are stored with the controller and are added.
    """

    base: bool = False
    own: tuple[str, ...] = ()
    holdout: str | None = None


class StepFields(Record):
    """The constant part of a step, as controllers read it."""

    step_id: str
    title: str
    intent: str
    allowed_files: tuple[str, ...] = ()
    verify: str = ""
    risk_level: RiskLevel = RiskLevel.LOW
    controller_task_spec: ControllerTaskSpec
    schema_version: int = SCHEMA_VERSION
    mode: Mode
    success_criteria: str = ""
    depends_on: tuple[str, ...] = ()
    rollback_hint: str | None = None
    phase: str | None = None
    guidance: str | None = None
    verify_tools: tuple[VerifyTool, ...] = ()
    retry_limit: int = 2
    queue: str = "default"
    estimate: StepEstimate
    inserted_by: str | None = None
    allow_empty: bool = False  # whether a success that changed no file counts, in a step that patches
    piece_of: str | None = None  # the first step of those that a change was split into: one of them must change a file
    quick_checks: tuple[str, ...] = ()  # those of `verify_tools` that a template added, as the project configures them
    answers_from: tuple[str, ...] = Field(
        default=(), max_length=MAX_ANSWERS_FROM
    )  # steps whose answers it is given, nearest first
    # Left out if empty.
    allowed_patterns: tuple[str, ...] = Field(default=(), max_length=MAX_PATTERNS)  # in addition to `allowed_files`
    excluded_patterns: tuple[str, ...] = Field(
        default=(), max_length=MAX_EXCLUDED
    )  # win over `allowed_patterns`, never over `allowed_files`
    focus: tuple[Place, ...] = Field(default=(), max_length=MAX_FOCUS)  # the likeliest place first
    requires: tuple[str, ...] = ()  # additions to this message that a controller has to understand
    setup: bool = False  # whether the controller's own setup is to run again first
    judged_by: JudgedBy | None = None


class PlannedStep(StepFields):
    """A step as it is planned and stored: the fields of the wire in their order, then the planner's own."""

    keeps_answer: bool = False  # whether another step gets its answer
    finds_places: bool = False  # whether it is asked for places, which those behind it are pointed to
    goal_texts: bool = False  # whether it is given the goal's failure log and documents
    checks_after: dict[str, bool] = Field(default_factory=dict)  # of its changes; whether the goal requests each
    # It verifies the commit that the plan begins with: words of `AtBase`; left out where it does not.
    at_base: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    # Files that the plan still changes: modules and names in them may be missing while the step's tests are collected.
    collects: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)
    # Tool calls at which the heartbeat of an attempt answers `cancel`; 0, or left out, if there is no such limit.
    tool_calls: int = Field(default=0, exclude_if=operator.not_)
    # Names that its patterns mean nothing of; left out where they are those of the usual list.
    forbidden: tuple[str, ...] = Field(default=(), exclude_if=operator.not_)

    @property
    def required(self) -> tuple[str, ...]:
        """The capabilities that a controller needs, by the present folders of its verifications."""
        others = tuple(name for name in self.requires if name != CWD)
        return (CWD, *others) if any(tool.cwd != ROOT for tool in self.verify_tools) else others


# Defaults of most steps: not stored, and filled in when the step is read or handed out.
OMITTED: dict[str, Any] = {
    "schema_version": SCHEMA_VERSION,
    "success_criteria": "",
    "rollback_hint": None,
    "phase": None,
    "guidance": None,
    "retry_limit": 2,
    "queue": "default",
    "inserted_by": None,
    "allow_empty": False,
    "piece_of": None,
    "quick_checks": [],
    "answers_from": [],
    "allowed_patterns": [],
    "excluded_patterns": [],
    "focus": [],
    "requires": [],
    "setup": False,
    "judged_by": None,
    "keeps_answer": False,
    "finds_places": False,
    "goal_texts": False,
    "checks_after": {},
    "at_base": [],
    "collects": [],
    "forbidden": [],
    "tool_calls": 0,
}
UNSENT = frozenset(PlannedStep.model_fields.keys() - StepFields.model_fields.keys())
LEFT_OUT = frozenset(
    {"answers_from", "allowed_patterns", "excluded_patterns", "focus", "requires", "setup", "judged_by"}
)
SENT_OMITTED = {name: value for name, value in OMITTED.items() if name not in UNSENT | LEFT_OUT}


def pack_step(step: PlannedStep) -> bytes:
    """Encode a step by field names, without the values in OMITTED: for its digest in the log."""
    kept = fields_of(step).copy()
    for name, value in _LEFT_OUT:
        if kept[name] == value:
            del kept[name]
    return codec.dumps(kept, fields_of)


_LEFT_OUT = tuple((name, () if value == [] else value) for name, value in OMITTED.items())  # as a step holds them


_USUAL_RUN = (("cwd", ROOT), ("strict", False))  # left out of a verification


def fields_of(record: Any) -> dict[str, Any]:
    """Return the fields of a record, those of a newer version last; `model_dump` takes ten times as long."""
    if not isinstance(record, Record):
        raise TypeError(type(record).__name__)
    if isinstance(record, Place) and record.lines is None:
        return {name: value for name, value in record.model_dump().items() if name != "lines"}
    if isinstance(record, VerifyTool):
        left_out = [name for name, value in _USUAL_RUN if getattr(record, name) == value]
        return {name: value for name, value in record.__dict__.items() if name not in left_out} | (
            record.__pydantic_extra__ or {}
        )
    return record.__dict__ | record.__pydantic_extra__ if record.__pydantic_extra__ else record.__dict__


class PreviousFailure(Outbound):
    """The failure of the previous attempt, for the next one."""

    category: str
    failing_tests: tuple[str, ...] = ()
    trace: str | None = None
    suggestion: str | None = None


class GivenAnswer(Outbound):
    """The answer of an earlier step: data from outside, sanitized, with `cut` if it was longer."""

    step_id: str
    title: str
    output: str
    cut: bool


class StepContext(Outbound):
    """The controller's context: the repository, earlier steps and the previous attempt."""

    repo: str | None = None
    base_sha: str | None = None
    failing_tests: tuple[str, ...] = ()
    previous_failure: PreviousFailure | None = None
    at: Literal["base"] | None = None  # verify `base_sha` instead of the plan's tip, and echo it in `verified_at`
    then_at: Literal["target"] | None = None  # the tip of the target branch too, where that has moved: `at_target`
    answers: tuple[GivenAnswer, ...] = ()
    failure_log: str = ""  # the goal's, as its documents: data from outside, sanitised, cut at whole lines
    documents: dict[str, str] = Field(default_factory=dict)
    failed_diffs: tuple[str, ...] = ()  # digests of changes that failed the step's verification on this tree
    instructions: dict[str, str] | None = None  # digests of AGENTS.md and CLAUDE.md, where the goal fixes them


class StepLimits(Outbound):
    """The upper limits of this attempt."""

    max_diff_lines: int
    tokens: int
    patch_cycles: int
    max_files: int | None = None  # that may be changed; of steps that may change more than they name, or than that
    max_risk: RiskLevel | None = None  # of a changed file; together with `max_files`
    mutants: int | None = None  # of the change, that the failing tests are run on; of steps with failing tests alone


class StepSpec(StepFields):
    """One attempt of a step, as a controller reads it."""

    plan_id: str
    attempt: int
    context: StepContext
    limits: StepLimits
    budget_remaining: float = Field(ge=0, le=1)
    lease: str
    lease_key: str
    deadline: str
    reply_to: str
    input: dict[str, Any] | None = None
    traceparent: str | None = None  # of the plan, as W3C Trace Context has it: what its attempts belong to
