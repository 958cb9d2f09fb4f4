"""What a strategy is asked and what it answers: a first draft of a plan, how the plan goes on, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.step import PlannedStep
from tasks.base.policy import BUILT_IN, Policy
from tasks.text.forbidden_paths import FORBIDDEN, Forbidden
from tasks.toolchain.catalogue import Catalogue

MAX_EXPANSION = 64  # steps that may be added at once: they go into one commit


@dataclass(frozen=True, slots=True)
class Drafted:
    """What a drafter said to one question."""

    output: Any = None  # text or JSON from outside; None where the call failed
    error: str | None = None  # why there is no output
    tokens: int = 0  # that the call used up
    duration_ms: int = 0
    command: tuple[str, ...] = ()  # that was run for it, without secrets
    stderr: str = ""  # the end of what it said there, without secrets


@dataclass(frozen=True, slots=True)
class Setting:
    """What surrounds a goal when it is planned, from outside of all strategies."""

    now: int = 0  # ms
    history: Mapping[str, int] = field(default_factory=dict)  # what earlier plans of the same kind and repository left
    drafter: str = "none"  # none: templates; queue: a step asks a controller; else the worker asks, see Consult
    drafted: tuple[Drafted, ...] = ()  # what the worker's drafter said so far, in order
    options: Mapping[str, Any] = field(default_factory=dict)  # settings of the operator for this kind
    forbidden: Forbidden = FORBIDDEN  # paths that no goal may allow
    policy: Policy = BUILT_IN  # that the plan is made under
    cached_from: str | None = None  # the plan whose draft was said, where no drafter was asked
    learned: Mapping[str, int] = field(default_factory=dict)  # what attempts have used so far, by mode and queue
    memory: tuple[Mapping[str, Any], ...] = ()  # attempts similar to the goal, as `Compared.similar` has them


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase that a strategy went through, for the event `plan.phase`."""

    name: str
    status: str  # a line for people


@dataclass(frozen=True, slots=True)
class Question:
    """What a person has to say before the plan goes on."""

    kind: str  # such as clarify
    questions: tuple[str, ...]
    document: str | None = None  # the question as a page (Markdown), to be answered in writing


@dataclass(frozen=True, slots=True)
class Draft:
    """First steps of a plan and the document of its kind, not validated yet.

    With a `question` there are no steps: the plan waits for its answer, and goes on from that.
    """

    steps: tuple[PlannedStep, ...]
    document: Mapping[str, Any] | None = None
    goal: Goal | None = None  # as it was planned, where attacks were taken out of it
    findings: tuple[str, ...] = ()  # the class of each of these
    tools: tuple[Mapping[str, Any], ...] = ()  # the operator's contracts that go with the plan
    state: Mapping[str, Any] | None = None  # what the strategy needs to go on with the plan later; None: it never will
    question: Question | None = None
    phases: tuple[Phase, ...] = ()
    counted: str | None = None  # of this history: raised by one with this plan, if it still is `seen`
    seen: int = 0
    tokens: int = 0  # that drafting it used up: the plan's budget pays for them
    streak: str | None = None  # counters of this history: raised by one if the plan halts, dropped when it is COMPLETED
    read: Mapping[str, Any] = field(default_factory=dict)  # what planning read beside the goal, for the plan's log
    cache: tuple[Any, ...] | None = None  # what the plan has to do with the plan cache, for its head
    notes: Mapping[str, Any] = field(default_factory=dict)  # that the plan keeps
    forbidden: tuple[str, ...] = ()  # names that the plan keeps, see `names_to_keep`


@dataclass(frozen=True, slots=True)
class Rejected:
    """Every error for which there is no plan, with a pointer each."""

    reason: str
    errors: tuple[FieldError, ...]
    goal: Goal | None = None
    findings: tuple[str, ...] = ()
    tokens: int = 0  # that drafting used up all the same
    read: Mapping[str, Any] = field(default_factory=dict)  # as in Draft


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """The goal asks for nothing."""

    reason: str


