"""The budgets of a plan: defaults for each kind, reservations of attempts, usage, and a warning in time.

Each attempt has one reservation, which is settled once. Each grant of a day budget that applies to the plan reserves
the same tokens, and gets the unused part back on the same day. A grant that is too small is refilled outside of the
commit, and then the plan is looked at again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from schemas.base import Mode, RiskLevel
from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.outcome import Metrics
from schemas.plain_outcome import PlainMetrics
from schemas.step import DELIVERIES, PlannedStep
from schemas.stored import Attempt, PlanHead, PlanRecord
from schemas.times import DAY_MS
from tasks.base.policy import BUILT_IN, Policy
from tasks.plan.changeset import UsedTokens
from tasks.plan.unit_of_work import UnitOfWork

Figures: TypeAlias = Metrics | PlainMetrics
Booked: TypeAlias = tuple[int, int, int]  # tokens, patch cycles and tool calls
RECEIPTS = "unproven_successes"  # 0: no success without receipts counts. Set only if receipts are required
REPORTS = "exit_codes_alone"  # 0: a tool of tests does not pass without a complete report
EXCUSES = "excuses"  # the failures from before the plan that do not count: one of these two
REVIEWS = "review"  # among limits: the plan ends with a step that reviews its changes
EXCUSE_ALL = 1  # tests, and added checks
EXCUSE_CHECKS = 2
PER_STEP = {"patch_cycles": 2, "failing_outcomes": 1, "wall_clock_s": 300}  # minimum of a plan's default, for each step
TRIES = 2  # a default of tokens suffices for so many attempts at every step
NO_METRICS = PlainMetrics()
SPENDER_SHARE = 10  # an attempt that uses at least a tenth of a budget is recorded for the explanation of a halt
BUDGETS = ("tokens", "patch_cycles", "failing_outcomes", "tool_calls")
WARN_SHARE = 0.8
LEARNED_MODES = ("patch", "read_only")  # no agent runs in the others


class Expected(NamedTuple):
    """The sums of the estimates of a plan's steps, one attempt for each step; steps of mode `test` use no tokens."""

    steps: int = 0
    tokens: int = 0
    patch_cycles: int = 0


def expect(steps: Iterable[PlannedStep]) -> Expected:
    """Sum up the estimates of steps."""
    count = tokens = patch_cycles = 0
    for step in steps:
        count += 1
        patch_cycles += step.estimate.patch_cycles
        if step.mode is not Mode.TEST:
            tokens += step.estimate.tokens
    return Expected(count, tokens, patch_cycles)


def limits_of(goal: Goal, policy: Policy = BUILT_IN, expected: Expected = Expected()) -> dict[str, int | None]:  # noqa: B008 (a tuple)
    """Return the goal's limits, completed with the defaults of its policy; None means no limit.

    The defaults of tokens, patch cycles, failing outcomes and time are raised to the needs of the plan's steps. No
    limit is above the bound in the goal's policy.
    """
    rules = list(policy.rules_of(goal.kind, goal.tenant, goal.context.repo))
    limits = {name: value for each in rules for name, value in each.defaults.items()}
    least = {name: each_step * expected.steps for name, each_step in PER_STEP.items()}
    for name, need in {**least, "tokens": TRIES * expected.tokens}.items():
        default = limits[name]
        limits[name] = None if default is None else max(default, need)
    given = goal.limits.model_dump()
    limits |= {name: given[name] for name in limits if given[name] is not None}
    for each in rules:
        limits |= {name: _least(limits[name], most) for name, most in each.most.items()}
    return limits


