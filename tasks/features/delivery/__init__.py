"""The last steps of a plan with a `delivery`: its accepted changes become a branch, and perhaps a pull request.

They first land on top of the target branch (`landing`).

The delivery is made after every other step is done, so no strategy has to know it. By then the work is done and
verified. A failed delivery does not fail the plan: it is COMPLETED, and states the delivery or why there is none. A
delivery counts for no halt rule, uses no budget, is never revised, and stops the wall clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.base import MODE_OF_TYPE, FailureCategory, StepType
from schemas.base import StepState as S
from schemas.command import CommandName
from schemas.goal import Goal
from schemas.outcome import ReleaseKind
from schemas.step import DELIVERIES, ControllerTaskSpec, PlannedStep, PreviousFailure, StepEstimate
from schemas.stored.features import Delivery
from schemas.times import DAY_MS, rfc3339
from tasks.base.errors import NeedsSteps
from tasks.features.delivery import landing
from tasks.features.delivery.accepted import note_done, page_of, rebase, share_input
from tasks.features.delivery.answer import fault_of, lines_in, moved_to
from tasks.features.delivery.landing import WAIT
from tasks.features.delivery.text import describe, labels_of
from tasks.plan.changeset import claims_name
from tasks.plan.file_claims import mark_of_same, plans_of
from tasks.plan.snapshot import NOTE, Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import claiming, waits
from tasks.policy.pipeline import (
    AFTER_END,
    AT_BIRTH,
    AT_CLOSE,
    BEFORE_LOOK,
    EXPIRED,
    FIRES,
    GIVE_UP,
    INPUT,
    JUDGES,
    LIMITS,
    ON_COMMAND,
    SATISFIED,
    SPEC_FIELDS,
    Failure,
    Feature,
    Judgement,
    limited,
)
from tasks.policy.plan_seed import PlanSeed
from tasks.policy.pre_steps import DELIVER, LAND
from tasks.rules.strategy import Draft
from tasks.text.fields import MAX_TITLE, fit, flatten, several_lines
from tasks.text.paths import clean

WAIT_S = DAY_MS // 1000
REQUEST = "delivery"  # the note of the goal's delivery
RETRIES = 2
MOST_LANDINGS = 100  # of a plan whose target moves each time before it is delivered
NOTHING_CHANGED = "no attempt was accepted that changed a file"
SAME_TREE = "delivers the same tree"
ALREADY_THERE = "the target branch has all of it already"
NO_LANDING = "`output` must be an object with `target_sha`, `result_sha` and `conflicts`"
NO_REQUEST = "the branch was pushed, and no pull request was opened"

MAX_SENTENCE = 1000  # characters of the goal's sentence


def is_wanted(goal: Goal) -> bool:
    """Whether `goal` asks for a delivery."""
    return goal.delivery is not None and (goal.delivery.push or goal.delivery.pull_request)


def limits_of(plan_seed: PlanSeed, goal: Goal, _: Draft) -> Mapping[str, int]:
    """Return the limits of a delivery, if the goal asks for one."""
    limits = {WAIT: plan_seed.switches.get(WAIT, WAIT_S), landing.ROUNDS: landing.MOST_ROUNDS}
    return limits if is_wanted(goal) else {}


def keep_request(unit: UnitOfWork, _: PlanSeed, goal: Goal, draft: Draft) -> None:
    """Store the parts of `goal` that the delivery needs."""
    if not is_wanted(goal):
        return
    sentence = fit(goal.goal, MAX_SENTENCE, several_lines)
    asks = bool(goal.delivery and goal.delivery.pull_request)
    request = {
        "title": fit(goal.goal, MAX_TITLE),
        "goal": sentence,
        "pull_request": asks,
        "allowed": list(map(clean, goal.allowed_files)),
        "excluded": list(dict.fromkeys(pattern for step in draft.steps for pattern in step.excluded_patterns)),
        **({"forbidden": list(draft.forbidden)} if draft.forbidden else {}),
        **({"onto": goal.delivery.onto} if goal.delivery and goal.delivery.onto else {}),
        **({"again": goal.context.base_sha} if goal.delivery and goal.delivery.again else {}),
    }
    unit.keep_note(REQUEST, request)


def begin(unit: UnitOfWork) -> bool:
    """Add the landing, or after the landing the delivery, to a plan whose other steps are all done.

    Returns whether a step was added. The wall clock stops meanwhile. Raises NeedsSteps if the snapshot lacks a note.
    """
    plan, now = unit.plan, unit.snapshot.now
    wait_s = plan.limits[WAIT] or 0
    if unit.is_delivering:
        return False
    plan.dirty.add("live")
    found = plan.delivery
    if not (found.pages or found.accepted or "again" in unit.note(REQUEST)):
        unit.is_delivering = True
        found.undelivered = NOTHING_CHANGED
        return False
    step = _make(plan.structure.taken) if found.landed else landing.make_land(unit)
    unit.is_delivering = True
    found.step, found.until, found.left = step.step_id, now + 1000 * wait_s, None
    look(unit)
    plan.times.setdefault("still", now)
    why = (
        "the accepted changes are delivered"
        if found.landed
        else "the accepted changes are put on top of the target branch"
    )
    unit.pass_revising(why)
    unit.insert((step,), sum(plan.counts.values()), {})
    if found.landed:
        unit.log_added((step.step_id,), DELIVER, why)
    else:
        unit.log_added((step.step_id,), LAND, why)
    return True


def look(unit: UnitOfWork) -> None:
    """Give up a delivery that is still ready after its time; while it may not start, this time does not run."""
    if not unit.is_delivering:
        return
    found, now = unit.plan.delivery, unit.snapshot.now
    is_ready = found.step in unit.ready
    is_held = is_ready and DELIVERIES in unit.snapshot.paused_queues
    if unit.is_stopped or is_held:
        if found.left is None:
            found.left = max(0, found.until - now)
            unit.plan.dirty.add("live")
            if is_held:
                unit.inputs.append(["queue paused", [DELIVERIES]])
    elif found.left is not None:
        found.until, found.left = now + found.left, None
        unit.plan.dirty.add("live")
    elif now >= found.until and is_ready:
        unit.inputs.append(["delivery over", found.until])
        _give_up(unit, unit.ready[found.step], _in_vain(unit), "skipped")


def input_for(unit: UnitOfWork, step: Step) -> dict[str, Any] | None:
    """Return the input of an attempt at the delivery. Raises NeedsSteps if the snapshot lacks notes."""
    if not unit.is_delivering:
        return None
    kept = unit.plan.delivery
    names = [REQUEST, *map(page_of, range(kept.pages))]
    if missing := frozenset(NOTE + name for name in names if name not in unit.snapshot.notes):
        raise NeedsSteps(missing)
    asked, *pages = map(unit.note, names)
    entries = [entry for page in (*pages, kept.accepted) for entry in page]
    landed = dict(zip(("target_sha", "result_sha"), kept.landed, strict=False))
    if not landed:
        return share_input(asked, entries) | {"target": kept.target or None}
    return {
        **share_input(asked, entries),
        "landed": landed,
        **({"waited": True} if step.status.attempt > 1 else {}),
        "push": True,
        "pull_request": asked["pull_request"],
        "title": asked["title"],
        "text": describe(unit, asked["goal"], entries),
        "labels": labels_of(unit),
    }


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Continue the plan from the outcome of its delivery. Raises NeedsSteps if the snapshot lacks a note."""
    if not unit.is_delivering:
        return False
    if seen.handed_back:
        _note_obstacle(unit, seen.handed_back.reason)
        if seen.handed_back.kind is ReleaseKind.REVIEW:  # it waits for people, without a limit of time
            found, now = unit.plan.delivery, unit.snapshot.now
            found.full_since, found.until = found.full_since or now, now + 1000 * (unit.plan.limits[WAIT] or 0)
        return False
    step, outcome, failure = seen.step, seen.outcome, seen.failure
    if step.facts["controller_task_spec"]["type"] == StepType.LAND:
        _judge_landing(unit, seen)
        return True
    if failure is None and step.status.attempt > 1 and moved_to(outcome.output, unit.plan.delivery.landed):
        _land_again(unit, step)
        return True
    asked = unit.note(REQUEST)["pull_request"]
    if failure is None and (fault := fault_of(outcome.output)):
        failure = _refuse(fault)
    if failure:
        _fail(unit, step, failure)
        return True
    found = unit.plan.delivery
    found.branch, found.full_since = outcome.output["branch"], 0
    found.lines = lines_in(outcome.output)
    if url := outcome.output.get("pull_request"):
        found.pull_request = url
    elif asked:
        found.undelivered = NO_REQUEST
    unit.end_step(step, S.DONE.value, "done")
    return True


