"""A goal as it is published to `planner:goals`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from schemas.base import (
    CommandLine,
    EndpointId,
    GoalId,
    GoalKind,
    Inbound,
    Line,
    Mode,
    Name,
    Overlap,
    Path,
    PlanId,
    QueueName,
    RiskLevel,
    StepId,
    StepType,
)
from schemas.kinds.campaign import CampaignInput
from schemas.kinds.evolution import Evolution
from schemas.kinds.gap_report import GapGoal
from schemas.kinds.reviewed_plan import ReviewedPlanInput
from schemas.text_kinds import TextKind
from schemas.traceparent import Traceparent

MAX_GOAL_BYTES = 256 * 1024  # a goal without supplied steps
MAX_GOAL_WITH_STEPS_BYTES = 8 * 1024 * 1024  # PLANNER_MAX_GOAL_BYTES
MAX_STEPS = 10_000


class Definition(Inbound):
    """Where a file defines something, such as a function or a class: its lines, counted from 1."""

    name: Name
    line: int = Field(ge=1, le=10**7)
    end_line: int | None = Field(default=None, ge=1, le=10**7)


Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$"), TextKind.KEY]


class GoalContext(Inbound):
    """The producer's facts about the repository. Untrusted: data, never a command, never a wider allowlist."""

    repo: Annotated[str, StringConstraints(min_length=1, max_length=200), TextKind.REPOSITORY] | None = None
    base_sha: Annotated[str, StringConstraints(min_length=1, max_length=200), TextKind.REVISION] | None = None
    language: Name | None = None
    test_command: CommandLine | None = None
    workdir: Path | None = None  # the folder that `test_command` runs in, or whose tests count; None is the root
    failing_tests: tuple[Line, ...] = Field(default=(), max_length=1000)
    failure_log: Annotated[str, TextKind.LOG] | None = None
    files: tuple[Path, ...] = ()
    files_complete: bool = False  # whether `files` is the whole listing: other files do not exist
    manifests: dict[Path, Annotated[str, TextKind.LOG]] = Field(default_factory=dict)
    documents: dict[Path, Annotated[str, TextKind.LOG]] = Field(default_factory=dict)
    definitions: dict[Path, tuple[Definition, ...]] = Field(default_factory=dict)
    # AGENTS.md and CLAUDE.md of the base with their digests: agents are given none that differs. None fixes nothing.
    instructions: Annotated[dict[Path, Digest], Field(max_length=32)] | None = None


class Limits(Inbound):
    """The budgets of a plan and the thresholds of its halts; None takes the default of the goal's kind."""

    tokens: int | None = Field(default=None, ge=1000, le=10**9)
    patch_cycles: int | None = Field(default=None, ge=1, le=100_000)
    failing_outcomes: int | None = Field(default=None, ge=1, le=100_000)
    wall_clock_s: int | None = Field(default=None, ge=60, le=30 * 86400)
    tool_calls: int | None = Field(default=None, ge=0, le=10**7)
    max_steps: int | None = Field(default=None, ge=1, le=MAX_STEPS)
    max_parallel: int | None = Field(default=None, ge=1, le=64)
    consecutive_failures: int | None = Field(default=None, ge=1, le=1000)
    identical_failures: int | None = Field(default=None, ge=1, le=1000)
    flaky_flips: int | None = Field(default=None, ge=1, le=1000)
    lease_deaths: int | None = Field(default=None, ge=1, le=1000)
    max_new_files: int | None = Field(default=None, ge=0, le=10_000)
    max_growth_kb: int | None = Field(default=None, ge=0, le=10**6)


# The limits of a plan if neither its goal nor a policy sets them; a kind may need more (tasks/base/policy.py).
USUAL_LIMITS: Mapping[str, int | None] = MappingProxyType(
    {
        "tokens": 400_000,
        "patch_cycles": 15,
        "failing_outcomes": 10,
        "wall_clock_s": 1800,
        "tool_calls": None,
        "max_steps": 20,
        "max_parallel": 4,
        "consecutive_failures": 3,
        "identical_failures": 2,
        "flaky_flips": 3,
        "lease_deaths": 5,
        "max_new_files": 20,
        "max_growth_kb": 1000,
    }
)


class Estimate(Inbound):
    """The expected usage of one attempt; reserved at dispatch, settled by its outcome."""

    tokens: int | None = Field(default=None, ge=0, le=10**9)
    patch_cycles: int | None = Field(default=None, ge=0, le=1000)


ToolId = Annotated[str, StringConstraints(min_length=1, max_length=200), TextKind.COMMAND]


