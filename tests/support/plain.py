"""Holds plain successes against the ordinary decision: the same writes, byte for byte, and the same plan afterwards."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from typing import Any, cast

from redis import Redis

from schemas import codec
from schemas.event import event_type
from schemas.stored.step import TEXTS
from tasks.base.errors import NeedsSteps
from tasks.base.policy import BUILT_IN, Policy
from tasks.handlers import outcomes
from tasks.plan.changeset import Changeset, Dispatch, PlainChange, RecordedAttempt
from tasks.plan.hot_plan import HotPlan
from tasks.plan.report import PlainReport, Report
from tasks.plan.snapshot import READY_PAGE, WINDOW
from tasks.policy import plain_success
from tasks.record.held_plan import HeldPlan
from worker.store.keys import Partition
from worker.streams.decode import read_plain_outcome
from worker.streams.inbox import StreamEntry

MOST_TOUCHED, TOUCHED_EACH = 64, 8  # as prefetch.lua has it
AHEAD = (1, 4)  # steps that are read ahead of the plans of the tests, which are small

seen: Counter[str] = Counter()  # how many of the outcomes of this process were plain


def hot_plan(held: HeldPlan, policy: Policy = BUILT_IN) -> HotPlan:
    """Return the plan as a worker caches it after it has read all of it."""
    ready = sorted(held.ready, key=lambda step: (held.ready[step], step))
    plan = HotPlan.load(
        held.plan_id,
        (held.reply_to, held.lease_prefix),
        held.record,
        _encoded(held.steps),
        _encoded(held.status),
        _encoded(held.active),
        [step.encode() for step in ready],
        held.todo,
    )
    plan.policy = policy
    return plan


def part_of(held: HeldPlan, ahead: int, policy: Policy = BUILT_IN) -> HotPlan | None:
    """Return the plan as a worker caches it after it has read `ahead` steps in advance, as prefetch.lua does."""
    if held.todo or not held.active:
        return None
    ends = len(held.active)
    page = ends + READY_PAGE + ahead
    queue = sorted(held.ready, key=lambda step: (held.ready[step], step))[:page]
    names = [*held.active, *queue]
    most = len(names) + MOST_TOUCHED + TOUCHED_EACH * ends
    for place, name in enumerate(names):  # which grows
        ids = held.window(name) or []
        new = [step for step in ids if step not in names] if len(ids) < WINDOW else []
        if place < ends and len(names) + len(new) > most:
            return None
        if len(names) + len(new) <= most:
            names += new
        if place == ends - 1:
            most = len(names) + ahead
    beside = {f">{name}:0": " ".join(held.window(name) or ()).encode() for name in names}
    if texts := held.steps.get(TEXTS):
        beside[TEXTS] = texts
    plan = HotPlan.load(
        held.plan_id,
        (held.reply_to, held.lease_prefix),
        held.record,
        _encoded({name: held.steps[name] for name in names} | beside),
        _encoded({name: held.status[name] for name in names}),
        _encoded(held.active),
        [step.encode() for step in queue],
        (),
        ahead=ahead,
        more_ready=len(queue) == page,
    )
    plan.policy = policy
    return plan


def held_on(redis: Redis, partition: Partition, plan_id: str) -> HeldPlan:
    """Return all data that a server stores of a plan."""
    k, client = partition.plan(plan_id), cast("Any", redis)
    fields, steps, status, active = (
        {name.decode(): raw for name, raw in client.hgetall(key).items()}
        for key in (k.plan, k.steps, k.status, k.active)
    )
    ready = {step.decode(): int(place) for step, place in client.zrange(k.ready, 0, -1, withscores=True)}
    todo = client.lrange(k.todo, 0, -1)
    prefix = partition.lease_prefix(plan_id)
    return HeldPlan(plan_id, partition.outcomes, prefix, fields, steps, status, ready, active, todo)


def check_part(part: HotPlan, held: HeldPlan) -> None:
    """Check that a part of a plan agrees with the whole plan as stored."""
    whole, queue = hot_plan(held), sorted(held.ready, key=lambda step: (held.ready[step], step))
    known, stored = state_of(part), state_of(whole)
    assert part.todo == whole.todo
    assert known["record"] == stored["record"]
    assert known["active"] == stored["active"]
    assert known["steps"] == {name: stored["steps"][name] for name in part.steps}
    assert part.windows == {place: whole.windows.get(place, []) for place in part.windows}
    assert [*part.ready] == queue[: len(part.ready)]
    assert part.horizon or len(part.ready) == len(queue)


def _encoded(fields: dict[str, bytes]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value) for name, value in fields.items()]


def strict(report: Report, plan: HotPlan, entry: str) -> PlainReport | None:
    """Return the report in its strict form, which names its plan, attempt and lease; None if it has no such form."""
    live = plan.active.get(report.outcome.step_id)
    if live is None:
        return None
    named = {"attempt": report.attempt or live.attempt, "lease": report.lease or live.lease}
    raw = codec.dumps({**codec.loads(report.raw), "plan_id": plan.plan_id, **named})
    return read_plain_outcome(StreamEntry("", entry.encode(), {b"data": raw}))


def compare(held: HeldPlan, report: Report, entry: str, now: int, policy: Policy = BUILT_IN) -> None:
    """Decide about one report in both ways, and compare them; nothing is stored."""
    held = deepcopy(held)
    plan = hot_plan(held, policy)
    said = strict(report, plan, entry)
    if said is None:
        return
    code = "test"
    change = plain_success.decide(plan, said, now, code)
    parts = [part for ahead in AHEAD if (part := part_of(held, ahead, policy))]
    covering = [part for part in parts if part.covers([said.said.step_id], READY_PAGE)]
    seen["in parts"] += len(covering)
    for part in covering:
        assert plain_success.decide(part, said, now, code) == change
    if change is None:
        seen["declined"] += 1
        assert state_of(plan) == state_of(hot_plan(held, policy)), "declined, and touched the plan"
        return
    seen["plain"] += 1
    seen["completed"] += change.end is not None
    view = held.snapshot(now, [said.said.step_id], READY_PAGE)
    view.policy, view.code = policy, code
    try:
        ordinary = outcomes.apply(view, [said.ordinary()])
    except NeedsSteps as missing:
        raise AssertionError("the ordinary decision needs more than is plain") from missing
    assert written(as_changeset(change)) == written(ordinary)
    assert not plan.record.dirty, "all that was changed is written"
    held.commit(ordinary)
    for start in change.starts:
        start.attempt.entry = "0-0"
    assert state_of(plan) == state_of(hot_plan(held, policy))
    for part in covering:
        for start in change.starts:
            part.active[start.step_id].entry = "0-0"
        check_part(part, held)


def as_changeset(change: PlainChange) -> Changeset:
    """Return the same writes in the form of an ordinary decision."""
    statuses = {change.step_id: change.status, **dict(change.statuses)}
    statuses |= {start.step_id: start.status for start in change.starts}
    started = [(event_type("step.started"), start.event) for start in change.starts]
    completed = [(event_type("plan.completed"), change.end.event)] if change.end else []
    return Changeset(
        change.plan_id,
        change.expected,
        change.now,
        changed=True,
        fields={"live": change.live} | ({"state": b"COMPLETED"} if change.end else {}),
        statuses=statuses,
        ready_add=dict(change.ready_add),
        ready_remove=[*change.ready_remove],
        ended={change.step_id: change.ended},
        worked={change.step_id: True},
        dispatches=[Dispatch(start.step_id, start.attempt, start.spec) for start in change.starts],
        wake=change.wake,
        events=[(event_type("step.done"), change.event), *started, *completed],
        log=change.log,
        ends=change.end is not None,
        used=[change.used] if change.used else [],
        memory=[RecordedAttempt(*change.memory)] if change.memory else [],
        sum=change.end.sum if change.end else None,
        tenant=change.end.sum.tenant if change.end else "",
        lists=[*change.end.lists] if change.end else [],
    )


def written(change: Changeset) -> dict[str, Any]:
    """Return the writes of a commit, for a comparison."""
    parts = {name: getattr(change, name) for name in Changeset.__dataclass_fields__ if name != "verdicts"}
    parts["dispatches"] = [(one.step_id, one.attempt.encode(), one.spec) for one in change.dispatches]
    parts["ended"] = {step: (one.encode(), one.entry) for step, one in change.ended.items()}
    parts["ready_remove"] = sorted(change.ready_remove)
    return parts


def state_of(plan: HotPlan) -> dict[str, Any]:
    """Return all data of a plan, for a comparison."""
    return {
        "record": _record(plan),
        "steps": {name: (step.spec, step.status.encode(), [*step.texts]) for name, step in plan.steps.items()},
        "windows": plan.windows,
        "active": {name: (one.encode(), one.entry) for name, one in plan.active.items()},
        "ready": plan.ready,
        "todo": plan.todo,
    }


def _record(plan: HotPlan) -> tuple[Any, ...]:
    record = plan.record
    return record.version, record.state, record.head.encode(), record.encode("live"), record.strategy_state
