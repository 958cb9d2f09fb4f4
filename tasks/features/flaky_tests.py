"""Handles attempts that failed only by tests that are known to be flaky, and learns new ones.

The known flaky tests are read when the plan is created (`tasks/memory`) and are part of its head. The plan adds tests
that a repair step saw pass without a change. A failure by such tests shows little about the plan's work. A step that
only verifies first runs again; then its next result counts as usual. A step that patches is tried again. Its failure is
not compared with the previous one, and does not count among failures in a row. The goal's own failing tests never count
as flaky.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.base import FailureCategory as C
from schemas.base import Mode
from schemas.base import StepState as S
from schemas.goal import Goal
from schemas.outcome import Outcome
from schemas.stored import PlanRecord
from schemas.stored.features import Reruns
from tasks.base.errors import NeedsSteps
from tasks.memory.flaky_tests import counter_of, counters_of, recall
from tasks.plan.changeset import HistoryChange
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import waits
from tasks.policy.outcome_verdict import is_empty
from tasks.policy.pipeline import AFTER_END, AT_BIRTH, JUDGES, LIMITS, RECALLS, Feature, Judgement, Recall, switched
from tasks.policy.plan_seed import PlanSeed
from tasks.rules.strategy import Draft

MEMORY, FLAKY = "memory", "flaky"  # of the context in a plan's head
SWITCH = "flaky_tests"  # among limits, 0: later plans do not learn the flaky tests of this one
MOST_RUN_AGAIN = 64
MOST_NOTED = 20
OF_TESTS = (C.TEST_REGRESSION, C.FLAKY_TEST)


def where(goal: Goal) -> str | None:
    """Return the name of the flaky-test counters of the goal's repository; None without a repository."""
    return counters_of(goal.tenant, goal.context.repo) if goal.context.repo else None


def read(fields: Mapping[str, bytes], goal: Goal, now: int) -> dict[str, Any]:
    """Return the tests that are flaky by these counters, and the counters that are too old."""
    counters = {name: int(count) for name, count in fields.items() if count.isdigit()}
    return recall(counters, now, goal.context.failing_tests)._asdict()


def begin(plan: PlanRecord, recalled: Mapping[str, Any]) -> None:
    """Add the known flaky tests to the specs of a plan."""
    if recalled[FLAKY]:
        plan.head.context[MEMORY] = {FLAKY: list(recalled[FLAKY])}


def drop_old(unit: UnitOfWork, plan_seed: PlanSeed, _: Goal, __: Draft) -> None:
    """Drop counters that are too old, with the commit that begins a plan of their repository."""
    head = unit.plan.head
    if head.repo and (old := plan_seed.recalled.get(MEMORY, {}).get("old")):
        name = counters_of(head.tenant, head.repo)
        unit.change.history += [HistoryChange(name, counter, "", "") for counter in old]


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Retry a step that only verifies, once, if only known flaky tests failed. Return whether it was retried."""
    seen.known_flaky = _is_known(unit, seen.step, seen.outcome, seen.failure)
    return seen.failure is not None and seen.known_flaky and _run_again(unit, seen.step, seen.failure, seen.attempt.at)


def _is_known(unit: UnitOfWork, step: Step, outcome: Outcome, failure: Mapping[str, Any] | None) -> bool:
    """Return whether all failing tests are known to be flaky, and their list is complete."""
    context = unit.plan.head.context
    known = [*((context.get(MEMORY) or {}).get(FLAKY) or ()), *unit.plan.reruns.flaky]
    if failure is None or not known:
        return False
    if failure["category"] not in OF_TESTS or step.facts["inserted_by"] or not outcome.failing_tests_complete:
        return False
    red = frozenset(outcome.failing_tests)
    return bool(red) and red <= frozenset(known) and red.isdisjoint(context.get("failing_tests") or ())


def _run_again(unit: UnitOfWork, step: Step, failure: Mapping[str, Any], began: int) -> bool:
    """Try a step of mode `test` again, once; return whether the step is tried again."""
    done = unit.plan.reruns.landed
    if step.facts["mode"] != Mode.TEST or step.step_id in done or len(done) >= MOST_RUN_AGAIN:
        return False
    done[step.step_id] = unit.plan.streaks.tree_of(began)
    step.status.previous = {**failure, "category": C.FLAKY_TEST.value}
    unit.move_step(step, S.ACTIVE.value, "retried", C.FLAKY_TEST.value)
    waits.back_off(unit, step, C.FLAKY_TEST.value)
    return True


def note_passing(unit: UnitOfWork, seen: Judgement) -> None:
    """Record tests as flaky that pass after a repair step which changed nothing.

    Raises NeedsSteps if the snapshot lacks the step that failed.
    """
    facts, outcome, noted = seen.step.facts, seen.outcome, unit.plan.reruns.flaky
    if facts["mode"] != Mode.PATCH or not facts["inserted_by"] or not (is_empty(outcome) and outcome.verify):
        return
    red = unit.snapshot.steps.get(facts["inserted_by"])
    if red is None:
        raise NeedsSteps(frozenset({facts["inserted_by"]}))
    failure = red.status.previous or {}
    new = [test for test in failure.get("failing_tests") or () if test not in noted]
    if failure.get("category") in OF_TESTS and red.facts["mode"] == Mode.TEST and new:
        unit.plan.reruns.flaky = [*noted, *new][:MOST_NOTED]
        unit.plan.dirty.add("live")


def learn(unit: UnitOfWork, seen: Judgement) -> None:
    """Count tests as flaky if they failed, and the step then succeeded without a change of the code in between."""
    head, previous = unit.plan.head, seen.previous
    again = unit.plan.reruns.landed.get(seen.step.step_id)
    if seen.is_excused or (not seen.turned and (again is None or again != unit.plan.streaks.landed)):
        return
    if not head.repo or head.limits.get(SWITCH) == 0 or previous.get("category") not in OF_TESTS:
        return
    flaky = [found for test in previous["failing_tests"] if (found := counter_of(test, unit.snapshot.now))]
    if flaky:
        name = counters_of(head.tenant, head.repo)
        unit.change.history += [HistoryChange(name, counter, "", 1) for counter in dict.fromkeys(flaky)]


FEATURE = Feature(
    "flaky_tests",
    (
        LIMITS.row(switched(SWITCH)),
        RECALLS.row(Recall(MEMORY, SWITCH, "counters", where, read, begin, lambda plan: plan.head.context.get(MEMORY))),
        AT_BIRTH.row(drop_old),
        JUDGES.row(judge, only=lambda unit: MEMORY in unit.plan.head.context or unit.plan.keeps(Reruns)),
        AFTER_END.row(note_passing, fact="inserted_by"),
        AFTER_END.row(learn),
    ),
    is_idle=lambda plan: not plan.keeps(Reruns),
)
