"""What becomes of an attempt at which nothing failed but tests that are known to be flaky, and how that is learnt.

Which these are was recalled when the plan was made (`tasks/memory`), and goes with its head. Such a failure says little
of the plan's work. A step that only verifies is run once more before anything else is thought of, and whatever it finds
then is judged as any failure. One that patches is tried again, and its failure is neither compared with the one before
nor counted among those in a row. A goal's own failing tests are never taken for flaky.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.base import FailureCategory as C
from schemas.base import Mode
from schemas.base import StepState as S
from schemas.outcome import Outcome
from schemas.stored.features import Reruns
from tasks.memory.flaky_tests import Recalled, counter_of, counters_of
from tasks.plan.changeset import HistoryChange
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import waits
from tasks.policy.pipeline import AFTER_END, JUDGES, Feature, Judgement
from tasks.rules import budget

MEMORY, FLAKY = "memory", "flaky"  # of the context in a plan's head
MOST_RUN_AGAIN = 64
OF_TESTS = (C.TEST_REGRESSION, C.FLAKY_TEST)


def context_of(recalled: Recalled) -> dict[str, Any]:
    """Make what the context of a plan's specs tells of what was recalled, if that is anything."""
    return {MEMORY: {FLAKY: list(recalled.flaky)}} if recalled.flaky else {}


def drop_old(unit: UnitOfWork, recalled: Recalled) -> None:
    """Have counters go that are too old, with the commit that begins a plan of their repository."""
    head = unit.plan.head
    if recalled.old and head.repo:
        name = counters_of(head.tenant, head.repo)
        unit.change.history += [HistoryChange(name, counter, "", "") for counter in recalled.old]


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Run a step that only verifies once more, where nothing failed but tests that are known to be flaky."""
    seen.known_flaky = _is_known(unit, seen.step, seen.outcome, seen.failure)
    return seen.failure is not None and seen.known_flaky and _run_again(unit, seen.step, seen.failure)


def _is_known(unit: UnitOfWork, step: Step, outcome: Outcome, failure: Mapping[str, Any] | None) -> bool:
    """Whether all that failed are tests that are known to be flaky, and this is known for certain."""
    context = unit.plan.head.context
    known = (context.get(MEMORY) or {}).get(FLAKY)
    if failure is None or not known:
        return False
    if failure["category"] not in OF_TESTS or step.facts["inserted_by"] or not outcome.failing_tests_complete:
        return False
    red = frozenset(outcome.failing_tests)
    return bool(red) and red <= frozenset(known) and red.isdisjoint(context.get("failing_tests") or ())


def _run_again(unit: UnitOfWork, step: Step, failure: Mapping[str, Any]) -> bool:
    """Run a step that only verifies once more; False where it has been already."""
    done = unit.plan.reruns.landed
    if step.facts["mode"] != Mode.TEST or step.step_id in done or len(done) >= MOST_RUN_AGAIN:
        return False
    done[step.step_id] = unit.plan.streaks.landed
    step.status.previous = {**failure, "category": C.FLAKY_TEST.value}
    unit.move_step(step, S.ACTIVE.value, "retried", C.FLAKY_TEST.value)
    waits.back_off(unit, step, C.FLAKY_TEST.value)
    return True


def learn(unit: UnitOfWork, seen: Judgement) -> None:
    """Count the tests that failed before a success of a step, where nothing was changed meanwhile."""
    head, previous = unit.plan.head, seen.previous
    again = unit.plan.reruns.landed.get(seen.step.step_id)
    if seen.is_excused or (not seen.turned and (again is None or again != unit.plan.streaks.landed)):
        return
    if not head.repo or head.limits.get(budget.FLAKY_TESTS) == 0 or previous.get("category") not in OF_TESTS:
        return
    flaky = [found for test in previous["failing_tests"] if (found := counter_of(test, unit.snapshot.now))]
    if flaky:
        name = counters_of(head.tenant, head.repo)
        unit.change.history += [HistoryChange(name, counter, "", 1) for counter in dict.fromkeys(flaky)]


FEATURE = Feature("flaky_tests", (JUDGES.row(judge), AFTER_END.row(learn)), is_idle=lambda plan: not plan.keeps(Reruns))
