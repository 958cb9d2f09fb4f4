"""Takes a plan in flight to the rules of a newer policy version.

Limits, steps and tools stay as they were made. What a newer rule counts on, and a plan that began before it has not, is
given to the plan here; ROWS goes through every changed rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from schemas.base import FailureCategory as C
from schemas.base import StepState as S
from schemas.step import DELIVERIES
from tasks.base.policy_version import POLICY_VERSION, ChangedRule
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.halt_rules import REMEMBERS_SINCE
from tasks.policy.red_checks import UNTOLD
from tasks.rules import budget


def wanted_version(value: Any) -> int | None:
    """Read the version that a command asks for; None where it names none."""
    version = value.get("policy_version") if isinstance(value, dict) and len(value) == 1 else None
    return version if type(version) is int else None


def unknown(value: Any) -> str | None:
    """Say that a command asks for rules which this worker does not know."""
    version = wanted_version(value)
    if version is None or version <= POLICY_VERSION:
        return None
    return f"this worker knows policy versions up to {POLICY_VERSION}, and the command asks for {version}"


def migrate(unit: UnitOfWork, value: Any) -> str | None:
    """Have the plan go on under the version that `value` asks for; returns why that cannot be."""
    head, version = unit.plan.head, wanted_version(value)
    if version is None:
        return '`value` must be the version alone, such as {"policy_version": 6}'
    if version <= head.policy_version:
        return f"the plan is at policy version {head.policy_version} already, and none goes back"
    if unit.snapshot.active:
        return "attempts are in flight: pause the plan, and migrate it once they have ended"
    rows = [rule for rule in ChangedRule if head.policy_version < rule.since <= version]
    if ChangedRule.DELIVERIES_ARE_APART in rows and _unfolds_into_deliveries(unit):
        return f"its goal has steps made for the queue {DELIVERIES}, which is for DELIVER steps alone in that version"
    for give in filter(None, map(ROWS.__getitem__, rows)):
        give(unit)
    unit.around["policy_version"] = head.policy_version  # before: nothing else in the log may tell it
    head.policy_version = version
    unit.plan.dirty.update(("head", "live"))
    return None


def _unfolds_into_deliveries(unit: UnitOfWork) -> bool:
    return ((unit.strategy_state or {}).get("goal") or {}).get("queue") == DELIVERIES


def _forget_shrinking(unit: UnitOfWork) -> None:
    """Take back the room that attempts made which made the plan smaller."""
    counters = unit.plan.counters
    if counters.get("growth_kb", 0) < 0:
        counters["growth_kb"] = 0


def _forget_flips(unit: UnitOfWork) -> None:
    """Forget what verifications said: nobody noted of which tree."""
    unit.plan.counters.pop("flaky", None)


def _remember_from_now(unit: UnitOfWork) -> None:
    """Note since when the plan remembers, so that the explanation of its end claims nothing about what was before."""
    unit.plan.counters[REMEMBERS_SINCE] = unit.snapshot.now


def _doubt_created(unit: UnitOfWork) -> None:
    """Take what landed for patches that did not say what they created: nobody noted whether they did."""
    if unit.plan.head.limits.get(budget.EXCUSES) and unit.plan.counts.get(S.DONE.value):
        unit.plan.counters[UNTOLD] = 1


def _count_hangs(unit: UnitOfWork) -> None:
    """Count how often steps ran out of time, as far as the plan remembers their failures."""
    counters = unit.plan.counters
    for step_id, _, category, _ in counters.get("failed", ()):
        if category == C.TEST_TIMEOUT:
            known = counters.setdefault("timeouts", {})
            known[step_id] = known.get(step_id, 0) + 1


# What a plan is given for each rule; None where it needs nothing.
ROWS: Mapping[ChangedRule, Callable[[UnitOfWork], None] | None] = MappingProxyType(
    {
        ChangedRule.GROWTH_COUNTS_UP: _forget_shrinking,
        ChangedRule.TOKENS_UP_TO_THE_LIMIT: None,  # where more was booked already, nothing more is
        ChangedRule.A_CLAIM_NEEDS_ITS_LEASE: None,  # nothing is in flight
        ChangedRule.DOUBT_IS_NOTED: None,  # of successes to come
        ChangedRule.END_OF_OPTIONS: None,  # commands are read with and without `--`; those that are made have it
        ChangedRule.WHAT_WAS_RED_IS_EXCUSED: None,  # rests on a limit, which a plan without it is not given
        ChangedRule.HANDED_BACK: None,  # counts from nothing
        ChangedRule.A_RED_CHECK_IS_MENDED: None,  # reads the steps, as they are in every version
        ChangedRule.FLAKY_ON_ONE_TREE: _forget_flips,
        ChangedRule.FILES_ARE_KEPT: None,  # of failures to come
        ChangedRule.NOTHING_DONE_IS_NO_SUCCESS: None,  # of outcomes to come; steps that were inserted are exempt
        ChangedRule.ADVICE_BY_FACTS: _remember_from_now,
        ChangedRule.PIECES_BY_OWN_FILES: None,  # of steps to come
        ChangedRule.RED_CHECKS_ARE_DROPPED: None,  # of checks that are marked: files that nobody noted may be new
        ChangedRule.CRITERIA_OF_WHAT_IS_RUN: None,  # of steps to come
        ChangedRule.MENDS_ARE_HEARD: None,  # of mends that end from now on
        ChangedRule.TEXTS_OF_TIMEOUTS: None,  # of outcomes to come
        ChangedRule.AS_RESERVED: None,  # nothing is reserved
        ChangedRule.FILES_OF_STEPS: None,  # of commands to come
        ChangedRule.MENDED_AT_THE_CAUSE: None,  # reads the steps
        ChangedRule.A_HANG_IS_MENDED: None,  # of failures to come
        ChangedRule.A_MENDED_RED_IS_NO_FAILURE_IN_A_ROW: None,  # takes back what the same decision counted
        ChangedRule.PREPARED_WHERE_THE_FIXER_RAN: None,  # of steps to come
        ChangedRule.ANSWERS_ARE_GIVEN: None,  # of steps to come; an answer that was not kept is passed over
        ChangedRule.CREATED_IS_TOLD: _doubt_created,
        ChangedRule.A_BASELINE_EACH: None,  # one that is under way is that of its step, as ever
        ChangedRule.HANGS_ARE_COUNTED: _count_hangs,
        ChangedRule.DELIVERIES_ARE_APART: None,  # steps stay where they are; see `migrate` for those to come
        ChangedRule.PLANNED_ANEW_BEFORE_A_HALT: None,  # of failures to come
        ChangedRule.BLOCKED_IS_NO_FAILURE: None,  # of outcomes to come
        ChangedRule.TESTS_COME_AGAIN: None,  # where nobody noted what a task failed with, no tests are blamed
        ChangedRule.ANSWERS_ARE_EXACT: None,  # of answers to come
        ChangedRule.DOCUMENTS_ARE_NOT_TESTED: None,  # of steps to come
        ChangedRule.ENDS_WHILE_ASKING: None,  # of ends to come
        ChangedRule.CAUSES_ARE_LOOKED_FOR: None,  # reads the steps
        ChangedRule.TESTS_ALONE_AT_BASE: None,  # of failures to come: what a baseline found before is not asked again
        ChangedRule.CHECKS_OF_A_WHOLE_ARE_DROPPED: None,  # of steps to come, which are marked
        ChangedRule.POLICIES_ARE_KEPT: None,  # none was named, so that ours hold on
        ChangedRule.PARTS_ARE_GIVEN: None,  # of drafts to come: a plan that works already ends without a card
        ChangedRule.NULLS_ARE_LEFT_OUT: None,  # of answers to come
        ChangedRule.ROLES_ARE_AGENTS: None,  # of answers to come
        ChangedRule.MENDS_ARE_REVIEWED_ONCE: None,  # from the next review on
        ChangedRule.TESTS_WITH_WHAT_THEY_TEST: None,  # of steps to come
        ChangedRule.FAILED_CHANGES_ARE_TOLD: None,  # of failures to come
        ChangedRule.FILES_ARE_CLAIMED: None,  # of steps to come: those that it has claim nothing
        ChangedRule.FLAKY_TESTS_ARE_KNOWN: None,  # what was recalled goes with the plan's head
        ChangedRule.TESTS_ARE_RUN_BY_NAME: None,  # of steps to come
        ChangedRule.FAILED_WORK_IS_ASKED_ABOUT: None,  # of failures to come: the others of a wave lack their reason
    }
)
