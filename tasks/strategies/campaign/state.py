"""The strategy state of a campaign, and the scope of its planning."""

from __future__ import annotations

import operator
from dataclasses import dataclass

from pydantic import Field

from schemas.base import Record
from schemas.goal import Goal
from schemas.kinds.campaign import Idioms, PlanTask, Relevance, TaskStatus
from tasks.rules.strategy import LivePlan, Setting
from tasks.strategies.drafting.cycle import NONE, DraftOptions
from tasks.toolchain.catalogue import Catalogue, catalogue_of
from tasks.toolchain.files import Role, role_of

REPORTED = ("reason", "tried", "unknown", "discovery")  # of a task that is blocked


class CandidateFile(Record):
    """The facts of a candidate file that a plan needs."""

    path: str
    relevance: Relevance
    function: str = ""
    first: int = 0  # first line of the first of its functions; 0: unknown
    last: int = 0  # and the last


class Section(Record):
    """A `##` section of the objective, and the allowed files that its own words name, the surest first."""

    heading: str
    files: tuple[str, ...] = ()


class Choice(Record):
    """The two alternatives of an open "or" in the objective, or the alternatives that a person chose."""

    section: str = ""  # the heading above it; empty for all of the objective
    sides: tuple[str, ...] = ()


class MissingParents(Record):
    """The dependencies of a goal's task that name no task of the goal, and the task listed before it."""

    seq: str
    names: tuple[str, ...]
    before: str | None = None


class Knowledge(Record):
    """All facts that planning uses; an exploration and answers add to it."""

    sections: int = 0
    headings: tuple[str, ...] = ()
    parts: tuple[Section, ...] = ()  # what `headings` are of
    choices: tuple[Choice, ...] = ()  # the open "or"s
    meant: tuple[Choice, ...] = ()  # the chosen sides of others
    missing: tuple[MissingParents, ...] = ()  # of tasks that the goal brings
    instead: dict[str, tuple[str, ...]] = Field(default_factory=dict)  # a person's dependencies for these
    framework: str = "none"
    named: bool = False  # the goal names the framework
    confidence: float = 0.5
    idioms: Idioms = Idioms()
    language: str | None = None
    file_count: int = 0
    failures: tuple[str, ...] = ()
    cost_k: float = 0
    patterns: tuple[str, ...] = ()
    candidates: tuple[CandidateFile, ...] = ()
    defined: tuple[CandidateFile, ...] = Field(default=(), exclude_if=operator.not_)  # by the goal's definitions
    outside: tuple[str, ...] = ()  # candidates that the goal does not allow
    tests: tuple[str, ...] = ()  # allowed test files that a person named
    test_pattern: str | None = None
    test_command: str | None = None
    untested: bool = False  # a person decided that there are no tests to write
    confirmed: bool = False  # a person chose the files
    narrowed: bool = False  # and these are not all that the goal allows


class CampaignTerms(Record):
    """The settings of the goal and the operator for planning a campaign."""

    drafter: str = "none"  # who writes its tasks; none: the templates
    attempts: int = 2  # at a draft: the first, and the repair
    reject: bool = False  # a campaign whose drafts are no use ends; else it gets the tasks of the templates
    clarifications: int = 5  # answers without PROCEED
    replans: int = 1  # how often a stuck campaign is replanned
    quorum: int = 3  # modes of an exploration that must have come to something
    failures: int = 10  # remembered ones that count
    limits_calls: bool = Field(default=False, exclude_if=operator.not_)  # a task's budget of tool calls is a limit


class Setback(Record):
    """The failure that blocked a task; a controller that repeats the task, or rewrites its tests, receives it."""

    task: str
    reason: str
    category: str | None = None  # of its last failure; none where its controller reported it as blocked at once
    failing_tests: tuple[str, ...] = ()
    trace: str | None = None
    tried: str | None = None
    unknown: str | None = None
    discovery: str | None = None


class TaskProgress(Record):
    """The status of a task, its results, and its steps that have not ended."""

    status: TaskStatus = TaskStatus.PENDING
    steps: tuple[str, ...] = ()
    delivered: str | None = None
    reason: str | None = None
    setback: Setback | None = None  # what blocked it
    before: Setback | None = None  # what blocked it the last time, or the task that its tests kept from passing
    rewritten: int = 0  # times that its tests came again because of another task
    blocked_by: str | None = None
    tool_calls: int | None = None  # reported by its controllers, next to its budget
    beyond_budget: int | None = None  # of these; None where there are none


class CampaignState(Record):
    """The strategy state of a campaign."""

    known: Knowledge
    terms: CampaignTerms = CampaignTerms()
    prompt: str | None = None  # of the draft that it waits for
    made: int = 0  # steps so far
    waits: str | None = None  # for an exploration or a draft: the step; for a person: clarify or confirm
    rounds: int = 0  # answers of people so far
    replans: int = 0  # how often it was replanned
    given: tuple[PlanTask, ...] = ()  # tasks of the goal, while a person is asked about their dependencies
    finding: tuple[str, ...] = ()  # tasks that only find the cause of another one's block
    progress: dict[str, TaskProgress] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CampaignScope:
    """The facts of a campaign that never change: its goal, objective, allowed files, catalogue and settings."""

    goal: Goal
    objective: str
    allowed: tuple[str, ...]
    catalogue: Catalogue
    terms: CampaignTerms


def terms_of(goal: Goal, setting: Setting) -> CampaignTerms:
    """Return the settings of the goal and the operator.

    A goal with its own tasks uses no drafter, unless it asks for one.
    """
    options, usual, drafts = setting.options, CampaignTerms(), DraftOptions.of(setting.options)
    has_tasks = goal.campaign is not None and goal.campaign.tasks is not None
    return CampaignTerms(
        drafter=NONE if has_tasks and not goal.drafter else setting.drafter,
        attempts=drafts.max_attempts,
        reject=not drafts.fallback,
        clarifications=max(1, options.get("max_clarifications", usual.clarifications)),
        replans=options.get("max_replans", usual.replans),
        quorum=options.get("quorum", usual.quorum),
        failures=options.get("max_failures", usual.failures),
        limits_calls=options.get("task_budget_limit", usual.limits_calls),
    )


def scope_of(live: LivePlan, state: CampaignState, catalogue: Catalogue | None = None) -> CampaignScope:
    """Return the scope of a running campaign."""
    objective, goal = (live.document or {}).get("objective"), live.goal
    words = objective if isinstance(objective, str) else goal.goal
    return CampaignScope(goal, words, goal.allowed_files, catalogue or catalogue_of(live.tools), state.terms)


def changeable_files(known: Knowledge, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the allowed files that may change; after a person chose files, only the chosen ones and tests."""
    if not known.narrowed:
        return allowed
    meant = {*(each.path for each in known.candidates), *known.tests}
    return tuple(path for path in allowed if path in meant or role_of(path) is Role.TEST)