def find_too_small(goal: Goal, policy: Policy, expected: Expected) -> tuple[FieldError, ...]:
    """Return an error for each limit that is too small for the plan's steps, with the figures and its origin."""
    limits = limits_of(goal, policy, expected)
    given = goal.limits.model_dump()
    errors = []
    for name, need in (("tokens", expected.tokens), ("patch_cycles", expected.patch_cycles)):
        limit = limits[name]
        if limit is not None and limit < need:
            whose = f"limits.{name} is" if given[name] == limit else f"the policy allows limits.{name} up to"
            message = f"The {expected.steps} steps are expected to use {need} {name}, and {whose} {limit}."
            errors.append(FieldError(pointer=f"/limits/{name}", code="budget_too_small", message=message))
    return tuple(errors)


def _least(limit: int | None, most: int) -> int:
    return most if limit is None else min(limit, most)


def approvals_of(goal: Goal, policy: Policy) -> tuple[RiskLevel, ...]:
    """Return the risk levels whose steps need an approval, because the goal or its policy demands it."""
    asked = dict.fromkeys(goal.approvals)
    for each in policy.rules_of(goal.kind, goal.tenant, goal.context.repo):
        asked |= dict.fromkeys(each.approvals)
    return tuple(asked)


def bind(goal: Goal, policy: Policy) -> Goal:
    """Return the goal with the limits that its policy gives it; unchanged under the built-in policy.

    The built-in policy is the same everywhere, so its limits need not be written into the goal.
    """
    if not policy.digest:
        return goal
    return goal.model_copy(update={"limits": goal.limits.model_copy(update=limits_of(goal, policy))})


def requires_receipts(plan: PlanHead) -> bool:
    """Return whether a success of this plan counts only with a receipt of every tool that verifies its step."""
    return plan.limits.get(RECEIPTS) == 0


def requires_reports(plan: PlanHead) -> bool:
    """Return whether a test tool passes in this plan only if it has a complete report."""
    return plan.limits.get(REPORTS) == 0


def first_exhausted(plan: PlanRecord) -> str | None:
    """Return the name of the first budget that is used up, reservations included; None if every budget has a rest.

    A limit of 0 is never used up by itself: attempts that use nothing of this budget are allowed.
    """
    limits, spent, reserved = plan.head.limits, plan.spent, plan.reserved
    for name in BUDGETS:
        limit = limits[name]
        if limit is not None and limit - spent[name] - reserved[name] <= (0 if limit else -1):
            return name
    return None


def available(plan: PlanRecord, name: str, amount: int) -> int:
    """Return how much of `amount` an attempt may reserve: all of it, or the rest of the budget if that is less."""
    limit = plan.head.limits[name]
    return amount if limit is None else max(0, min(amount, limit - plan.spent[name] - plan.reserved[name]))


def reserve(plan: PlanRecord, tokens: int, patch_cycles: int) -> None:
    """Reserve tokens and patch cycles for an attempt."""
    plan.reserved["tokens"] += tokens
    plan.reserved["patch_cycles"] += patch_cycles
    plan.dirty.add("live")


def settle(plan: PlanRecord, attempt: Attempt, metrics: Figures | None, estimate: Mapping[str, Any]) -> Booked:
    """Release the reservation of `attempt` and book its usage; a missing figure counts as the reserved amount."""
    said = metrics or NO_METRICS
    if said.tokens_used is None and attempt.tokens < estimate["tokens"]:
        _remember_cut(plan, "tokens", estimate["tokens"] - attempt.tokens)
    if said.patch_cycles is None and attempt.patch_cycles < estimate["patch_cycles"]:
        _remember_cut(plan, "patch_cycles", estimate["patch_cycles"] - attempt.patch_cycles)
    release(plan, attempt)
    tokens, patch_cycles, tool_calls = usage_of(attempt, metrics)
    return book(plan, tokens, patch_cycles, tool_calls)


def usage_of(attempt: Attempt, metrics: Figures | None) -> Booked:
    """Return the usage of an attempt; a missing figure for tokens or patch cycles counts as the reserved amount."""
    said = metrics or NO_METRICS
    return (
        attempt.tokens if said.tokens_used is None else said.tokens_used,
        attempt.patch_cycles if said.patch_cycles is None else said.patch_cycles,
        said.tool_calls or 0,
    )


