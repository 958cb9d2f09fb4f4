"""By which tests the end of a plan is judged once more: by those of its base, and by those that its goal holds out.

The tests of the base judge the last steps that run tests. Those that are held out judge a step of their own, which is
made once every other one is done: no phase follows it but the delivery, and its first failure halts the plan. No
planner knows these tests, but for their digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from schemas.base import FailureCategory, Mode, StepType
from schemas.goal import Goal
from schemas.step import ControllerTaskSpec, JudgedBy, PlannedStep
from schemas.stored import PlanRecord
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import halt
from tasks.policy.advice_facts import AGAIN, Facts
from tasks.policy.pipeline import ADDED, AT_BIRTH, DRAFTED, FIRES, LIMITS, SATISFIED, Failure, Feature, limited
from tasks.policy.plan_seed import PlanSeed
from tasks.policy.pre_steps import HOLDOUT, name_of
from tasks.rules.judging import base_judges, find_last, judges_by_holdout, suite_of
from tasks.rules.risk import estimate
from tasks.rules.strategy import Draft
from tasks.toolchain.catalogue import Catalogue, catalogue_of, render

SETUP = "setup"  # what a controller has to understand of a step that asks for it
BASE_JUDGES = "judged by"  # the note of how later steps are judged
HELD_OUT = "held-out tests"  # the note of their digest, and of the last step that runs tests


def limits_of(_: PlanSeed, goal: Goal, __: Draft) -> Mapping[str, int]:
    """Have a plan end with a step that held-out tests judge, if its goal holds some out."""
    return {HOLDOUT: 1} if goal.holdout else {}


def assign_first(goal: Goal, steps: tuple[PlannedStep, ...]) -> tuple[PlannedStep, ...]:
    """Settle which of the first steps of a plan the tests of its base judge."""
    return assign_judges(steps, base_judges(goal))


def assign_added(unit: UnitOfWork, steps: tuple[PlannedStep, ...]) -> tuple[PlannedStep, ...]:
    """Settle the same for steps that a plan expands to. Raises NeedsSteps where the snapshot lacks a note."""
    if HOLDOUT in unit.plan.limits:
        _keep_held_out(unit, steps, unit.note(HELD_OUT))
    if not find_last(steps):
        return steps
    kept: Mapping[str, Any] | None = unit.note(BASE_JUDGES)
    return assign_judges(steps, JudgedBy.model_validate(kept)) if kept else steps


def keep_judges(unit: UnitOfWork, _: PlanSeed, goal: Goal, draft: Draft) -> None:
    """Keep how steps are judged that may come."""
    judges = base_judges(goal)
    if draft.state is not None and judges:
        unit.keep_note(BASE_JUDGES, judges.model_dump(mode="json"))
    if goal.holdout:
        _keep_held_out(unit, draft.steps, {"digest": goal.holdout, "after": None})


def assign_judges(steps: Iterable[PlannedStep], judges: JudgedBy | None) -> tuple[PlannedStep, ...]:
    """Have the tests of the base judge the last of `steps`."""
    steps = tuple(steps)
    last = find_last(steps) if judges else ()
    return tuple(step.model_copy(update={"judged_by": judges}) if step.step_id in last else step for step in steps)


def _keep_held_out(unit: UnitOfWork, steps: Iterable[PlannedStep], known: Mapping[str, Any]) -> None:
    """Keep the last of `steps` that runs tests, rather one that changes nothing, for held-out tests."""
    found = [step for step in steps if suite_of(step, catalogue_of(unit.plan.head.tools))]
    last = [step for step in found if step.mode is Mode.TEST] or found
    after = last[-1].model_dump(mode="json") if last else known["after"]
    unit.keep_note(HELD_OUT, {**known, "after": after})


def begin_judging(unit: UnitOfWork) -> bool:
    """Put the step that held-out tests judge behind all that is done, once; tells whether the plan goes on for it.

    Raises NeedsSteps where the snapshot lacks the note.
    """
    plan = unit.plan
    if plan.held_out.step or unit.is_delivering:
        return False
    known = unit.note(HELD_OUT)
    if known["after"] is None:
        halt.halt(unit, "holdout", "no step of the plan ran tests, so that held-out tests cannot judge it", {})
        return True
    after = PlannedStep.model_validate(known["after"])
    step = _make(after, known["digest"], plan.structure.taken, catalogue_of(plan.head.tools))
    plan.held_out.step, plan.structure.taken = step.step_id, [*plan.structure.taken, step.step_id]
    why = "held-out tests judge what was done"
    unit.pass_revising(why)
    unit.insert((step,), sum(plan.counts.values()), {})
    unit.tell_added((step.step_id,), HOLDOUT, why)
    return True


def _make(after: PlannedStep, digest: str, taken: Iterable[str], catalogue: Catalogue) -> PlannedStep:
    tools = suite_of(after, catalogue)
    made = PlannedStep(
        step_id=name_of(HOLDOUT, after.step_id, {*taken}),
        title="Judge by held-out tests",
        intent="Run the tests, and once more with those that are held out.",
        verify=render(tools),
        verify_tools=tools,
        risk_level=after.risk_level,
        controller_task_spec=ControllerTaskSpec(type=StepType.TEST),
        mode=Mode.TEST,
        success_criteria="The tests pass, and those that are held out.",
        queue=after.queue,
        estimate=estimate(Mode.TEST),
        setup=after.setup,
        requires=(*(name for name in after.requires if name == SETUP), HOLDOUT),
        judged_by=JudgedBy(holdout=digest),
    )
    return made.model_copy(update={"requires": made.required})


def fires(_: PlanRecord, step: Step, failure: Failure) -> tuple[str, str, dict[str, Any]] | None:
    """Halt a plan that held-out tests refuse; a step whose controller went silent is tried again."""
    if not judges_by_holdout(step.facts):
        return None
    category = failure["category"]
    if category == FailureCategory.LEASE_EXPIRED and step.status.failures <= step.facts["retry_limit"]:
        return None
    reason = f"{step.step_id} failed, by which held-out tests judge the plan"
    return "holdout", reason, {"step_id": step.step_id, "told": failure["suggestion"]}


def _advise(_: Facts) -> str:
    return f"Read the log of the attempt on its controller, which has the output of the held-out tests; then {AGAIN}."


JUDGED = limited(HOLDOUT)
FEATURE = Feature(
    "judging",
    (
        LIMITS.row(limits_of),
        DRAFTED.row(assign_first),
        AT_BIRTH.row(keep_judges),
        ADDED.row(assign_added),
        SATISFIED.row(begin_judging, only=JUDGED),
        FIRES.row(fires, only=JUDGED),
    ),
    advice={HOLDOUT: _advise},
    is_idle=lambda plan: HOLDOUT not in plan.limits,
)
