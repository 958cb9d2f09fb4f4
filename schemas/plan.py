"""A plan as `planner show --json` reports it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from schemas.base import GoalVerdict, Outbound, PlanState
from schemas.delivered import DeliveryState, DeliveryView
from schemas.result import IntegrityView, PlanResult
from schemas.step import VerifyTool


class Halt(Outbound):
    """Why a plan ended early: the rule that fired, a sentence, and the values that met its limit."""

    rule: str
    reason: str
    evidence: dict[str, Any]


class Waiting(Outbound):
    """The question that a plan asks a person, and its deadline."""

    kind: str
    questions: tuple[str, ...]
    until: str | None = None
    document: str | None = None


class BudgetLine(Outbound):
    """One budget: its limit (None: no limit), the reservations of attempts in flight, and the spent amount."""

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
    """The expected needs of a budget, in addition to spent and reserved amounts.

    `needed` is the sum of the estimates of the open steps, null without an estimate. `likely` is the same at the rate
    so far, null if there is no rate yet.
    """

    needed: int | None
    likely: int | None


class Forecast(Outbound):
    """The expected needs of a plan's open `steps`, if each succeeds with its next attempt."""

    steps: int
    tokens: ForecastLine
    patch_cycles: ForecastLine
    wall_clock_s: ForecastLine


class PlanSummary(Outbound):
    """A line of `planner plans --json`.

    `branch` and `pull_request` are the delivered ones; `undelivered` is the reason if a part of the goal's delivery is
    missing. `delivery` is the state of the change at its forge; null without one. `lines` counts the lines to review,
    added and removed, by the controller's count. `cost_usd` is the cost of its attempts by the reports of controllers,
    null without any. `doubt` is a reason to check a success: an attempt changed the failing test itself.
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
    """Why no step of a live plan runs, in one word and as a sentence; `since` is null if it is not known."""

    reason: Literal[
        "no_controller", "handed_back", "paused", "breaker", "person", "files", "drafter", "backoff", "review"
    ]
    since: str | None = None
    detail: str


class StepActivity(Outbound):
    """The activity of a step: `queued`, `running`, `backoff` before its next attempt, or `held` by its queue or files.

    `since` is the time when its attempt was queued or handed back, or when a controller claimed or read it. `until` is
    the end of the backoff. `controller` and `heartbeat_at` come from the controller, which may send no heartbeat.
    `reason` is why nothing happens: no controller reads its queue, another plan claims a file, or a controller handed
    it back.
    """

    kind: str
    since: str | None = None
    until: str | None = None
    controller: str | None = None
    heartbeat_at: str | None = None
    reason: str | None = None


class StepView(Outbound):
    """A step of a plan view; the title is for people.

    `verified` is false if the step is done without a proof; null if it is not done, or has no verification. `answer` is
    the step's answer if it is kept for other steps or for people: data from outside. Only `planner show` has
    `activity`.
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
    """The head of a plan's log: the digest of its newest line, and its number of lines."""

    head: str
    lines: int


class OverlapView(Outbound):
    """A file that other live plans claimed before this plan.

    With `circle` this plan does not wait for them, because they wait for it.
    """

    file: str
    plans: tuple[str, ...]
    circle: bool = False


class BreakerView(Outbound):
    """A tenant's repository that its breaker has paused since the time `since`, and why.

    `next_probe_at` is the time of the next probe: then, or as soon as a plan has a step to start. It is null while a
    step of the plan `probe` is the probe; its success resumes the repository.
    """

    tenant: str
    repo: str
    reason: str
    since: str
    next_probe_at: str | None
    probe: str | None = None


class NeedView(Outbound):
    """Files that a step needs and its goal does not allow, why, and the command for a goal that does.

    `submit` is empty if no goal may allow them, or if a goal of this kind cannot be sent by options.
    """

    step_id: str
    files: tuple[str, ...]
    reason: str
    submit: str = ""


class CriterionView(Outbound):
    """An acceptance criterion of a plan; `checked_by` is a step with its command, a reviewer, a person, or nothing."""

    text: str
    checked_by: str | None = None


class SimilarView(Outbound):
    """Attempts of steps that are similar to those of a plan, with their number and the failures by category.

    `score` is their similarity from 0 to 1, reduced by 5 % for each day, times their success rate.
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
    """The order of the steps, and its rule: `likely` or `risky`."""

    by: str
    steps: tuple[str, ...]


class CheckView(Outbound):
    """A check that the step `step_id` got because similar attempts often failed by `category`.

    Without a step and a category, it is a check that every step runs last, because it never found anything.
    """

    tool: str
    step_id: str | None = None
    category: str | None = None
    verify: VerifyTool | None = None


class MemoryView(Outbound):
    """The facts from earlier plans of the repository at a plan's creation; `order` is null if it did not change."""

    similar: tuple[SimilarView, ...] = ()
    order: OrderView | None = None
    checks: tuple[CheckView, ...] = ()

    @classmethod
    def of(cls, kept: Mapping[str, Any] | None) -> MemoryView | None:
        """Read the memory in a plan's head; None if there is none."""
        known = {name: kept[name] for name in cls.model_fields if name in kept} if kept else None
        return cls.model_validate(known) if known else None


class PlanView(PlanSummary):
    """Everything about one plan; steps in their planned order.

    `unverified` names the files that nothing verifies, and whether no step runs tests. `outside` names the files that
    the goal does not allow, and the gaps that are left. `retry_of` is the plan whose goal this one repeats, and
    `retried_by` are the plans that repeat the goal of this one. `overlaps` are all overlaps that the plan met, past
    ones included.

    `forecast` is null for a plan that has ended or is not made yet. `drafted_from` is the plan whose cached draft this
    one uses. `flaky_tests` are tests that earlier plans of its repository found to be flaky; its steps get them.
    `memory` has other facts from those plans. Both are empty if there are none. `breaker` is the breaker of its
    repository, if that pauses the plan; null for a user of Redis without the right to read it.

    `needs` are files that attempts asked for and the goal does not allow at the level of their steps. `standing_still`
    is why no step runs; null if one runs, or waits for its turn at a controller that reads its queue. `integrity` has
    the effects of changes on tests and checks, refused changes included. `criteria` are the acceptance criteria; those
    that nothing checks are in `unverified`, too. `result` is that of `GET /v1/plans/{id}/result`, null until the plan
    has ended.
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
    """The result of a goal by its record, with the end of its plan if that is known.

    A goal with nothing to do has the id of a plan that was never made. One that could not be read has "" and `errors`.
    `criteria` are those of a plan that has ended, the first 50 of them.
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
    same_as: str | None = None
    criteria: tuple[CriterionView, ...] = ()