def has_room(plan: PlanRecord, attempt: Attempt, metrics: Figures | None, tokens: int, patch_cycles: int) -> bool:
    """Return whether `attempt` may end and the next one reserve these amounts, without a budget that runs low.

    False if a budget would be used up, or would need its first warning.
    """
    limits, spent, reserved = plan.head.limits, plan.spent, plan.reserved
    used_tokens, used_cycles, calls = usage_of(attempt, metrics)
    for name, used, wanted in (
        ("tokens", used_tokens, tokens - attempt.tokens),
        ("patch_cycles", used_cycles, patch_cycles - attempt.patch_cycles),
        ("failing_outcomes", 0, 0),
        ("tool_calls", calls, 0),
    ):
        if (limit := limits[name]) is not None:
            used += spent[name]
            if used + reserved[name] + wanted >= limit or (used >= WARN_SHARE * limit and name not in plan.warned):
                return False
    return True


def usage_name(mode: str, queue: str) -> str:
    """Return the name under which usage is kept for attempts of a mode on a queue; empty if none is kept."""
    return f"{mode}:{queue}" if mode in LEARNED_MODES and queue != DELIVERIES else ""


def used_tokens(facts: Mapping[str, Any], metrics: Figures | None) -> UsedTokens | None:
    """Return the usage record of an attempt for later estimates; None if its controller reported no tokens."""
    if metrics is None or metrics.tokens_used is None:
        return None
    name = usage_name(facts["mode"], facts.get("queue", "default"))
    return UsedTokens(name, metrics.tokens_used) if name else None


def settle_handed_back(plan: PlanRecord, attempt: Attempt, metrics: Figures | None, *, held: bool) -> Booked:
    """Release the reservation of `attempt` and book its usage; a missing figure counts as 0.

    With `held`, at least the reserved amounts are booked.
    """
    used = metrics or NO_METRICS
    release(plan, attempt)
    tokens = max(used.tokens_used or 0, held * attempt.tokens)
    return book(plan, tokens, max(used.patch_cycles or 0, held * attempt.patch_cycles), used.tool_calls or 0)


def book(plan: PlanRecord, tokens: int, patch_cycles: int = 0, tool_calls: int = 0) -> Booked:
    """Add usage to the sums of the plan, and return the booked amounts.

    Tokens beyond the plan's limit are not booked, so no plan costs more than its limit. Reservations of other attempts
    are not subtracted: an attempt that used too much leaves less for them.
    """
    limit = plan.head.limits["tokens"]
    spent = plan.spent["tokens"]
    if limit is not None and not 0 <= tokens <= limit - spent:
        counted = max(0, min(tokens, limit - spent))
        if tokens > counted:  # a higher limit would book them
            plan.spending.unbooked += tokens - counted
        tokens = counted
    plan.spent["tokens"] = spent + tokens
    plan.spent["patch_cycles"] += patch_cycles
    plan.spent["tool_calls"] += tool_calls
    return tokens, patch_cycles, tool_calls


def forfeit(plan: PlanRecord, attempt: Attempt) -> None:
    """Book the whole reservation of an attempt whose controller went away without a report."""
    release(plan, attempt)
    book(plan, attempt.tokens, attempt.patch_cycles)


def release(plan: PlanRecord, attempt: Attempt) -> None:
    """Remove the reservation of `attempt` from the plan, and book nothing."""
    plan.reserved["tokens"] -= attempt.tokens
    plan.reserved["patch_cycles"] -= attempt.patch_cycles
    plan.dirty.add("live")


