"""A plan as `planner show --json` tells it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from schemas.base import GoalVerdict, Outbound, PlanState
from schemas.delivered import DeliveryState, DeliveryView
from schemas.result import IntegrityView, PlanResult


class Halt(Outbound):
    """Why a plan ended early: the rule that fired, a sentence, and the values that met its limit."""

    rule: str
    reason: str
    evidence: dict[str, Any]


class Waiting(Outbound):
    """What a plan waits for a person to say, and until when."""

    kind: str
    questions: tuple[str, ...]
    until: str | None = None
    document: str | None = None


class BudgetLine(Outbound):
    """One budget: what it allows (None: no limit), what attempts in flight hold, what is gone."""

    limit: int | None
    reserved: int
    spent: int


class Budget(Outbound):
    """The four budgets that every plan has."""

    tokens: BudgetLine
    patch_cycles: BudgetLine
    failing_outcomes: BudgetLine
    wall_clock_s: BudgetLine


class ForecastLine(Outbound):
    """What a budget is expected to need beside what is spent and held.

    `needed` is what the estimates of the open steps come to (null: nothing estimates it), `likely` the same at the rate
    so far (null: there is none yet).
    """

    needed: int | None
    likely: int | None


class Forecast(Outbound):
    """What the `steps` of a plan that have not ended are expected to need, if each succeeds with its next attempt."""

    steps: int
    tokens: ForecastLine
    patch_cycles: ForecastLine
    wall_clock_s: ForecastLine


class PlanSummary(Outbound):
    """A line of `planner plans --json`.

    `branch` and `pull_request` are what was delivered, `undelivered` says why not all that the goal asks for was.
    `delivery` is the state of the change at its forge; null without one. `lines` are those that a reviewer has to read,
    new and gone, as the controller counted them.
    `cost_usd` is what its attempts cost, as controllers say; null where none said so. `doubt` says why its success is
    not to be believed without a look: an attempt changed the failing test itself.
    """

    plan_id: str
    goal_id: str
    tenant: str
    repo: str | None
    kind: str
    goal: str
    state: PlanState
    revision: int
    paused: bool
    paused_by: str | None = None
    waiting: Waiting | None
    halt: Halt | None
    budget: Budget
    counts: dict[str, int]
    created_at: str
    ended_at: str | None
    branch: str | None = None
    pull_request: str | None = None
    undelivered: str | None = None
    delivery: DeliveryView | None = None
    lines: int | None = None
    doubt: str | None = None
    cost_usd: float | None = None


class StandingStill(Outbound):
    """Why no step of a live plan runs, in one word and as a sentence; `since` is null where that is not known."""

    reason: Literal[
        "no_controller", "handed_back", "paused", "breaker", "person", "files", "drafter", "backoff", "review"
    ]
    since: str | None = None
    detail: str


class StepActivity(Outbound):
    """What a step does: `queued`, `running`, in a `backoff` before its next attempt, `held` by its queue or by files.

    `since` is when its attempt was queued or handed back, or when a controller claimed or read it; `until` when the
    backoff ends. `controller` and `heartbeat_at` are as the controller says; it may send no heartbeat. `reason` says
    why nothing happens: no controller reads its queue, another plan claims a file, a controller handed it back.
    """

    kind: str
    since: str | None = None
    until: str | None = None
    controller: str | None = None
    heartbeat_at: str | None = None
    reason: str | None = None


class StepView(Outbound):
    """A step of a plan view; the title is for people.

    `verified` is false where the step is done and nothing proved it, null where it is not done or nothing verifies it.
    `answer` is what a step answered, where that was kept for other steps or for people: data from outside.
    `activity` is told by `planner show` alone.
    """

    step_id: str
    state: str
    attempt: int
    depends_on: tuple[str, ...]
    allowed_files: tuple[str, ...]
    verify: str
    risk_level: str
    mode: str
    type: str
    queue: str
    inserted_by: str | None = None
    waiting: Any = None
    title: str
    verified: bool | None = None
    answer: str | None = None
    activity: StepActivity | None = None


class LogView(Outbound):
    """The head of a plan's log: the digest of its newest line, and how many lines it has."""

    head: str
    lines: int


class OverlapView(Outbound):
    """A file that other live plans claimed before a plan did; with `circle` it goes on, as they wait for it in turn."""

    file: str
    plans: tuple[str, ...]
    circle: bool = False


