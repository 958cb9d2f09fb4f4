"""The invariants of every stored plan. Each check takes a plan as it was read, and is pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from schemas.base import PlanState
from schemas.base import StepState as S
from tasks.base.policy_version import POLICY_VERSION
from worker.doctor.finding import Finding, FindingSeverity, RedisCommand, Repair, many
from worker.doctor.stored import StepRow, Stored

SHOWN = 5
OVER = frozenset({S.DONE.value, S.FAILED.value, S.SKIPPED.value, S.HALTED.value})
OPEN = frozenset({S.PENDING.value, S.BLOCKED.value})
PENDING, ACTIVE, BLOCKED = S.PENDING.value, S.ACTIVE.value, S.BLOCKED.value


def examine(plan: Stored, now: int, retention_s: int) -> Iterator[Finding]:
    """Yield the broken invariants of `plan`.

    For a plan that is still being created, only the end time of its question is checked.
    """
    if plan.state == PlanState.CREATED:
        if plan.live.get("question"):
            yield from _timer(plan, now)
        return
    yield from _policy(plan)
    yield from _timer(plan, now)
    yield from _counters(plan)
    yield from _attempts(plan)
    yield from _expiry(plan, retention_s)
    yield from _listing(plan)
    yield from _log(plan)
    if not plan.ended:
        yield from _dependencies(plan)
        yield from _waits(plan)
        yield from _ready(plan, now)


def _policy(plan: Stored) -> Iterator[Finding]:
    if plan.policy_version > POLICY_VERSION and not plan.ended:
        sentence = (
            f"It began under policy version {plan.policy_version}; workers of this version know {POLICY_VERSION}."
        )
        do = "Start workers of the version that made it: those of this version leave it as it is."
        yield _broken(plan, "plan.newer", sentence, do, severity=FindingSeverity.WARNING)
    if plan.policy and not plan.ended:
        sentence = f"It was made under the policy {plan.policy}, which is not there or which this version cannot read."
        do = "Start workers of the version that made it, or apply the same file again: until then it stands still."
        yield _broken(plan, "plan.policy", sentence, do)


def _timer(plan: Stored, now: int) -> Iterator[Finding]:
    if plan.ended or plan.timer is not None:
        return
    reasons = {
        f"{many(len(plan.active), 'attempt')} in flight": plan.active,
        f"{many(len(plan.waiting), 'step')} waiting": plan.waiting,
        "work left over": plan.todo,
        "a question open": plan.live.get("question"),
        "clocks that run": plan.live.get("wake"),
    }
    found = [text for text, reason in reasons.items() if reason]
    if found:
        sentence = f"No timer will look at the plan, and it has {', '.join(found)}."
        yield _broken(plan, "plan.timer", sentence, "planner doctor --fix has it looked at now.", _look(plan, now))


def _counters(plan: Stored) -> Iterator[Finding]:
    counted = Counter(row.state for row in plan.steps.values())
    kept = Counter({state: count for state, count in plan.live.get("counts", {}).items() if count})
    if counted != kept:
        yield _broken(plan, "plan.counts", f"It counts {dict(kept)}, and its steps are {dict(counted)}.", HALT)
    for name in ("tokens", "patch_cycles"):
        held = sum(getattr(flight, name) for flight in plan.active.values())
        reserved = plan.live.get("reserved", {}).get(name, 0)
        if held != reserved:
            sentence = f"{reserved} {name} are reserved, and its attempts hold {held}."
            yield _broken(plan, "plan.reserved", sentence, "Top the plan up by the difference if that stops it.")


def _attempts(plan: Stored) -> Iterator[Finding]:
    for step, flight in sorted(plan.active.items()):
        row = plan.steps.get(step)
        if row is None or (row.state, row.attempt) != (ACTIVE, flight.attempt):
            found = f"{row.state} at attempt {row.attempt}" if row else "unknown"
            sentence = f"Attempt {flight.attempt} of {step} is in flight, and the step is {found}."
            yield _broken(plan, "plan.attempt", sentence, HALT)
        if plan.leases.get(step) != (str(flight.attempt), flight.lease):
            sentence = f"Attempt {flight.attempt} of {step} has no lease: its controller hears `stale`."
            do = "Nothing, unless it hurries: without a claim the attempt comes back when its deadline passes."
            yield _broken(plan, "plan.lease", sentence, do)
        if step not in plan.queued:
            sentence = f"The spec of attempt {flight.attempt} of {step} is not in the queue {flight.queue}."
            do = "Nothing, unless it hurries: if no controller has it, the attempt comes back when its time is over."
            yield _broken(plan, "plan.spec", sentence, do, severity=FindingSeverity.WARNING)


def _expiry(plan: Stored, retention_s: int) -> Iterator[Finding]:
    """Check that every key of an ended plan expires, and that no key of a live plan does."""
    lasting = sorted(key for key, ttl in plan.ttls.items() if ttl == -1)
    passing = {key: ttl for key, ttl in plan.ttls.items() if ttl >= 0}
    if plan.ended and lasting:
        seconds = max(passing.values(), default=retention_s)
        expire: list[RedisCommand] = [("EXPIRE", key, max(1, seconds)) for key in lasting]
        sentence = f"The plan has ended, and {_some(lasting)} will never expire."
        yield _broken(plan, "plan.expiry", sentence, "planner doctor --fix lets them expire with the rest.", expire)
    if not plan.ended and passing:
        persist: list[RedisCommand] = [("PERSIST", key) for key in sorted(passing)]
        what = f"The plan goes on, and {_some(sorted(passing))} will expire"
        sentence = f"{what} within {min(passing.values())} s."
        found = _broken(plan, "plan.expiry", sentence, "planner doctor --fix keeps them.", persist)
        found.recognised_by = what
        yield found


def _listing(plan: Stored) -> Iterator[Finding]:
    if not plan.listed:
        created = plan.live.get("times", {}).get("created", 0)
        commands = (("ZADD", plan.partition.plans, "NX", created, plan.plan_id),)
        sentence = "No list of plans has the plan: `planner plans` does not show it."
        yield _broken(plan, "plan.listing", sentence, "planner doctor --fix lists it.", commands)


def _log(plan: Stored) -> Iterator[Finding]:
    """Check that the moves in the log lead to the stored states.

    Whole decisions cannot be replayed, because the original steps are not stored.
    """
    log = plan.log
    stored = {step: row.state for step, row in plan.steps.items()} | {"": plan.state}
    wrong = [
        f"{name or 'the plan'} is {stored.get(name, 'unknown')}, not {state}"
        for name, state in sorted(log.last.items())
        if stored.get(name) != state
    ]
    wrong += [
        f"{step} is {row.state} and never moved"
        for step, row in sorted(plan.steps.items())
        if step not in log.last and row.state not in OPEN
    ]
    if log.version > plan.version:
        wrong.append(f"it reaches version {log.version}, the plan {plan.version}")
    if wrong or log.breaks:
        sentence = f"The log does not lead to the stored plan: {_some([*log.breaks, *wrong], '; ')}."
        yield _broken(plan, "plan.log", sentence, HALT)


def _dependencies(plan: Stored) -> Iterator[Finding]:
    """Check that each step waits for as many dependencies as have not ended, and that it will notice their ends."""
    untold = _untold(plan)
    told_by = {(step, dependent) for (step, _), dependents in plan.windows.items() for dependent in dependents}
    for step, row in sorted(plan.steps.items()):
        if row.state in OVER:
            continue
        deaf = [name for name in plan.depends_on.get(step, ()) if (name, step) not in told_by]
        if deaf and row.state == BLOCKED:
            sentence = f"{step} depends on {_some(deaf)}, and will not notice their end."
            yield _broken(plan, "plan.unmet", sentence, HALT)
        elif row.unmet != untold[step] or (row.state == BLOCKED and not row.unmet):
            sentence = f"{step} ({row.state}) waits for {row.unmet} steps, and {untold[step]} of them have not ended."
            yield _broken(plan, "plan.unmet", sentence, HALT)


def _untold(plan: Stored) -> Counter[str]:
    """Return for each step the number of its dependencies that have not ended, or whose end it has not received."""
    first_left: dict[str, int] = {}  # step -> the first window that its end has not been carried to
    for step, number in plan.todo:
        first_left[step] = min(number, first_left.get(step, number))
    untold = Counter[str]()
    for (step, number), dependents in plan.windows.items():
        row = plan.steps.get(step)
        has_ended = row is not None and row.state in OVER
        if not has_ended or first_left.get(step, number + 1) <= number:
            untold.update(dependents)
    return untold


def _waits(plan: Stored) -> Iterator[Finding]:
    waits = plan.live.get("waits") or {}
    for step, row in sorted(plan.steps.items()):
        if row.approval == "asked" and row.state not in OVER and step not in waits:
            do = f"planner skip {plan.plan_id} {step}, or halt the plan."
            yield _broken(plan, "plan.wait", f"{step} waits for an approval that no person can give.", do)
    for step in sorted(waits):
        if step not in plan.steps or plan.steps[step].state in OVER:
            yield _broken(plan, "plan.wait", f"An approval is asked for {step}, which does not wait for it.", HALT)


def _ready(plan: Stored, now: int) -> Iterator[Finding]:
    """Check that the ready queue contains all steps that can start, and no others."""
    waiting = plan.waiting
    can = {step: row for step, row in plan.steps.items() if _can_start(plan, step, row) and step not in waiting}
    missing = sorted(can.keys() - plan.ready)
    if missing:
        commands: list[RedisCommand] = [("ZADD", plan.keys.ready, can[step].place, step) for step in missing]
        sentence = f"Nothing keeps {_some(missing)} from starting, and the ready queue does not hold them."
        do = "planner doctor --fix puts them back."
        yield _broken(plan, "plan.ready", sentence, do, (*commands, *_look(plan, now)))
    wrong = sorted(plan.ready - can.keys())
    if wrong:
        over = [step for step in wrong if step not in plan.steps or plan.steps[step].state in OVER]
        over += [step for step in wrong if step in plan.active]
        sentence = f"The ready queue holds {_some(wrong)}, which must not start."
        mend = (("ZREM", plan.keys.ready, *over),) if len(over) == len(wrong) else ()
        yield _broken(plan, "plan.ready", sentence, "planner doctor --fix takes them out." if mend else HALT, mend)


def _can_start(plan: Stored, step: str, row: StepRow) -> bool:
    return row.state in (PENDING, ACTIVE) and not row.unmet and step not in plan.active and row.approval != "asked"


def _look(plan: Stored, now: int) -> tuple[RedisCommand, ...]:
    """Return the repair that makes a worker look at the plan at once."""
    return (("ZADD", plan.partition.timers, now, plan.plan_id),)


def _broken(
    plan: Stored,
    check: str,
    sentence: str,
    do: str,
    commands: Sequence[RedisCommand] = (),
    severity: FindingSeverity = FindingSeverity.ERROR,
) -> Finding:
    repair = Repair(tuple(commands), plan.keys.plan, plan.version) if commands else None
    return Finding(check, plan.plan_id, sentence, do, severity, repair)


def _some(names: Iterable[str], between: str = ", ") -> str:
    listed = list(names)
    return between.join(listed[:SHOWN]) + (f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else "")


HALT = "planner export it, then halt it and send its goal again; and please report this."