def remember_spender(
    plan: PlanRecord, step_id: str, attempt: int, tokens: int, patch_cycles: int, tool_calls: int = 0
) -> None:
    """Record an attempt that used much of a budget.

    Much is at least the limit divided by SPENDER_SHARE. Each budget keeps at most SPENDER_SHARE attempts, the largest.
    """
    limits, never = plan.head.limits, SPENDER_SHARE * (tokens + patch_cycles + tool_calls) + 1
    if (
        SPENDER_SHARE * tokens < (limits["tokens"] or never)
        and SPENDER_SHARE * patch_cycles < (limits["patch_cycles"] or never)
        and SPENDER_SHARE * tool_calls < (limits["tool_calls"] or never)
    ):
        return  # as nearly always
    for name, amount in (("tokens", tokens), ("patch_cycles", patch_cycles), ("tool_calls", tool_calls)):
        limit = limits[name]
        if limit and amount * SPENDER_SHARE >= limit:
            spenders = plan.spending.spenders
            known = [*spenders.get(name, ()), [step_id, attempt, amount]]
            spenders[name] = sorted(known, key=lambda each: -each[2])[:SPENDER_SHARE]


def spenders_of(plan: PlanRecord, name: str) -> list[dict[str, Any]]:
    """Return the attempts that used much of the budget `name`, largest first."""
    known = plan.spending.spenders.get(name, ())
    return [{"step_id": step_id, "attempt": attempt, "used": used} for step_id, attempt, used in known]


def _remember_cut(plan: PlanRecord, name: str, missing: int) -> None:
    """Record that an attempt could reserve less than its estimate; advice adds `missing` to the limit that it names."""
    short = plan.spending.cut_short
    short[name] = short.get(name, 0) + missing


def settle_without_outcome(unit: UnitOfWork, step_id: str, attempt: Attempt, *, claimed: bool) -> None:
    """Settle an attempt that has no outcome: book its reservation if a controller claimed it, else release it."""
    if claimed:
        forfeit(unit.plan, attempt)
        remember_spender(unit.plan, step_id, attempt.attempt, attempt.tokens, attempt.patch_cycles)
    else:
        release(unit.plan, attempt)
        lapse(unit, attempt, 0)


def lapse(unit: UnitOfWork, attempt: Attempt, used: int) -> None:
    """Record the unused tokens of an attempt that was reserved on another day, after it used `used` tokens.

    The grant of that day does not get these tokens back.
    """
    if attempt.at // DAY_MS != unit.snapshot.now // DAY_MS:
        unit.lapsed += max(0, attempt.tokens - used)


def allowance(unit: UnitOfWork, wanted: int) -> int | None:
    """Return how many of `wanted` tokens an attempt may use under the day budgets; None if it cannot start now."""
    grants = unit.snapshot.grants
    for scope, grant in grants.items():
        left = grant.left - unit.tokens_used
        if left < wanted or left <= 0:
            entry = ["grants", {name: [*each] for name, each in grants.items()}]
            if entry not in unit.inputs:  # the log has the rest of the grants if it made a difference
                unit.inputs.append(entry)
            if not grant.exhausted:
                unit.change.short[scope] = max(1, wanted - left)
            if left <= 0 or not grant.exhausted:
                unit.change.more |= grant.exhausted  # the next look finds the plan held, with the time
                return None
            wanted = left
    return wanted


def remaining_fraction(plan: PlanRecord) -> float:
    """Return the share that is left of the scarcest budget, from 0 to 1; reservations count as spent."""
    limits, spent, reserved = plan.head.limits, plan.spent, plan.reserved
    least = 1.0
    for name in BUDGETS:
        used = spent[name] + reserved[name]
        if used and (limit := limits[name]) and (share := 1 - used / limit) < least:
            least = share
    return round(least, 4) if least > 0 else 0.0


def warn(unit: UnitOfWork) -> None:
    """Emit `budget.low` for each budget that has spent WARN_SHARE of its limit, once for each budget."""
    plan, limits = unit.plan, unit.plan.head.limits
    for name in BUDGETS:
        limit = limits[name]
        if limit and plan.spent[name] >= WARN_SHARE * limit and name not in plan.warned:
            plan.warned.append(name)
            plan.dirty.add("live")
            unit.emit("budget.low", {"budget": name, "spent": plan.spent[name], "limit": limit})
