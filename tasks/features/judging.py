"""Judges the end of a plan by additional tests: the tests of its base commit, and held-out tests of its goal.

The tests of the base judge the last steps that run tests. Held-out tests judge a separate step, after every other step
except the delivery. The first failure of that step halts the plan. The planner knows only the digest of held-out tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from schemas.base import FailureCategory, Mode, StepType
from schemas.goal import Goal
from schemas.step import ControllerTaskSpec, JudgedBy, PlannedStep
from schemas.stored import PlanRecord
from tasks.base.policy import RETRIES
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import halt
from tasks.policy.advice_facts import AGAIN, Facts
from tasks.policy.pipeline import (
    ADDED,
    AFTER_END,
    AT_BIRTH,
    DRAFTED,
    FIRES,
    LIMITS,
    SATISFIED,
    Failure,
    Feature,
    Judgement,
    limited,
)
from tasks.policy.plan_seed import PlanSeed
from tasks.policy.pre_steps import HOLDOUT, name_of
from tasks.rules.judging import (
    MOST_OWN,
    base_judges,
    find_last,
    judges_by_holdout,
    own_tests,
    suite_of,
    why_unjudged,
)
from tasks.rules.risk import estimate
from tasks.rules.strategy import Draft
from tasks.toolchain.catalogue import Catalogue, catalogue_of
from tasks.toolchain.command_lines import render

SETUP = "setup"  # a capability of controllers that a step with a setup requires
BASE_JUDGES = "judged by"  # the note of how later steps are judged
NOT_JUDGED = frozenset({FailureCategory.LEASE_EXPIRED, FailureCategory.UNKNOWN})  # by held-out tests
HELD_OUT = "held-out tests"  # the note of their digest, and of the last step that runs tests


def limits_of(_: PlanSeed, goal: Goal, __: Draft) -> Mapping[str, int]:
    """Return the limit that adds a step for held-out tests, if the goal has such tests."""
    return {HOLDOUT: 1} if goal.holdout else {}


def assign_first(goal: Goal, steps: tuple[PlannedStep, ...]) -> tuple[PlannedStep, ...]:
    """Return the steps of a draft; the last ones that run tests are marked to be judged by the tests of the base."""
    return assign_judges(steps, base_judges(goal))


def assign_added(unit: UnitOfWork, steps: tuple[PlannedStep, ...]) -> tuple[PlannedStep, ...]:
    """Decide which added steps the tests of the base judge. Raises NeedsSteps if the snapshot lacks a note."""
    kept: Mapping[str, Any] | None = unit.note(BASE_JUDGES) if find_last(steps) else None
    steps = assign_judges(steps, JudgedBy.model_validate(kept) if kept else None)
    if HOLDOUT in unit.plan.limits:
        _keep_held_out(unit, steps, unit.note(HELD_OUT))
    return steps


def keep_judges(unit: UnitOfWork, _: PlanSeed, goal: Goal, draft: Draft) -> None:
    """Store the data that decides how added steps, and the step with held-out tests, are judged."""
    judges = base_judges(goal)
    if draft.state is not None and judges:
        unit.keep_note(BASE_JUDGES, judges.model_dump(mode="json"))
    if goal.holdout:
        own = own_tests(goal)[:MOST_OWN]
        _keep_held_out(unit, draft.steps, {"digest": goal.holdout, "own": own, "after": None})


def assign_judges(steps: Iterable[PlannedStep], judges: JudgedBy | None) -> tuple[PlannedStep, ...]:
    """Return the steps; the tests of the base judge the last ones that run tests.

    Test files that the goal or the step itself names stay as the plan changed them.
    """
    steps = tuple(steps)
    last = find_last(steps) if judges else ()
    return tuple(_judged(step, judges if step.step_id in last else None) for step in steps)


def _judged(step: PlannedStep, judges: JudgedBy | None) -> PlannedStep:
    known = step.judged_by  # without `base` only the files that its strategy names
    if judges and judges.base and known:
        judges = judges.model_copy(update={"own": tuple(dict.fromkeys((*judges.own, *known.own)))[:MOST_OWN]})
    is_settled = judges == known or (judges is None and known and known.base)
    return step if is_settled else step.model_copy(update={"judged_by": judges})


def _keep_held_out(unit: UnitOfWork, steps: Iterable[PlannedStep], known: Mapping[str, Any]) -> None:
    """Store the last of `steps` that runs tests, as the model of the step with held-out tests.

    A step of mode `test` is preferred to a step that patches.
    """
    found = [step for step in steps if suite_of(step, catalogue_of(unit.plan.head.tools))]
    last = [step for step in found if step.mode is Mode.TEST] or found
    after = last[-1].model_dump(mode="json") if last else known["after"]
    unit.keep_note(HELD_OUT, {**known, "after": after})


def begin_judging(unit: UnitOfWork) -> bool:
    """Add the step for held-out tests after all done steps, once; returns whether the plan goes on for it.

    Raises NeedsSteps if the snapshot lacks the note.
    """
    plan = unit.plan
    if plan.held_out.step or unit.is_delivering:
        return False
    known = unit.note(HELD_OUT)
    if known["after"] is None:
        halt.halt(unit, "holdout", "no step of the plan ran tests, so that held-out tests cannot judge it", {})
        return True
    after = PlannedStep.model_validate(known["after"])
    own = dict.fromkeys((*known.get("own", ()), *(after.judged_by.own if after.judged_by else ())))
    judges = JudgedBy(own=tuple(own)[:MOST_OWN], holdout=known["digest"])
    step = _make(after, judges, plan.structure.taken, catalogue_of(plan.head.tools))
    plan.held_out.step, plan.structure.taken = step.step_id, [*plan.structure.taken, step.step_id]
    why = "held-out tests judge the change"
    unit.pass_revising(why)
    unit.insert((step,), sum(plan.counts.values()), {})
    unit.log_added((step.step_id,), HOLDOUT, why)
    return True


def _make(after: PlannedStep, judges: JudgedBy, taken: Iterable[str], catalogue: Catalogue) -> PlannedStep:
    tools = suite_of(after, catalogue)
    made = PlannedStep(
        step_id=name_of(HOLDOUT, after.step_id, {*taken}),
        title="Judge by held-out tests",
        intent="Run the tests, then again with the held-out ones.",
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
        judged_by=judges,
    )
    return made.model_copy(update={"requires": made.required})


def fires(_: PlanRecord, step: Step, failure: Failure) -> tuple[str, str, dict[str, Any]] | None:
    """Halt a plan that held-out tests refuse; after a lost controller or an unknown failure the step is tried again."""
    if not judges_by_holdout(step.facts):
        return None
    category = failure["category"]
    most = step.facts["retry_limit"]
    if category in NOT_JUDGED and step.status.failures <= min(most, RETRIES.get(category, most)):
        return None
    reason = f"{step.step_id} failed: the held-out tests that judge the plan did not pass"
    return "holdout", reason, {"step_id": step.step_id, "told": failure["suggestion"]}


def keep_unjudged(unit: UnitOfWork, seen: Judgement) -> None:
    """Store why the tests of the base did not judge a step that they had to judge."""
    if why := why_unjudged(seen.step.facts, seen.outcome):
        unit.plan.unjudged.why = why


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
        AFTER_END.row(keep_unjudged, fact="judged_by"),
    ),
    advice={HOLDOUT: _advise},
    is_idle=lambda plan: HOLDOUT not in plan.limits,
    end_fields=("judged_by",),
)