class ToolCall(Inbound):
    """A verification by contract id and arguments instead of a command line."""

    tool: ToolId
    args: tuple[CommandLine, ...] = Field(default=(), max_length=50)


VerifyLine = Annotated[str, StringConstraints(max_length=32_768), TextKind.COMMAND]  # of as many files as a tool takes
Verify = VerifyLine | ToolCall


class SuppliedTask(Inbound):
    """The hint of a supplied step for its controller, next to its intent."""

    hint: Annotated[str, StringConstraints(max_length=1000), TextKind.STEP_TEXT] | None = None


TaskKind = Literal[
    "fix_test", "add_feature", "repair", "feature", "refactor", "build", "dependency", "observation", "generic"
]


class SuppliedStep(Inbound):
    """A step of a plan that was made elsewhere; the same rules apply to it as to the planner's own steps."""

    step_id: StepId
    title: Annotated[str, StringConstraints(min_length=1, max_length=100), TextKind.STEP_TEXT]
    intent: Annotated[str, StringConstraints(min_length=1, max_length=500), TextKind.STEP_TEXT]
    allowed_files: tuple[Path, ...] = Field(default=(), max_length=10)
    success_criteria: Annotated[str, StringConstraints(max_length=1000), TextKind.STEP_TEXT] = ""
    depends_on: tuple[StepId, ...] = Field(default=(), max_length=MAX_STEPS)
    verify: Verify | tuple[Verify, ...] | None = None
    quick_checks: tuple[ToolId, ...] = Field(default=(), max_length=20)
    type: StepType | None = None
    mode: Mode | None = None
    risk_level: RiskLevel = RiskLevel.LOW
    retry_limit: int = Field(default=2, ge=0, le=3)
    rollback_hint: Annotated[str, StringConstraints(max_length=1000), TextKind.STEP_TEXT] | None = None
    queue: QueueName | None = None
    estimate: Estimate = Estimate()
    controller_task_spec: SuppliedTask = SuppliedTask()


class Delivery(Inbound):
    """How the accepted changes of a completed plan are delivered; a pull request needs a branch that is pushed.

    `onto` names another plan: the changes go to the branch of that plan, at `context.base_sha`, and not to a new
    branch. With `again` that branch comes on top of its target first.
    """

    push: bool = True
    pull_request: bool = False
    onto: PlanId | None = None
    again: bool = False


class Beginning(Inbound):
    """A plan whose changes another one continues: as they were after `step_id`, else the last ones."""

    plan_id: PlanId
    step_id: StepId | None = None


class Goal(Inbound):
    """A goal; only the sentence is required. Other kinds carry their input under the kind's name."""

    model_config = ConfigDict(serialize_by_alias=True)

    goal: Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"\S"), TextKind.SENTENCE]
    goal_id: GoalId | None = None
    tenant: Name = "default"
    kind: GoalKind = GoalKind.TASK
    task_kind: TaskKind | None = None  # of a `task`; by default its words decide
    allowed_files: tuple[Path, ...] = Field(default=(), max_length=10_000)
    context: GoalContext = GoalContext()
    constraints: tuple[Line, ...] = Field(default=(), max_length=100)
    limits: Limits = Limits()
    approvals: tuple[RiskLevel, ...] = ()
    queue: QueueName = "default"
    drafter: Name | None = None
    mend: bool = True  # whether the plan may insert steps that repair the findings of a verification
    delivery: Delivery | None = None
    reproduce: Literal["halt", "warn", "off"] | bool | None = None  # supplied steps are reproduced only if asked for
    review: bool = False  # whether a last step runs all tests and checks the changes of supplied steps
    # Tests that are stored with controllers, and that no agent gets: the digest of their folder or archive.
    holdout: Digest | None = None
    retry_of: PlanId | None = None  # the plan of whose goal this one was made
    from_: Beginning | None = Field(default=None, alias="from")  # the plan begins with the changes that landed there
    overlap: Overlap | None = None  # with live plans of the repository; None takes the policy's choice, else `allow`
    callback: EndpointId | None = None  # an endpoint of the tenant, which hears of the plan
    traceparent: Traceparent = None  # of W3C Trace Context; may be in the entry's field of that name instead
    steps: tuple[SuppliedStep, ...] | None = Field(default=None, max_length=MAX_STEPS)
    gap_report: GapGoal | None = None
    campaign: CampaignInput | None = None
    reviewed_plan: ReviewedPlanInput | None = None
    evolution: Evolution | None = None
