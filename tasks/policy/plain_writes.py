"""What a plain success changes, in its plan and for the store, in the order in which `outcomes.apply` changes it."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from msgspec import UNSET, Struct

from schemas import codec
from schemas.base import PlanState as P
from schemas.base import StepState as S
from schemas.stored import Attempt, PlanRecord
from schemas.times import rfc3339
from tasks.base.log_chain import digest_line
from tasks.plan import lifecycle
from tasks.plan.end_sum import EndSum, book_cost, end_sum
from tasks.plan.hot_plan import HotPlan
from tasks.plan.report import PlainReport
from tasks.plan.snapshot import Step
from tasks.policy import schedule
from tasks.policy.plain_cards import PlanCard, StepCard
from tasks.rules import budget

BLOCKED, PENDING, ACTIVE, DONE = S.BLOCKED.value, S.PENDING.value, S.ACTIVE.value, S.DONE.value
COMPLETED = P.COMPLETED.value


class Used(NamedTuple):
    """What an attempt used up."""

    tokens: int
    patch_cycles: int
    tool_calls: int
    cost_usd: float | None = None


class Start(Struct, frozen=True, gc=False):
    """An attempt that starts: its step with the status that is written, its spec, its record and its event."""

    step_id: str
    status: bytes
    spec: bytes
    record: bytes
    event: bytes
    attempt: Attempt


class End(Struct, frozen=True, gc=False):
    """The end of a plan that is completed: what it adds to sums, the event, and all lists that the plan is in then."""

    sum: EndSum
    event: bytes
    lists: Sequence[str]


class PlainChange(Struct, frozen=True, gc=False):
    """The writes of a plain decision; the plan's version goes up by one, and its field `live` is written."""

    plan_id: str
    expected: int
    now: int
    live: bytes
    log: bytes
    entry: str  # of the outcome
    step_id: str  # that is done
    status: bytes
    ended: Attempt
    event: bytes
    starts: Sequence[Start]
    statuses: Sequence[tuple[str, bytes]] = ()  # of dependents that do not start yet
    ready_add: Sequence[tuple[str, int]] = ()
    ready_remove: Sequence[str] = ()
    wake: int | None = None  # as in Changeset
    used: tuple[str, int] | None = None  # tokens of the attempt, as in UsedTokens
    end: End | None = None

    @property
    def ends(self) -> bool:
        """As in Changeset."""
        return self.end is not None


def write(
    plan: HotPlan,
    about: PlanCard,
    step: Step,
    card: StepCard,
    attempt: Attempt,
    used: Used,
    freed: Sequence[Step],
    starting: Sequence[tuple[Step, StepCard]],
    report: PlainReport,
    now: int,
    code: str,
    *,
    read: int,
    ends: bool,
) -> PlainChange:
    """Change the plan, and tell what is to be written.

    `freed` are the steps that wait for `step`, `starting` those that start; `read` is how many steps of a longer ready
    queue were looked at, 0 where that were all. Where it `ends`, the plan is completed.
    """
    record, status, step_id, said = plan.record, step.status, step.step_id, report.said
    counts, expected, at = record.counts, record.version, rfc3339(now)
    del plan.active[step_id]
    _book(record, step_id, attempt, used)
    _count(record, card, attempt, now, touched=bool(said.touched_files))
    status.digest, status.state, status.previous = report.digest, DONE, None
    status.signature, status.repeats = "", 0
    counts[ACTIVE] -= 1
    counts[DONE] = counts.get(DONE, 0) + 1
    if about.counts_untold and card.patches and said.created_files is UNSET:
        record.growth.untold = True
    event = (
        f'{about.about},"entry":"{report.entry}","step_id":"{step_id}","attempt":{status.attempt},'
        f'"from":"ACTIVE","to":"DONE","at":"{at}"}}'
    )
    moves = f'["{step_id}","ACTIVE","DONE"]'
    added: dict[str, int] = {}
    waiting: list[tuple[str, bytes]] = []
    for one in freed:
        unmet = one.status.unmet = one.status.unmet - 1
        if unmet:
            waiting.append((one.step_id, one.status.encode()))
        else:
            one.status.state = PENDING
            counts[BLOCKED] -= 1
            counts[PENDING] = counts.get(PENDING, 0) + 1
            moves += f',["{one.step_id}","BLOCKED","PENDING"]'
            added[one.step_id] = one.status.index
    removed: list[str] = []
    starts: list[Start] = []
    wake = None
    for one, wanted in starting:
        if added.pop(one.step_id, None) is None:
            del plan.ready[one.step_id]
            removed.append(one.step_id)
        moves += f',["{one.step_id}","PENDING","ACTIVE"]'
        starts.append(_start(plan, about, one, wanted, now, at))
    if added:
        plan.enqueue(added)
        waiting += [(name, plan.steps[name].status.encode()) for name in added]
    if starts:
        due = now + schedule.SILENT_MS
        if not record.wake or due < record.wake:
            record.wake = wake = due
    if ends:
        record.state, record.times["ended"], record.wake = COMPLETED, now, (wake := 0)
        moves += f',["","EXECUTING","{COMPLETED}"]'
    log = _log(record, report, moves, now, code, read)
    record.version += 1
    end = _end(record, about, at) if ends else None
    tokens = said.metrics.tokens_used if said.metrics and card.used else None
    learned = None if tokens is None else (card.used, tokens)
    return PlainChange(
        *(plan.plan_id, expected, now, record.encode("live"), log, report.entry, step_id, status.encode(), attempt),
        *(event.encode(), starts, waiting, [*added.items()] if added else (), removed, wake, learned, end),
    )


