"""The interface of strategies: the first draft of a plan, or why there is none, and how the plan goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.kinds.evolution import ChunkSummary
from schemas.step import PlannedStep
from tasks.base.policy import BUILT_IN, Policy
from tasks.text.forbidden_paths import FORBIDDEN, Forbidden
from tasks.toolchain.catalogue import Catalogue

MAX_EXPANSION = 64  # steps that may be added at once: they go into one commit


@dataclass(frozen=True, slots=True)
class Drafted:
    """A drafter's answer to one question."""

    output: Any = None  # text or JSON from outside; None if the call failed
    error: str | None = None  # why there is no output
    tokens: int = 0  # of the call
    duration_ms: int = 0
    command: tuple[str, ...] = ()  # the command that ran, without secrets
    stderr: str = ""  # the end of its error output, without secrets


@dataclass(frozen=True, slots=True)
class Setting:
    """All that a strategy knows when it plans a goal, in addition to the goal and the tools."""

    now: int = 0  # ms
    history: Mapping[str, int] = field(default_factory=dict)  # from earlier plans of this kind and repository
    drafter: str = "none"  # none: templates; queue: a step asks a controller; else the worker asks, see Consult
    drafted: tuple[Drafted, ...] = ()  # answers of the worker's drafter so far, in order
    options: Mapping[str, Any] = field(default_factory=dict)  # settings of the operator for this kind
    forbidden: Forbidden = FORBIDDEN  # paths that no goal may allow
    policy: Policy = BUILT_IN  # that the plan is made under
    cached_from: str | None = None  # the plan of a cached draft, if no drafter was asked
    learned: Mapping[str, int] = field(default_factory=dict)  # used tokens of attempts so far, by mode and queue
    summaries: tuple[ChunkSummary, ...] = ()  # of chunks of commits, as drafters wrote them for earlier goals
    memory: tuple[Mapping[str, Any], ...] = ()  # attempts similar to the goal, as `Compared.similar` has them


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of the work that a strategy finished, for the event `plan.phase`."""

    name: str
    status: str  # a line for people


@dataclass(frozen=True, slots=True)
class Question:
    """A question that a person has to answer before the plan goes on."""

    kind: str  # such as clarify
    questions: tuple[str, ...]
    document: str | None = None  # the question as a page (Markdown), to be answered in writing


@dataclass(frozen=True, slots=True)
class Draft:
    """The first steps of a plan and the document of its kind, before validation.

    With a `question` there are no steps yet: the plan waits for a person's answer, and the strategy adds steps then.
    """

    steps: tuple[PlannedStep, ...]
    document: Mapping[str, Any] | None = None
    goal: Goal | None = None  # as planned, if attacks were removed from it
    findings: tuple[str, ...] = ()  # the class of each of these
    tools: tuple[Mapping[str, Any], ...] = ()  # the operator's contracts that go with the plan
    state: Mapping[str, Any] | None = None  # the strategy state for later; None: the strategy never goes on
    question: Question | None = None
    phases: tuple[Phase, ...] = ()
    counted: str | None = None  # of this history: raised by one with this plan, if it still is `seen`
    seen: int = 0
    tokens: int = 0  # used by the drafter: the plan's budget pays for them
    streak: str | None = None  # counters of this history: raised by one if the plan halts, dropped when it is COMPLETED
    read: Mapping[str, Any] = field(default_factory=dict)  # other values that planning read, for the plan's log
    cache: tuple[Any, ...] | None = None  # the use of the plan cache, for the plan's head
    notes: Mapping[str, Any] = field(default_factory=dict)  # that the plan keeps
    forbidden: tuple[str, ...] = ()  # names that the plan keeps, see `names_to_keep`


@dataclass(frozen=True, slots=True)
class Rejected:
    """A goal that gets no plan, with its errors; each error has a pointer to its place."""

    reason: str
    errors: tuple[FieldError, ...]
    goal: Goal | None = None
    findings: tuple[str, ...] = ()
    tokens: int = 0  # used by the drafter
    read: Mapping[str, Any] = field(default_factory=dict)  # as in Draft


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """The goal needs no work."""

    reason: str


@dataclass(frozen=True, slots=True)
class Consult:
    """A request to a drafter; `draft` is called again with the answer in `Setting.drafted`."""

    prompt: str  # sanitized, with marks around texts from outside
    schema: Mapping[str, Any] | None = None  # JSON Schema of the answer; None for text
    validation_mode: str | None = None  # how the answer is read; None: by the operator's setting
    base: str | None = None  # the commit that the goal begins at; the worker fills it in


Answer = Draft | Rejected | NothingToDo | Consult


@dataclass(frozen=True, slots=True)
class LivePlan:
    """The data of a plan that its strategy needs to go on."""

    goal: Goal  # without texts that only a draft reads; its allowed_files are literal paths
    state: Mapping[str, Any]
    document: Mapping[str, Any] | None
    now: int  # ms
    tools: Sequence[dict[str, Any]] = ()  # the operator's contracts, for the verbs that are given no catalogue
    plan_id: str = ""
    steps: int = 0  # number of steps so far, in any state


@dataclass(frozen=True, slots=True)
class Workflow:
    """A description of a kind of goal, for people who choose one."""

    seed: str  # the document that specified it
    summary: str
    field: str  # the goal's field with its input; `goal` if its sentence and context are all
    steps: Mapping[str, Sequence[str]]  # by part of the workflow: the names of its steps, in their order


@dataclass(frozen=True, slots=True)
class End:
    """How a step ended: DONE, FAILED after its last attempt, or SKIPPED.

    Of steps that revisions inserted, strategies only see repair steps, because these change files. Such a step has
    `facts["inserted_by"]`.
    """

    step_id: str
    facts: Mapping[str, Any]  # the static part of the step (PlannedStep as JSON)
    state: str
    output: Any = None  # the controller's answer; words from outside, of any shape
    touched_files: tuple[str, ...] = ()
    failure: Mapping[str, Any] | None = None  # as PreviousFailure
    tool_calls: int | None = None
    attempt: int | None = None  # which of its attempts was the last
    evaluation: Mapping[str, float] = field(default_factory=dict)  # metrics from its controller
    commit: str | None = None  # the commit of its change


@dataclass(frozen=True, slots=True)
class Expansion:
    """How a plan goes on: its new strategy state, and added steps.

    New steps may depend on each other, never on older steps. A step id is unique in a plan for ever.
    """

    state: Mapping[str, Any]
    document: Mapping[str, Any] | None
    why: str  # the reason of the revision, in a sentence
    steps: tuple[PlannedStep, ...] = ()
    phases: tuple[Phase, ...] = ()
    question: Question | None = None
    replaces: bool = False  # the new steps replace all that failed or were skipped so far
    halt: tuple[str, str, Mapping[str, Any]] | None = None  # rule, reason and evidence: the plan cannot go on
    is_drafted: bool = False  # whether it comes from a drafter's answer


@dataclass(frozen=True, slots=True)
class Blocked:
    """The reason why a controller cannot go on with a step; the step then ends, and no failure is counted."""

    reason: str


class Strategy(Protocol):
    """How one kind of goal becomes steps, and how its plan goes on: six pure functions.

    The planner calls `draft` while it creates a plan, and the other functions within the commit of an event. Each
    package of tasks/strategies has these functions for one kind.
    """

    def draft(self, goal: Goal, catalogue: Catalogue, setting: Setting) -> Answer:
        """Return the first steps of `goal`, a request to a drafter, or why there is no plan."""
        ...

    def input_for(self, live: LivePlan, facts: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the input for an attempt at a step that its spec does not have; None if there is none."""
        ...

    def refusal(self, live: LivePlan, facts: Mapping[str, Any], output: Any) -> str | Blocked | None:
        """Return why a controller's answer cannot be used although the attempt succeeded; None if it can.

        The attempt then counts as failed, and the next attempt gets the reason. If the result is Blocked, there is no
        next attempt.
        """
        ...

    def advance(self, live: LivePlan, end: End, catalogue: Catalogue) -> Expansion | None:
        """Return how the plan goes on after a step ended; None if nothing changes."""
        ...

    def answer(self, live: LivePlan, value: Any, catalogue: Catalogue) -> Expansion | str:
        """Return how the plan goes on after a person's answer, or why the answer is not valid."""
        ...

    def stuck(self, live: LivePlan, catalogue: Catalogue) -> Expansion | None:
        """Return how the plan goes on if steps failed and no other step can run; None if it has to halt."""
        ...
