"""The tables through which features take part in decisions: one for each point of the core loop, in a fixed order.

The list of features in `tasks/features/__init__.py` fills the tables. This module defines the types of the tables, and
imports no feature.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

from schemas.command import Command, CommandName
from schemas.goal import Goal
from schemas.outcome import Outcome, ReleaseKind
from schemas.plain_outcome import PlainOutcome
from schemas.step import PlannedStep
from schemas.stored import Attempt, PlanRecord
from schemas.stored.part import Part
from tasks.plan.snapshot import StandingCommand, Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.advice_facts import Facts
from tasks.policy.plan_seed import PlanSeed
from tasks.rules.budget import Booked
from tasks.rules.strategy import Draft, Rejected

if TYPE_CHECKING:
    from tasks.policy.narrowing import Evidence
    from tasks.policy.revision import Revision

Failure: TypeAlias = dict[str, Any]  # in the form for the next attempt: schemas.step.PreviousFailure


class HandedBack(NamedTuple):
    """An attempt that counts as handed back: the reason, the claimant (empty without a claim), the time of the claim.

    `kind` is the kind of the trouble; None if the controller does not report it.
    """

    reason: str
    controller: str
    since: int
    kind: ReleaseKind | None = None


@dataclass(slots=True)
class Judgement:
    """The facts about an ended attempt so far; judges change them."""

    step: Step
    outcome: Outcome
    attempt: Attempt
    handed_back: HandedBack | None = None
    failure: Failure | None = None
    doubt: str | None = None  # why a success is not proved
    is_excused: bool = False  # whether all that failed was red before the plan
    known_flaky: bool = False  # whether nothing failed but tests that are known to be flaky
    reason: str | None = None  # for which the step is done
    turned: bool = False  # whether its verification failed last, on the same tree, and passes now
    previous: Failure = field(init=False)  # of the attempt before

    @property
    def category(self) -> str:
        """The category of the failure; empty if there is none."""
        return self.failure["category"] if self.failure else ""

    def __post_init__(self) -> None:
        """Keep the previous failure, which the end of the step overwrites."""
        self.previous = self.step.status.previous or {}


@dataclass(frozen=True, slots=True)
class Recall:
    """Data that plans of a repository leave to later ones: its key, and how a new plan reads and stores it.

    `read` returns JSON values. The plan's first log line contains the result of `known`, under `name`.
    """

    name: str
    switch: str  # of PlanSeed: 0 where nothing is read
    kept_as: Literal["counters", "kept", "list"]  # a hash of counters, another hash, or a list
    where: Callable[[Goal], str | None]  # the name of the key
    read: Callable[[Any, Goal, int], Any]  # from the key's fields or list, at a time in ms
    begin: Callable[[PlanRecord, Any], None]
    known: Callable[[PlanRecord], Any]


Only: TypeAlias = Callable[[Any], Any]  # condition on a unit of work, or on a plan's record
H = TypeVar("H", bound=Callable[..., Any] | Recall)


class Table(list[H]):
    """The functions of features at one point of the loop, in their order."""

    def row(
        self, function: H, *, only: Only | None = None, fact: str = "", told: str = "", of: Collection[str] = ()
    ) -> Callable[[], None]:
        """Return a row of this table for the list of a feature; calling the row adds its function to the table.

        The table then calls the function only for plans that `only` selects, and for steps that have this `fact`. It
        skips outcomes without the field `told`, and failures that are not `of` these categories.
        """

        def ask(about: Any, *more: Any) -> Any:
            if (
                (only and not only(about))
                or (fact and not getattr(more[0], "step", more[0]).facts[fact])
                or (told and not getattr(more[0].outcome, told))
                or (of and more[-1].category not in of)
            ):
                return None
            return cast("Callable[..., Any]", function)(about, *more)

        asked = cast("H", ask) if only or fact or told or of else function
        return lambda: self.append(asked)


def limited(name: str) -> Only:
    """Return a condition for plans that have this limit, with any value."""
    return lambda about: name in (about if isinstance(about, PlanRecord) else about.plan).limits


def keeping(kind: type[Part]) -> Only:
    """Return a condition for plans that store data of this kind."""
    return lambda about: bool((about if isinstance(about, PlanRecord) else about.plan).keeps(kind))


def switched(name: str) -> Callable[[PlanSeed, Goal, Draft], Mapping[str, int]]:
    """Return a function that takes a limit from the operator's settings, if these set it."""
    return lambda plan_seed, _, __: {name: plan_seed.switches[name]} if name in plan_seed.switches else {}