def _book(record: PlanRecord, step_id: str, attempt: Attempt, used: Used) -> None:
    """Release what the attempt held, and book what it used, which the plan has room for."""
    spent, reserved = record.spent, record.reserved
    reserved["tokens"] -= attempt.tokens
    reserved["patch_cycles"] -= attempt.patch_cycles
    spent["tokens"] += used.tokens
    spent["patch_cycles"] += used.patch_cycles
    spent["tool_calls"] += used.tool_calls
    budget.remember_spender(record, step_id, attempt.attempt, used.tokens, used.patch_cycles, used.tool_calls)
    if used.cost_usd:
        book_cost(record, used.cost_usd)


def _count(record: PlanRecord, card: StepCard, attempt: Attempt, now: int, *, touched: bool) -> None:
    """Count the success as the halt rules do."""
    streaks = record.streaks
    is_of_tree = attempt.at >= streaks.landed
    if touched:
        streaks.land(now)
    if is_of_tree and card.codes:
        streaks.flips.setdefault(card.key, 1)
    record.counters.consecutive = 0


def _start(plan: HotPlan, about: PlanCard, step: Step, card: StepCard, now: int, at: str) -> Start:
    """Start a step, which can hold all that is expected of it."""
    record, status, step_id = plan.record, step.status, step.step_id
    counts, reserved, times, tokens = record.counts, record.reserved, record.times, card.most
    number = status.attempt = status.attempt + 1
    status.state = ACTIVE
    counts[PENDING] -= 1
    counts[ACTIVE] = counts.get(ACTIVE, 0) + 1
    reserved["tokens"] += tokens
    reserved["patch_cycles"] += card.patch_cycles
    lease = blake2b(f"{record.head.seed}|{step_id}|{number}".encode(), digest_size=12).hexdigest()
    deadline, lost = now + card.lasts, times.get("lost", 0) - times.get("outages", 0)
    attempt = Attempt(number, lease, card.queue, card.files, tokens, card.patch_cycles, now, deadline, lost)
    plan.active[step_id] = attempt
    previous = "null" if status.previous is None else codec.dumps(status.previous).decode()
    spec = (
        f',"plan_id":"{plan.plan_id}","attempt":{number},"context":{about.context}{previous}}},'
        f'"limits":{{"max_diff_lines":{card.max_diff_lines},"tokens":{tokens},"patch_cycles":{card.patch_cycles}'
        f"{card.limits}}},"
        f'"budget_remaining":{budget.remaining_fraction(record)},"lease":"{lease}",'
        f'"lease_key":"{plan.lease_prefix}{step_id}","deadline":"{rfc3339(deadline)}",{about.end}'
    )
    event = f'{about.about},"step_id":"{step_id}","attempt":{number},"from":"PENDING","to":"ACTIVE","at":"{at}"}}'
    return Start(step_id, status.encode(), card.sent + spec.encode(), attempt.encode(), event.encode(), attempt)


def _end(record: PlanRecord, about: PlanCard, at: str) -> End:
    """Tell that the plan is completed, whose log has all of its lines."""
    log = record.log
    event = f'{about.about},"from":"EXECUTING","to":"{COMPLETED}","at":"{at}","head":"{log.head}","lines":{log.lines}}}'
    return End(end_sum(record), event.encode(), lifecycle.lists_of(record))


def _log(record: PlanRecord, report: PlainReport, moves: str, now: int, code: str, read: int) -> bytes:
    """Write the line of this commit; its digest is the new head of the log."""
    before, version, said = record.log, record.version + 1, report.said
    told = f',"prev":"{before.head}"'
    if code != before.by:
        told += f',"by":"{code}"'
    line = b"%b%b%b" % (
        f'{{"version":{version},"now":{now}{told},"in":[["outcome",{said.attempt},"{said.lease}",'.encode(),
        report.raw,
        f']],"moves":[{moves}]'.encode(),
    )
    line += b',"read":%d}' % read if read else b"}"
    before.follow(digest_line(line), code)
    return line
