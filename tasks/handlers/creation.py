"""An accepted draft -> the commits that create its plan; a plan under creation is invisible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from schemas import codec
from schemas.base import PlanState as P
from schemas.base import StepState as S
from schemas.goal import Goal
from schemas.stored import USAGE_NAMES, PlanHead, PlanRecord
from tasks.base.batches import batches
from tasks.base.policy_version import POLICY_VERSION
from tasks.handlers import outcomes
from tasks.plan import history
from tasks.plan.changeset import Changeset, Recall
from tasks.plan.snapshot import Grant, Snapshot, Step, WiderOrder
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import expansion, requests
from tasks.policy.expansion import dependents_of, insert, new_step
from tasks.policy.halt import explain
from tasks.policy.pre_steps import looks_prepared
from tasks.rules import budget, quota
from tasks.rules.strategy import Draft, Rejected
from tasks.text.fields import as_written, fit

SHOWN_CHARS = 200  # of the goal's sentence, for lists of plans
# Of the goal: what the plan's own steps say, and texts from outside that nothing reads once the plan is made.
UNKEPT: dict[str, Any] = {
    "steps": True,
    "context": {"documents", "failure_log", "manifests"},
    "gap_report": {"project": {"documents"}},
    "evolution": {"commit_cards", "chunk_summaries"},
}
CHUNK = 64  # steps a commit: their specs, windows, states and places in the queue stay below 1000 arguments


@dataclass(frozen=True, slots=True)
class PlanSeed:
    """Who the plan will be; ids, time and the seed of its leases are arguments, never made here."""

    plan_id: str
    goal_id: str
    now: int
    seed: str
    reply_to: str
    lease_prefix: str
    version: int = 0  # what the store holds under this id: 0, or a creation that was cut short
    down: int = 0  # as in Clocks
    order: WiderOrder | None = None
    grants: Mapping[str, Grant] = field(default_factory=dict)
    full: frozenset[str] = frozenset()  # queues that have no room
    created: int = 0  # when the plan was first written, ms; 0 for now
    policy_version: int = POLICY_VERSION  # of the rules that the plan goes on under
    requires_receipts: bool = False


def accept(plan_seed: PlanSeed, goal: Goal, draft: Draft) -> Iterator[Changeset]:
    """Yield the commits that create the plan; only the last makes it READY and starts its first steps."""
    goal = draft.goal or goal
    dependents = dependents_of(draft.steps)
    version, counts = plan_seed.version, {S.PENDING.value: 0, S.BLOCKED.value: 0}
    taken = [step.step_id for step in draft.steps if looks_prepared(step.step_id)]
    total = len(draft.steps)
    if draft.question:
        yield _asking(plan_seed, goal, draft)
        return
    for number, chunk in enumerate(batches(draft.steps, CHUNK)):
        steps = [new_step(number * CHUNK + place, step) for place, step in enumerate(chunk)]
        record = replace(_record(plan_seed, goal, draft), version=version, counts=counts)
        if taken:
            record.halting["taken"] = taken
        unit = UnitOfWork(_snapshot(plan_seed, record, steps))
        insert(unit, steps, dependents)
        last = number * CHUNK + len(chunk) == total
        record.dirty.add("live")
        if number == 0:
            _announce(unit, goal, draft)
        if last:
            _book(unit, draft)
            expansion.open_plan(unit)
        if last and number == 0:  # it fits one commit, and starts its first steps at once
            yield outcomes.advance(unit)
            return
        unit.change.more = last  # the first steps came with earlier commits: the engine reads them from the ready queue
        quota.settle(unit)
        yield unit.close()
        version += 1


def _asking(plan_seed: PlanSeed, goal: Goal, draft: Draft) -> Changeset:
    """Make the commit of a plan that has to be told something before it can be made: it waits in CREATED."""
    unit = UnitOfWork(_snapshot(plan_seed, _record(plan_seed, goal, draft), []))
    _announce(unit, goal, draft)
    _book(unit, draft)
    if draft.question:
        requests.ask(unit, draft.question)
    return outcomes.advance(unit)


def await_draft(plan_seed: PlanSeed, goal: Goal, patience_ms: int) -> Changeset:
    """Make the commit of a plan that a drafter is asked about: it can be seen and cancelled, and is made from CREATED.

    After `patience_ms` without a plan it is REJECTED.
    """
    unit = UnitOfWork(_snapshot(plan_seed, _record(plan_seed, goal), []))
    _announce(unit, goal, Draft(()))
    requests.await_draft(unit, patience_ms)
    return outcomes.advance(unit)


def refuse(plan_seed: PlanSeed, goal: Goal, answer: Rejected) -> Changeset:
    """Make the commit that keeps a REJECTED plan with every error, so that its producer can read why."""
    goal = answer.goal or goal
    unit = UnitOfWork(_snapshot(plan_seed, _record(plan_seed, goal), []))
    unit.plan.halt = {
        "rule": "rejected",
        "reason": answer.reason,
        "evidence": explain(unit, "rejected", {"errors": [error.model_dump() for error in answer.errors]}),
    }
    _announce(unit, goal, Draft((), findings=answer.findings))
    budget.book(unit.plan, answer.tokens)
    unit.plan.dirty.add("halt")
    unit.move_plan(P.VALIDATING.value, "validating")
    unit.move_plan(P.REJECTED.value, "rejected", reason=answer.reason)
    quota.settle(unit)
    return unit.close()


def _book(unit: UnitOfWork, draft: Draft) -> None:
    """Pay for the draft and count it, in the one commit that makes a plan of it."""
    budget.book(unit.plan, draft.tokens)
    if draft.counted and (name := history.name_of(unit.plan.head)):
        unit.change.recalls.append(Recall(name, draft.counted, draft.seen, 1))


def _announce(unit: UnitOfWork, goal: Goal, draft: Draft) -> None:
    """Write what never changes with the first commit."""
    plan = unit.plan
    plan.dirty.update(("state", "head", "live"))
    body = goal.model_dump(mode="json", exclude=UNKEPT, exclude_defaults=True)
    unit.extra = {
        "kind": goal.kind.value.encode(),
        "goal_id": plan.head.goal_id.encode(),
        "policy_version": str(plan.head.policy_version).encode(),
        "text": fit(goal.goal, SHOWN_CHARS, as_written).encode(errors="replace"),
        "goal": codec.dumps(body),
    }
    if draft.state is None:
        unit.extra["document"] = codec.dumps(draft.document)
    else:
        expansion.begin(unit, goal, draft)
    if plan.version == 0:
        unit.change.tenant = plan.head.tenant
        unit.emit("goal.received", {"kind": goal.kind.value})
    if unit.snapshot.grants:
        unit.extra["quota"] = "\n".join(unit.snapshot.grants).encode()
    if draft.findings:
        unit.emit("goal.sanitized", {"count": len(draft.findings), "classes": sorted(set(draft.findings))})
    expansion.tell_phases(unit, draft.phases)


def _record(plan_seed: PlanSeed, goal: Goal, draft: Draft | None = None) -> PlanRecord:
    context = goal.context
    return PlanRecord(
        version=plan_seed.version,
        state=P.CREATED.value,
        head=PlanHead(
            goal_id=plan_seed.goal_id,
            kind=goal.kind.value,
            tenant=goal.tenant,
            repo=context.repo,
            seed=plan_seed.seed,
            context={
                "repo": context.repo,
                "base_sha": context.base_sha,
                "failing_tests": context.failing_tests[:20],
            },
            limits=budget.limits_of(goal) | ({budget.RECEIPTS: 0} if plan_seed.requires_receipts else {}),
            approvals=[level.value for level in goal.approvals],
            policy_version=plan_seed.policy_version,
            tools=[dict(tool) for tool in draft.tools] if draft else [],
            streak=draft.streak if draft else None,
        ),
        reserved=dict.fromkeys(USAGE_NAMES, 0),
        spent=dict.fromkeys(USAGE_NAMES, 0),
        halting={"consecutive": 0},
        counts={},
        times={"created": plan_seed.created or plan_seed.now, "down": plan_seed.down},
        revision=1,
    )


def _snapshot(plan_seed: PlanSeed, record: PlanRecord, steps: Sequence[Step]) -> Snapshot:
    return Snapshot(
        plan_id=plan_seed.plan_id,
        now=plan_seed.now,
        record=record,
        steps={step.step_id: step for step in steps},
        windows={},
        active={},
        ready=[],
        todo=[],
        reply_to=plan_seed.reply_to,
        lease_prefix=plan_seed.lease_prefix,
        order=plan_seed.order,
        grants=plan_seed.grants,
        full=plan_seed.full,
    )