def _land_again(unit: UnitOfWork, step: Step) -> None:
    """End a delivery whose target branch moved while it waited; another landing and another delivery follow.

    After MOST_LANDINGS the plan ends without a delivery.
    """
    kept, structure = unit.plan.delivery, unit.plan.structure
    if sum(each == LAND or each.startswith(f"{LAND}-") for each in structure.taken) >= MOST_LANDINGS:
        _give_up(unit, step, f"the target moved before {MOST_LANDINGS} deliveries", "failed")
        return
    structure.taken = [*structure.taken, landing.free_name(LAND, structure.taken), step.step_id]
    kept.landed, kept.step, unit.is_delivering = [], "", False
    unit.end_step(step, S.DONE.value, "done", "the target moved")
    unit.ends = [each for each in unit.ends if each is not step]  # no strategy knows it


def _judge_landing(unit: UnitOfWork, seen: Judgement) -> None:
    """Go on to the delivery, to a step that brings the plan up to date, or to the next attempt."""
    step, outcome, kept = seen.step, seen.outcome, unit.plan.delivery
    landed = landing.read(outcome.output)
    if landed is None or (seen.failure and not outcome.verify):
        _fail(unit, step, seen.failure or _refuse(NO_LANDING))
        return
    is_red = landing.is_red(unit, seen, landed)
    if not is_red and (unproved := landing.unproved(outcome, step, landed)):
        _fail(unit, step, _refuse(unproved))
        return
    if is_red and not landed.conflicts and kept.red != step.step_id:  # it may be a flaky test
        kept.red = step.step_id
        unit.move_step(step, S.ACTIVE.value, "retried", seen.failure["category"] if seen.failure else None)
        waits.pause_longer(unit, step, 1)
        unit.plan.dirty.add("live")
    elif is_red or landed.conflicts:
        if landing.bring_up_to_date(unit, step, landed, seen.failure if is_red else None):
            rebase(unit, landed)
    else:
        other = "" if landed.is_there else _same_tree(unit, landed.tree)
        rebase(unit, landed)
        unit.end_step(step, S.DONE.value, "done")
        kept.landed, kept.step = [landed.target_sha, landed.result_sha], ""
        if landed.is_there or other:
            _note_undelivered(unit, f"{other} {SAME_TREE}" if other else ALREADY_THERE)
        unit.is_delivering = bool(landed.is_there or other)
    unit.ends = [each for each in unit.ends if each is not step]  # no strategy knows it