@dataclass(frozen=True, slots=True)
class Consult:
    """A drafter has to be asked first; what it says comes back in `Setting.drafted`."""

    prompt: str  # sanitised, with the origin of what comes from outside marked
    schema: Mapping[str, Any] | None = None  # JSON Schema of the answer; None for text
    validation_mode: str | None = None  # how the answer is read; None: as the operator has set it
    base: str | None = None  # the commit that the goal begins at; the worker fills it in


Answer = Draft | Rejected | NothingToDo | Consult


@dataclass(frozen=True, slots=True)
class LivePlan:
    """A plan that expands, as its strategy sees it."""

    goal: Goal  # without what only a draft reads; its allowed_files are literal paths
    state: Mapping[str, Any]
    document: Mapping[str, Any] | None
    now: int  # ms
    tools: Sequence[dict[str, Any]] = ()  # the operator's contracts, for the verbs that are given no catalogue
    plan_id: str = ""
    steps: int = 0  # that it has so far, whatever became of them


@dataclass(frozen=True, slots=True)
class Workflow:
    """What a kind of goal is, for people who choose one."""

    seed: str  # the document that asked for it
    summary: str
    field: str  # of a goal that holds its input; `goal` where its sentence and context are all of it
    steps: Mapping[str, Sequence[str]]  # by part of the workflow: the names of its steps, in their order


@dataclass(frozen=True, slots=True)
class End:
    """How a step of a plan ended: DONE, FAILED after its last attempt, or SKIPPED.

    Of steps that revisions inserted only mends are told of, since these change files: `facts["inserted_by"]` is set.
    """

    step_id: str
    facts: Mapping[str, Any]  # the step as it was planned (PlannedStep as JSON)
    state: str
    output: Any = None  # what its controller answered; outside words, of any shape
    touched_files: tuple[str, ...] = ()
    failure: Mapping[str, Any] | None = None  # as PreviousFailure
    tool_calls: int | None = None
    attempt: int | None = None  # which of its attempts was the last
    evaluation: Mapping[str, float] = field(default_factory=dict)  # metrics that its controller measured
    commit: str | None = None  # that its change landed as


@dataclass(frozen=True, slots=True)
class Expansion:
    """How a plan goes on: what its strategy keeps, and what is added.

    New steps may wait for each other, never for older ones; no two steps of a plan may have one id, ever.
    """

    state: Mapping[str, Any]
    document: Mapping[str, Any] | None
    why: str  # the reason of the revision, in a sentence
    steps: tuple[PlannedStep, ...] = ()
    phases: tuple[Phase, ...] = ()
    question: Question | None = None
    replaces: bool = False  # the new steps stand for all that failed or was skipped so far
    halt: tuple[str, str, Mapping[str, Any]] | None = None  # rule, reason and evidence: the plan cannot go on
    is_drafted: bool = False  # whether it is made of what a drafter answered


@dataclass(frozen=True, slots=True)
class Blocked:
    """Why a controller cannot go on with a step, as it reports: the step ends, and that counts as no failure."""

    reason: str


class Strategy(Protocol):
    """How one kind of goal becomes steps and goes on, in six pure functions.

    `draft` is called while a plan is made, the others within the commit of what they are about. Each kind is a package
    of tasks/strategies that has them.
    """

    def draft(self, goal: Goal, catalogue: Catalogue, setting: Setting) -> Answer:
        """Answer `goal` with first steps, or with a question, or say why there are none."""
        ...

    def input_for(self, live: LivePlan, facts: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return what an attempt of a step is given beside its spec."""
        ...

    def refusal(self, live: LivePlan, facts: Mapping[str, Any], output: Any) -> str | Blocked | None:
        """Return why what a controller answered with success is no use.

        The attempt failed then, and the next one reads why; a step that is blocked has no next one.
        """
        ...

    def advance(self, live: LivePlan, end: End, catalogue: Catalogue) -> Expansion | None:
        """Go on from the end of a step; None where nothing changes."""
        ...

    def answer(self, live: LivePlan, value: Any, catalogue: Catalogue) -> Expansion | str:
        """Go on from a person's answer, or say why it is none."""
        ...

    def stuck(self, live: LivePlan, catalogue: Catalogue) -> Expansion | None:
        """Go on where steps failed and nothing else can run; None where the plan halts."""
        ...