def never(*_: Any) -> bool:
    """The default of a feature without a condition: it is never idle."""
    return False


def always(_: PlanRecord) -> bool:
    """The condition of a feature that is idle in every plan, except about steps that have its fields."""
    return True


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature: its rows of the tables, its own events, and when it is idle about a plain success.

    It is idle if `is_idle` is true of the plan, or `is_idle_about` of the plan, the step's fields and the outcome.
    Also, no step that ends may have one of `end_fields`, and no step that starts may have one of `start_fields`.
    """

    name: str
    rows: tuple[Callable[[], None], ...]
    events: tuple[str, ...] = ()
    advice: Mapping[str, Callable[[Facts], str]] = field(default_factory=dict)  # halt rule -> what lets the plan go on
    is_idle: Callable[[PlanRecord], bool] = never
    is_idle_about: Callable[[PlanRecord, dict[str, Any], PlainOutcome], bool] = never
    end_fields: tuple[str, ...] = ()
    start_fields: tuple[str, ...] = ()


def build(features: Iterable[Feature]) -> None:
    """Fill the tables from `features`, in their order."""
    for feature in features:
        for put in feature.rows:
            put()
        ADVICE.update(feature.advice)
        IDLE.append((feature.is_idle, feature.is_idle_about))
        END_FIELDS.update(feature.end_fields)
        START_FIELDS.update(feature.start_fields)


def questions_about(plan: PlanRecord) -> Sequence[Callable[[PlanRecord, dict[str, Any], PlainOutcome], bool]]:
    """Return the conditions that a success of this plan has to meet, so that every feature is idle about it."""
    return [is_idle_about for is_idle, is_idle_about in IDLE if not is_idle(plan)] if IDLE else [never]


# The judgement of an ended attempt, in this order.
SETTLE = Table[Callable[[UnitOfWork, Judgement], Booked | None]]()  # books in place of the budget; returns the usage
JUDGES = Table[Callable[[UnitOfWork, Judgement], bool]]()  # true: the step is dealt with, and no other judge runs
REFUSALS = Table[Callable[[UnitOfWork, Judgement], Failure | None]]()  # why a success does not count
AT_SUCCESS = Table[Callable[[UnitOfWork, Step, Outcome], None]]()  # before it is counted
AT_FAILURE = Table[Callable[[UnitOfWork, Step, Outcome, Failure, int], str]]()  # digest of a change that was repeated
AFTER_FAILURE = Table[Callable[[UnitOfWork, Step, Failure, str], None]]()  # with its signature
REVISE = Table[Callable[[UnitOfWork, Step, PlannedStep, "Evidence"], "Revision | None"]]()  # before the policy's rows
AFTER_END = Table[Callable[[UnitOfWork, Judgement], None]]()  # of a step that is done
ENDED = Table[Callable[[UnitOfWork, Judgement], None]]()  # of every attempt with an outcome, once it is judged
FIRES = Table[
    Callable[[PlanRecord, Step, Failure], tuple[str, str, Mapping[str, Any]] | None]
]()  # rule, reason, evidence
GIVE_UP = Table[Callable[[UnitOfWork, Step, str], bool]]()  # no controller can do the step; true: no halt
EXPIRED = Table[Callable[[UnitOfWork, Step, Failure, bool], bool]]()  # true: the step is dealt with
PRE_STEP_ENDED = Table[Callable[[UnitOfWork, Step, Step], bool]]()  # true: the step that waited is dealt with

# The beginning of a plan.
RECALLS = Table[Recall]()
LIMITS = Table[Callable[[PlanSeed, Goal, Draft], Mapping[str, int]]]()  # in addition to those of every goal
SEED = Table[Callable[[PlanSeed, Goal, Draft], PlanSeed]]()  # the part that matters to the draft
REFUSE_DRAFT = Table[Callable[[PlanSeed, Goal, Draft], Rejected | None]]()
ARRANGED = Table[Callable[[PlanSeed, tuple[PlannedStep, ...]], tuple[PlannedStep, ...]]]()  # before DRAFTED
DRAFTED = Table[Callable[[Goal, tuple[PlannedStep, ...]], tuple[PlannedStep, ...]]]()  # steps as they are planned
AT_BIRTH = Table[Callable[[UnitOfWork, PlanSeed, Goal, Draft], None]]()  # in its first commit
OPENED = Table[Callable[[UnitOfWork, Sequence[PlannedStep]], None]]()  # with its first steps, before any starts

# Pauses and halts by features, next to those by people, among the records of `handlers/bulk_commands.py`.
STANDING = Table[Callable[[Mapping[bytes, bytes], str, str], StandingCommand | None]]()  # for a tenant's repository
LET_THROUGH = Table[Callable[[Mapping[bytes, bytes], str, str, str], str]]()  # token of a plan's step that may start
LIFT = Table[Callable[[Mapping[bytes, bytes], Command], Sequence[str]]]()  # the records that a resume lifts, too

# The further course of a plan.
ON_TIMER = Table[Callable[[UnitOfWork], None]]()
HOLDS = Table[Callable[[PlanRecord], str]]()  # why the whole plan may start nothing
BEFORE_LOOK = Table[Callable[[UnitOfWork], None]]()  # before the steps of a plan that runs are looked at
BEFORE_START = Table[Callable[[UnitOfWork, Step], bool]]()  # true: the step is kept back
WHILE_STOPPED = Table[Callable[[UnitOfWork], Sequence[Step]]]()  # one of them may start although the plan is stopped
SPEC_FIELDS = Table[Callable[[UnitOfWork, Step], Mapping[str, Any] | None]]()  # of the context of a spec
INPUT = Table[Callable[[UnitOfWork, Step], Mapping[str, Any] | None]]()  # of a spec; the first result counts
REFUSE_ADDED = Table[Callable[[UnitOfWork, Sequence[PlannedStep], str, Mapping[str, Any]], bool]]()  # true: it halted
ADDED = Table[Callable[[UnitOfWork, tuple[PlannedStep, ...]], tuple[PlannedStep, ...]]]()  # steps as they are added
SATISFIED = Table[Callable[[UnitOfWork], bool]]()  # every step is done; true: the plan goes on nevertheless
AT_CLOSE = Table[Callable[[UnitOfWork], None]]()  # of every decision
MORE_ADVICE = Table[Callable[[UnitOfWork], str]]()  # more advice for an ended plan
AT_WALL_CLOCK = Table[Callable[[UnitOfWork], Mapping[str, Any]]]()  # evidence of a plan that ran out of time
ON_COMMAND = {CommandName.SKIP: Table[Callable[[UnitOfWork, Step, str], None]]()}  # further effects on the step


ADVICE: dict[str, Callable[[Facts], str]] = {}  # by the rule that ended a plan
# The plans, outcomes and fields of steps about which features are idle.
IDLE: list[tuple[Callable[[PlanRecord], bool], Callable[[PlanRecord, dict[str, Any], PlainOutcome], bool]]] = []
END_FIELDS: set[str] = set()
START_FIELDS: set[str] = set()