class BreakerView(Outbound):
    """A tenant's repository that its breaker has paused since the time `since`, and why.

    `next_probe_at` is when the next step is let through: then, or as soon as a plan has one to start. It is null while
    a step of the plan `probe` is let through, whose success resumes the repository.
    """

    tenant: str
    repo: str
    reason: str
    since: str
    next_probe_at: str | None
    probe: str | None = None


class NeedView(Outbound):
    """Files that a step needs and its goal does not allow, why, and the command that sends a goal which does.

    `submit` is empty where no goal may allow them, or a goal of this kind is not sent by options.
    """

    step_id: str
    files: tuple[str, ...]
    reason: str
    submit: str = ""


class CriterionView(Outbound):
    """What a plan is accepted by; `checked_by` is a step with its command, a reviewer, a person, or nothing."""

    text: str
    checked_by: str | None = None


class SimilarView(Outbound):
    """Attempts of equal steps that are like those of a plan: how many there were, how many failed by what, and with
    how many tokens.

    `score` is how alike they are, from 0 to 1, times what is left of that after 5 % a day, times their success rate.
    """

    title: str
    files: tuple[str, ...]
    verify: tuple[str, ...]
    attempts: int
    succeeded: int
    failed: dict[str, int]
    wasted_tokens: int
    score: float


class OrderView(Outbound):
    """In which order the steps were put, and why: `likely` or `risky`."""

    by: str
    steps: tuple[str, ...]


class MemoryView(Outbound):
    """What earlier plans of the repository taught a plan when it was made; `order` is null where it stayed."""

    similar: tuple[SimilarView, ...] = ()
    order: OrderView | None = None

    @classmethod
    def of(cls, kept: Mapping[str, Any] | None) -> MemoryView | None:
        """Read what a plan's head keeps of it; None where that is nothing."""
        known = {name: kept[name] for name in cls.model_fields if name in kept} if kept else None
        return cls.model_validate(known) if known else None


class PlanView(PlanSummary):
    """Everything about one plan; steps in their planned order.

    `unverified` says which files nothing verifies, and whether no step runs tests; `outside` which files the goal does
    not allow, and which gaps are left. `retry_of` and `retried_by` name the plan of whose goal this one was made again,
    and those that were made of this one's. `overlaps` are those that the plan met, whatever became of them since.
    `forecast` is null of a plan that has ended or is not made yet. `drafted_from` is the plan whose draft the plan
    cache gave to this one, `flaky_tests` those that earlier plans of its repository found, of which its steps are told,
    `memory` what those taught it; null where that is nothing.
    `breaker` is that of its repository, where the plan is paused by it; null to a user of Redis who may not read that.
    `needs` are files that attempts asked for and the goal does not allow at the level of their steps. `standing_still`
    says why no step runs; null where one does, or waits for its turn at a controller that reads its queue.
    `integrity` has what changes did to tests and checks, those that were refused among them. `criteria` are what the
    plan is accepted by; those that nothing checks stand in `unverified`, too. `result` is that of
    `GET /v1/plans/{id}/result`, null until the plan has ended.
    """

    steps: tuple[StepView, ...]
    unverified: str | None = None
    outside: str | None = None
    retry_of: str | None = None
    retried_by: tuple[str, ...] = ()
    overlaps: tuple[OverlapView, ...] = ()
    log: LogView | None = None
    forecast: Forecast | None = None
    drafted_from: str | None = None
    flaky_tests: tuple[str, ...] = ()
    memory: MemoryView | None = None
    breaker: BreakerView | None = None
    needs: tuple[NeedView, ...] = ()
    standing_still: StandingStill | None = None
    integrity: tuple[IntegrityView, ...] = ()
    criteria: tuple[CriterionView, ...] = ()
    result: PlanResult | None = None
    document: Any = None


class GoalAnswer(Outbound):
    """What became of a goal, as its record says; of its plan the end, once that is known.

    A goal with nothing to do has an id of a plan that was never made, one that could not be read has "" and `errors`.
    """

    goal_id: str
    plan_id: str
    verdict: GoalVerdict
    reason: str
    errors: tuple[dict[str, Any], ...] = ()
    state: str | None = None
    halt_rule: str | None = None
    halt_reason: str | None = None
    ended_at: str | None = None
    branch: str | None = None
    pull_request: str | None = None
    undelivered: str | None = None
    delivery_state: DeliveryState | None = None
    delivery_at: str | None = None
    doubt: str | None = None