def _same_tree(unit: UnitOfWork, tree: str) -> str:
    """Return the id of another plan that delivers the same tree; else claim the tree, and return an empty text.

    Raises NeedsClaims if the claims on the tree were not read.
    """
    if not tree or not unit.plan.head.repo or "onto" in unit.note(REQUEST):
        return ""
    mark, me = mark_of_same("the same tree", tree), unit.snapshot.plan_id
    claims = claiming.read(unit, [mark], deep=False)
    others = plans_of(claims.of(mark))
    if me not in others:
        claiming.put(unit, mark, claims.mark(mark), me)
    return next((plan_id for plan_id in others[:1] if plan_id != me), "")


def _refuse(why: str) -> dict[str, Any]:
    return PreviousFailure(category=FailureCategory.OUTPUT_REFUSED, suggestion=why).model_dump()


def _fail(unit: UnitOfWork, step: Step, failure: Mapping[str, Any]) -> None:
    """Try a failed delivery again after a pause, unless it was tried often enough."""
    status = step.status
    status.failures += 1
    status.previous = dict(failure)
    _note_obstacle(unit, failure["trace"] or failure["suggestion"] or failure["category"])
    if status.failures > step.facts["retry_limit"]:
        _give_up(unit, step, f"the delivery failed {status.failures} times", "failed")
    else:
        unit.move_step(step, S.ACTIVE.value, "retried", failure["category"])
        waits.pause_longer(unit, step, status.failures)


