"""Decides plain successes, which are most outcomes: every feature is idle, and the plan needs no other decision.

The decision needs no unit of work. It changes the plan that its worker keeps, with the same functions as any other
decision: budgets, counters of the halt rules, and starts. It declines an outcome that is not plain before it touches
anything. `tests/support/plain.py` compares every outcome of the tests with the ordinary decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from schemas import codec
from schemas.base import PlanState as P
from schemas.base import StepState as S
from schemas.plain_outcome import PlainOutcome
from schemas.stored import Attempt, PlanRecord
from schemas.times import rfc3339
from tasks.base.log_chain import begin_line, digest_line
from tasks.base.policy import BUILT_IN, AttemptRules
from tasks.base.policy_version import POLICY_VERSION
from tasks.memory.outcomes import Place, place_of, write_record
from tasks.plan import lifecycle
from tasks.plan.changeset import PlainChange, PlainEnd, PlainStart
from tasks.plan.end_sum import book_cost, end_sum
from tasks.plan.hot_plan import HotPlan
from tasks.plan.report import PlainReport
from tasks.plan.snapshot import READY_PAGE, WINDOW, Step
from tasks.policy import halt_rules, schedule, starts
from tasks.policy.halt_rules import Success
from tasks.policy.outcome_verdict import contradiction
from tasks.policy.pipeline import never, questions_about
from tasks.policy.starts import StepCard, Wanted
from tasks.rules import budget

ENDS_AND_PAGE = 1 + READY_PAGE  # ready steps that a decision about one outcome reads
MOST_STARTS = 8  # in one plain decision
BLOCKED, PENDING, ACTIVE, DONE = S.BLOCKED.value, S.PENDING.value, S.ACTIVE.value, S.DONE.value
EXECUTING, COMPLETED = P.EXECUTING.value, P.COMPLETED.value


class PlanCard(Struct, frozen=True, gc=False):
    """The constant facts of a plan for plain decisions, computed once and stored with it."""

    is_plain: bool
    ends_plain: bool  # whether its last success may be plain, too
    questions: Sequence[Callable[[PlanRecord, dict[str, Any], PlainOutcome], bool]]  # of features, about a success
    rules: Mapping[Any, AttemptRules]  # by the risk of a step
    slots: int  # attempts that may be in flight
    about: str  # the beginning of each event
    memory: Place | None  # where attempts are recorded
    context: str  # of each spec, up to its last value
    spec_end: str


def _look_at(plan: HotPlan) -> PlanCard:
    record, head, questions = plan.record, plan.record.head, questions_about(plan.record)
    about = {"plan_id": plan.plan_id, "goal_id": head.goal_id, "tenant": head.tenant}
    if head.repo:
        about["repo"] = head.repo
    return PlanCard(
        record.state == EXECUTING
        and head.policy_version == POLICY_VERSION
        and not (record.paused or record.paused_until or record.held or record.question)
        and not (record.waits or record.backoffs or plan.todo)
        and not (head.approvals or head.tightened is not None or "previous_failure" in head.context)
        and "still" not in record.times
        and never not in questions,
        head.streak is None and head.cache is None,  # else it leaves data to other plans
        questions,
        (plan.policy or BUILT_IN).attempts,
        head.limits["max_parallel"] or 1,
        codec.dumps({**about, "kind": head.kind})[:-1].decode(),
        place_of(head),
        codec.dumps({**head.context, "previous_failure": None})[: -len("null}")].decode(),
        starts.spec_end(plan),
    )


def decide(plan: HotPlan, report: PlainReport, now: int, code: str) -> PlainChange | None:
    """Decide about a success at `now` (ms); `code` is the version of the deciding code.

    Returns None if the outcome is not plain; nothing was touched then. Else the plan is changed: the caller has to
    commit the change, or to read the plan again.
    """
    about: PlanCard = plan.card or _look_at(plan)
    plan.card, record, said = about, plan.record, report.said
    attempt = plan.active.get(said.step_id)
    if attempt is None or not about.is_plain or said.lease != attempt.lease or said.attempt != attempt.attempt:
        return None
    if not attempt.entry:  # its spec is still on its way to the server, with the previous decision
        return None
    step = plan.steps[said.step_id]
    if step.spec is None or step.status.state != ACTIVE:
        return None
    card = starts.card_of(step)
    success = halt_rules.success_of(step, said, card.verification, attempt.at, now)
    if not (card.ends_idle and _is_beyond_doubt(record, about, card.facts, said)):
        return None
    freed = _dependents(plan, step)
    queue = [*plan.ready][:ENDS_AND_PAGE] if plan.ready else ()
    if freed is None or (plan.horizon and len(queue) < ENDS_AND_PAGE):
        return None
    starting = _choose(plan, about, step, queue, freed)
    if starting is None or not halt_rules.is_quiet(record, success):
        return None
    tokens = patch_cycles = 0
    for _, wanted in starting:
        tokens, patch_cycles = tokens + wanted.tokens, patch_cycles + wanted.patch_cycles
    if not budget.has_room(record, attempt, said.metrics, tokens, patch_cycles):
        return None
    ends = len(plan.active) + len(starting) == 1  # no attempt is in flight any more
    if ends and not (about.ends_plain and schedule.is_satisfied(record, ending=1)):
        return None
    read = len(queue) if len(queue) == ENDS_AND_PAGE else 0
    return _carry_out(plan, about, success, card, attempt, freed, starting, report, code, read=read, ends=ends)


def _is_beyond_doubt(plan: PlanRecord, about: PlanCard, facts: dict[str, Any], said: PlainOutcome) -> bool:
    """Return whether nothing contradicts the success, and all features are idle about it."""
    for is_idle_about in about.questions:
        if not is_idle_about(plan, facts, said):
            return False
    return contradiction(facts, said) is None


def _dependents(plan: HotPlan, step: Step) -> Sequence[Step] | None:
    """Return the blocked steps that wait for `step`; None if a dependent of it needs the ordinary decision."""
    window = plan.windows.get((step.step_id, 0), ())
    if len(window) >= WINDOW:
        return None
    found = []
    for name in window:
        dependent = plan.steps.get(name)
        if dependent is None:
            return None
        status = dependent.status
        if status.state == BLOCKED:
            if status.skipped_by and status.unmet == 1:
                return None
            found.append(dependent)
        elif status.state == PENDING or (status.state == ACTIVE and status.unmet):
            return None
    return found


def _choose(
    plan: HotPlan, about: PlanCard, ended: Step, queue: Sequence[str], freed: Sequence[Step]
) -> Sequence[Wanted] | None:
    """Choose the steps that start in place of `ended`, from the ready `queue` and the steps `freed` by its end.

    Returns None if this needs the ordinary decision.
    """
    active, room = plan.active, about.slots - len(plan.active) + 1
    if room <= 0:
        return ()
    waiting: list[Wanted] = []
    for step in (*[plan.steps[name] for name in queue], *freed) if queue else freed:
        if step.status.unmet > 1:
            continue
        if step.spec is None or step.status.state not in (BLOCKED, PENDING):
            return None
        card = starts.card_of(step)
        if not card.starts_idle:
            return None
        waiting.append((step, card))
    if len(waiting) > 1:
        waiting.sort(key=lambda wanted: wanted[0].status.index)
    busy: set[str] = set()
    if len(active) > 1:
        busy.update(*[one.files for name, one in active.items() if name != ended.step_id])
    found = [*starts.fit(waiting, busy, room)]
    is_cut = len(found) < room and len(queue) == ENDS_AND_PAGE
    return None if is_cut or len(found) > MOST_STARTS else found


def _carry_out(
    plan: HotPlan,
    about: PlanCard,
    success: Success,
    card: StepCard,
    attempt: Attempt,
    freed: Sequence[Step],
    starting: Sequence[Wanted],
    report: PlainReport,
    code: str,
    *,
    read: int,
    ends: bool,
) -> PlainChange:
    """Change the plan, and return the writes.

    `freed` are the dependents of the ended step, and `starting` the steps that start. `read` is how many steps of a
    longer ready queue were read; 0 if all were. With `ends` the plan is completed.
    """
    record, step, said, now = plan.record, success.step, report.said, success.now
    step_id, status, counts, expected = step.step_id, step.status, record.counts, record.version
    at = rfc3339(now)
    del plan.active[step_id]
    booked = budget.settle(record, attempt, said.metrics, card.facts["estimate"])
    budget.remember_spender(record, step_id, attempt.attempt, *booked)
    if said.metrics and said.metrics.cost_usd:
        book_cost(record, said.metrics.cost_usd)
    halt_rules.count_success(record, success)
    record.forget_step(step_id)
    status.move(DONE, counts)
    status.digest, status.previous = report.digest, None
    event = (
        f'{about.about},"entry":"{report.entry}","step_id":"{step_id}","attempt":{status.attempt},'
        f'"from":"ACTIVE","to":"DONE","at":"{at}"}}'
    )
    moves = f'["{step_id}","ACTIVE","DONE"]'
    added: dict[str, int] = {}
    waiting: list[tuple[str, bytes]] = []
    for one in freed:
        one.status.unmet -= 1
        if one.status.unmet:
            waiting.append((one.step_id, one.status.encode()))
        else:
            one.status.move(PENDING, counts)
            moves += f',["{one.step_id}","BLOCKED","PENDING"]'
            added[one.step_id] = one.status.index
    removed: list[str] = []
    started: list[PlainStart] = []
    wake = None
    for one, wanted in starting:
        if added.pop(one.step_id, None) is None:
            del plan.ready[one.step_id]
            removed.append(one.step_id)
        moves += f',["{one.step_id}","PENDING","ACTIVE"]'
        started.append(_start(plan, about, one, wanted, now, at))
    if added:
        plan.enqueue(added)
        waiting += [(name, plan.steps[name].status.encode()) for name in added]
    if started and record.wake_by(now + starts.SILENT_MS):
        wake = record.wake
    if ends:
        record.state, record.times["ended"], record.wake = COMPLETED, now, (wake := 0)
        moves += f',["","EXECUTING","{COMPLETED}"]'
    log = b'%b,"in":[["outcome",%d,"%b",%b]],"moves":[%b]%b}' % (
        begin_line(record.log, expected + 1, now, code),
        *(said.attempt, said.lease.encode(), report.raw, moves.encode(), b',"read":%d' % read if read else b""),
    )
    record.log.follow(digest_line(log), code)
    record.version += 1
    record.dirty.clear()
    end = _end(record, about, at) if ends else None
    memory = None
    if about.memory:
        tokens = said.metrics.tokens_used or 0 if said.metrics else 0
        memory = about.memory.name, write_record(about.memory, card.facts, tokens, now)
    return PlainChange(
        *(plan.plan_id, expected, now, record.encode_live(), log, report.entry, step_id, status.encode(), attempt),
        *(event.encode(), started, waiting, [*added.items()], removed, wake),
        *(budget.used_tokens(card.facts, said.metrics), end, booked[0], memory),
    )


def _start(plan: HotPlan, about: PlanCard, step: Step, card: StepCard, now: int, at: str) -> PlainStart:
    status, rules = step.status, about.rules[card.facts["risk_level"]]
    attempt = starts.begin(plan, step, card, starts.tokens_of(card, rules), card.patch_cycles, now)
    status.move(ACTIVE, plan.record.counts)
    previous = "null" if status.previous is None else codec.dumps(status.previous).decode()
    spec = starts.write_spec(plan, step.step_id, card, attempt, rules, f"{about.context}{previous}}}", about.spec_end)
    event = (
        f'{about.about},"step_id":"{step.step_id}","attempt":{attempt.attempt},'
        f'"from":"PENDING","to":"ACTIVE","at":"{at}"}}'
    )
    return PlainStart(step.step_id, status.encode(), spec, attempt.encode(), event.encode(), attempt)


def _end(record: PlanRecord, about: PlanCard, at: str) -> PlainEnd:
    """Return the writes at the end of a plan; its log must have its last line by then."""
    log = record.log
    event = f'{about.about},"from":"EXECUTING","to":"{COMPLETED}","at":"{at}","head":"{log.head}","lines":{log.lines}}}'
    return PlainEnd(end_sum(record), event.encode(), lifecycle.lists_of(record))
