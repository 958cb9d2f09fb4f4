"""An accepted draft -> the commits that create its plan; a plan under creation is invisible (DESIGN.md section 3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schemas import codec
from schemas.base import PlanState as P
from schemas.base import StepState as S
from schemas.goal import Goal
from schemas.step import PlannedStep, pack_step
from schemas.stored import USAGE_NAMES, PlanHead, PlanRecord, StepStatus
from tasks.batches import batches
from tasks.change import Change
from tasks.fold import Fold
from tasks.planning.draft import Draft, Rejected
from tasks.policy import POLICY_VERSION, budget, dispatch
from tasks.policy.halting import UNBLOCK
from tasks.policy.preparation import looks_prepared
from tasks.view import WINDOW, Slice, Step

SHOWN_CHARS = 200  # of the goal's sentence, for lists of plans
CHUNK = 64  # steps a commit: their specs, windows, states and places in the queue stay below 1000 arguments


@dataclass(frozen=True, slots=True)
class Birth:
    """Who the plan will be; ids, time and the seed of its leases are arguments, never made here."""

    plan_id: str
    goal_id: str
    now: int
    seed: str
    reply_to: str
    lease_prefix: str
    version: int = 0  # what the store holds under this id: 0, or a creation that was cut short


def accepted(birth: Birth, goal: Goal, draft: Draft) -> Iterator[Change]:
    """Yield the commits that create the plan; only the last makes it READY and starts its first steps."""
    goal = draft.goal or goal
    dependents = _dependents(draft.steps)
    version, counts = birth.version, {S.PENDING.value: 0, S.BLOCKED.value: 0}
    taken = [step.step_id for step in draft.steps if looks_prepared(step.step_id)]
    total = len(draft.steps)
    for number, chunk in enumerate(batches(draft.steps, CHUNK)):
        steps = [_new_step(number * CHUNK + place, step) for place, step in enumerate(chunk)]
        record = replace(_record(birth, goal), version=version, counts=counts)
        if taken:
            record.halting["taken"] = taken
        fold = Fold(_slice(birth, record, steps))
        for step in steps:
            counts[step.status.state] += 1
            fold.touched[step.step_id] = step
            fold.change.specs.update(_stored(step, dependents.get(step.step_id, ())))
            if step.status.state == S.PENDING:
                fold.make_ready(step)
        last = number * CHUNK + len(chunk) == total
        record.dirty.add("live")
        if number == 0:
            _announce(fold, goal, draft.document, draft.findings)
        if last:
            _begin(fold, alone=number == 0)
        yield fold.close()
        version += 1


def refused(birth: Birth, goal: Goal, answer: Rejected) -> Change:
    """Make the commit that keeps a REJECTED plan with every error, so that its producer can read why."""
    goal = answer.goal or goal
    fold = Fold(_slice(birth, _record(birth, goal), []))
    fold.plan.halt = {
        "rule": "rejected",
        "reason": answer.reason,
        "evidence": {
            "errors": [error.model_dump() for error in answer.errors],
            "policy_version": POLICY_VERSION,
            "unblock": UNBLOCK["rejected"],
        },
    }
    _announce(fold, goal, None, answer.findings)
    fold.plan.dirty.add("halt")
    fold.move_plan(P.VALIDATING.value, "validating")
    fold.move_plan(P.REJECTED.value, "rejected", reason=answer.reason)
    return fold.close()


def _announce(fold: Fold, goal: Goal, document: Any, findings: Sequence[str]) -> None:
    """Write what never changes with the first commit."""
    plan = fold.plan
    plan.dirty.update(("state", "head", "live"))
    body = goal.model_dump(mode="json", exclude={"steps"}, exclude_defaults=True)
    fold.extra = {
        "kind": goal.kind.value.encode(),
        "goal_id": plan.head.goal_id.encode(),
        "policy_version": str(POLICY_VERSION).encode(),
        "text": goal.goal[:SHOWN_CHARS].encode(errors="replace"),
        "goal": codec.dumps(body),
        "document": codec.dumps(document),
    }
    fold.tell("goal.received", {"kind": goal.kind.value})
    if findings:
        fold.tell("goal.sanitized", {"count": len(findings), "classes": sorted(set(findings))})


def _begin(fold: Fold, *, alone: bool) -> None:
    """Open the finished plan: READY, its wall clock running; one that fits a commit starts its first steps at once."""
    fold.move_plan(P.VALIDATING.value, "validating")
    fold.move_plan(P.READY.value, "ready")
    fold.plan.times["ready"] = fold.view.now
    fold.wake_at(fold.view.now + 1000 * (fold.plan.limits["wall_clock_s"] or 0))
    if alone:
        dispatch.dispatch(fold)
    else:  # the first steps came with earlier commits: the engine reads them from the ready queue at once
        fold.change.more = True


def _record(birth: Birth, goal: Goal) -> PlanRecord:
    context = goal.context
    return PlanRecord(
        version=birth.version,
        state=P.CREATED.value,
        head=PlanHead(
            goal_id=birth.goal_id,
            kind=goal.kind.value,
            tenant=goal.tenant,
            repo=context.repo,
            seed=birth.seed,
            context={
                "repo": context.repo,
                "base_sha": context.base_sha,
                "failing_tests": context.failing_tests[:20],
            },
            limits=budget.limits_of(goal),
            approvals=[level.value for level in goal.approvals],
        ),
        reserved=dict.fromkeys(USAGE_NAMES, 0),
        spent=dict.fromkeys(USAGE_NAMES, 0),
        halting={"consecutive": 0},
        counts={},
        times={"created": birth.now},
        revision=1,
    )


def _slice(birth: Birth, record: PlanRecord, steps: Sequence[Step]) -> Slice:
    return Slice(
        plan_id=birth.plan_id,
        now=birth.now,
        record=record,
        steps={step.step_id: step for step in steps},
        windows={},
        active={},
        ready=[],
        todo=[],
        reply_to=birth.reply_to,
        lease_prefix=birth.lease_prefix,
    )


def _new_step(index: int, planned: PlannedStep) -> Step:
    state = S.BLOCKED if planned.depends_on else S.PENDING
    status = StepStatus(len(set(planned.depends_on)), state.value, index)
    return Step(planned.step_id, pack_step(planned), status)


def _dependents(steps: Sequence[PlannedStep]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for step in steps:
        for dependency in dict.fromkeys(step.depends_on):
            found.setdefault(dependency, []).append(step.step_id)
    return found


def _stored(step: Step, dependents: Sequence[str]) -> dict[str, bytes]:
    """Lay out a step for the store: its spec, and its dependents in windows of WINDOW ids."""
    stored = {step.step_id: step.spec or b""}
    for number, window in enumerate(batches(dependents, WINDOW)):
        stored[f">{step.step_id}:{number}"] = " ".join(window).encode()
    return stored