def expire(unit: UnitOfWork, step: Step, failure: Failure, claimed: bool) -> bool:
    """Go on with a delivery whose attempt expired: try it again if a controller had claimed it, else give it up.

    Returns whether the plan is delivering.
    """
    if unit.is_delivering and claimed:
        _fail(unit, step, failure)
    elif unit.is_delivering:
        _give_up(unit, step, _in_vain(unit), "skipped")
    return unit.is_delivering


def _note_obstacle(unit: UnitOfWork, why: str) -> None:
    """Store the reason why the last attempt could not deliver."""
    unit.plan.delivery.obstacle = flatten(why)
    unit.plan.dirty.add("live")


def give_up(unit: UnitOfWork, step: Step, why: str) -> bool:
    """End a delivery that no controller can do."""
    if unit.is_delivering:
        _give_up(unit, step, why, "failed")
    return unit.is_delivering


def _give_up(unit: UnitOfWork, step: Step, why: str, what: str) -> None:
    """End the delivery without a result; the plan does not fail."""
    plan = unit.plan
    if obstacle := plan.delivery.obstacle:
        why = f"{why}, the last time: {obstacle}"
    _note_undelivered(unit, why)
    plan.structure.replaced += 1
    unit.withdraw(step)
    unit.end_step(step, (S.FAILED if step.status.state == S.ACTIVE else S.SKIPPED).value, what, why)


def note_skipped(unit: UnitOfWork, _: Step, reason: str) -> None:
    """Record that an operator skipped the delivery."""
    if unit.is_delivering:
        _note_undelivered(unit, f"its delivery was skipped by {reason}")


def _note_undelivered(unit: UnitOfWork, why: str) -> None:
    """Store the reason why nothing was delivered."""
    unit.plan.delivery.undelivered = why
    unit.plan.dirty.add("live")


def _make(taken: Sequence[str]) -> PlannedStep:
    """Return the delivery step; its spec gets its input at the start of an attempt."""
    return PlannedStep(
        step_id=landing.free_name(DELIVER, taken),
        title="Deliver the accepted changes",
        intent="Push a branch that has the changes of input.accepted and no others. Where input.pull_request is true, "
        "open a pull request of it with input.title and input.text.",
        controller_task_spec=ControllerTaskSpec(type=StepType.DELIVER),
        mode=MODE_OF_TYPE[StepType.DELIVER],
        success_criteria="`output` names the branch, and the pull request if one was asked for.",
        retry_limit=RETRIES,
        queue=DELIVERIES,
        estimate=StepEstimate(tokens=0, patch_cycles=0),
    )


def _in_vain(unit: UnitOfWork) -> str:
    until = rfc3339(unit.plan.delivery.until)
    return f"no controller of the queue {DELIVERIES!r} delivered it by {until}"


def keep_claims(unit: UnitOfWork) -> None:
    """Keep the claims on changed files, but not on folders, if a plan ends with a pull request.

    Raises NeedsSteps if the snapshot lacks a note.
    """
    head = unit.plan.head
    if unit.change.ends and unit.plan.delivery.pull_request and head.repo:
        name = claims_name(head.tenant, head.repo)
        unit.change.keeps = [(name, file) for file in (unit.note(landing.VERIFICATION) or {}).get("files", ())]


DELIVERS = limited(WAIT)
FEATURE = Feature(
    "delivery",
    (
        LIMITS.row(limits_of),
        AT_BIRTH.row(keep_request),
        JUDGES.row(judge, only=DELIVERS),
        AFTER_END.row(note_done, only=DELIVERS),
        GIVE_UP.row(give_up, only=DELIVERS),
        EXPIRED.row(expire, only=DELIVERS),
        BEFORE_LOOK.row(look, only=DELIVERS),
        INPUT.row(input_for, only=DELIVERS),
        SATISFIED.row(begin, only=DELIVERS),
        SPEC_FIELDS.row(landing.given_to, only=DELIVERS),
        FIRES.row(landing.fires, only=DELIVERS),
        ON_COMMAND[CommandName.SKIP].row(note_skipped, only=DELIVERS),
        AT_CLOSE.row(keep_claims, only=DELIVERS),
    ),
    advice={"conflict": landing.advise},
    is_idle=lambda plan: WAIT not in plan.limits and not plan.keeps(Delivery),
)
