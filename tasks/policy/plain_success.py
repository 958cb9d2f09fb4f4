"""The first row of the policy: an attempt that succeeded, in a plan of which nothing else is to be decided.

Most outcomes are such. What `outcomes.apply` would decide about one is written down here without objects in between, on
the plan as its worker keeps it. Whatever is not plain is declined before anything was touched, and decided there.
`tests/support/plain.py` holds every outcome of the tests against both.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from schemas.base import StepState as S
from schemas.plain_outcome import PlainOutcome
from schemas.stored import Attempt, PlanRecord
from tasks.plan.hot_plan import HotPlan
from tasks.plan.report import PlainReport
from tasks.plan.snapshot import READY_PAGE, WINDOW, Step
from tasks.policy import halt_rules, plain_writes
from tasks.policy.plain_cards import PlanCard, StepCard, card_of, step_card
from tasks.policy.plain_writes import PlainChange, Used
from tasks.rules import budget

ENDS_AND_PAGE = 1 + READY_PAGE  # ready steps that a decision about one outcome looks at
MOST_STARTS = 8  # in one plain decision
BLOCKED, PENDING, ACTIVE, DONE = S.BLOCKED.value, S.PENDING.value, S.ACTIVE.value, S.DONE.value


def decide(plan: HotPlan, report: PlainReport, now: int, code: str) -> PlainChange | None:
    """Decide about a success at `now` (ms); `code` is the version of the code that decides.

    Returns None where that is not plain; nothing was touched then. Else the plan is changed, and the change has to be
    committed, or the plan read anew.
    """
    about = card_of(plan)
    said, record = report.said, plan.record
    attempt = plan.active.get(said.step_id)
    if attempt is None or not about.is_plain or said.lease != attempt.lease or said.attempt != attempt.attempt:
        return None
    if not attempt.entry:  # its spec is still on its way to the server, with what was decided just before
        return None
    step = plan.steps[said.step_id]
    card = step_card(plan, step)
    if not card.ends_plain or step.status.state != ACTIVE or not _holds(record, card, said):
        return None
    used = _used(card, attempt, said)
    freed = _dependents(plan, step)
    if used is None or freed is None or not _is_calm(record, card, attempt, said):
        return None
    queue = [*plan.ready][:ENDS_AND_PAGE] if plan.ready else ()
    if plan.horizon and len(queue) < ENDS_AND_PAGE:
        return None
    starting = _choose(plan, about, step, queue, freed) if queue or freed else []
    if starting is None or not _fits(record, about, attempt, used, starting):
        return None
    ends = len(plan.active) + len(starting) == 1  # nothing is in flight any more
    if ends and not (about.ends_plain and _is_last(record)):
        return None
    is_cut = len(queue) == ENDS_AND_PAGE
    return plain_writes.write(
        *(plan, about, step, card, attempt, used, freed, starting, report, now, code),
        read=ENDS_AND_PAGE if is_cut else 0,
        ends=ends,
    )


def _is_last(plan: PlanRecord) -> bool:
    """Whether every other step is done, so that the plan is completed."""
    return plan.counts.get(DONE, 0) + 1 == sum(plan.counts.values())


def _holds(plan: PlanRecord, card: StepCard, said: PlainOutcome) -> bool:
    """Whether nothing contradicts the success, or leaves it in doubt."""
    touched, created, codes = said.touched_files, said.created_files, card.codes
    if touched is not UNSET and (not card.own.issuperset(touched) if touched else card.patches):
        return False
    if created is not UNSET and created:
        return False
    if not codes:
        return True
    if said.tests_passed is False:
        return False
    shown = set()
    for receipt in said.verify or ():
        shown.add(receipt.tool)
        if (passing := codes.get(receipt.tool)) and receipt.exit_code not in passing:
            return False
    if codes.keys() <= shown:
        return True
    return said.tests_passed is True and shown <= codes.keys() and not budget.requires_receipts(plan.head)


def _used(card: StepCard, attempt: Attempt, said: PlainOutcome) -> Used | None:
    """Tell what the attempt used; None where a figure is missing of an attempt that held less than is expected."""
    figures = said.metrics
    if figures is None:
        tokens = cycles = cost = None
        calls = 0
    else:
        tokens, cycles, calls = figures.tokens_used, figures.patch_cycles, figures.tool_calls or 0
        cost = figures.cost_usd
    if tokens is None:
        tokens = attempt.tokens
        if tokens < card.tokens:
            return None
    if cycles is None:
        cycles = attempt.patch_cycles
        if cycles < card.patch_cycles:
            return None
    return Used(tokens, cycles, calls, cost)


def _is_calm(plan: PlanRecord, card: StepCard, attempt: Attempt, said: PlainOutcome) -> bool:
    """Whether the verification of the step did not flip, and can be remembered."""
    streaks = plan.streaks
    if not card.codes or said.touched_files or attempt.at < streaks.landed:
        return True
    known = streaks.flips
    last = known.get(card.key)
    return len(known) < halt_rules.MAX_VERIFICATIONS if last is None else bool(last & 1)


def _dependents(plan: HotPlan, step: Step) -> Sequence[Step] | None:
    """List the steps that have one dependency less to wait for; None where one of them is not plain."""
    window = plan.window(step.step_id) or ()
    if len(window) >= WINDOW:
        return None
    found = []
    for name in window:
        dependent = plan.steps.get(name)
        if dependent is None:
            return None
        status = dependent.status
        state = status.state
        if state == BLOCKED:
            if status.skipped_by and status.unmet == 1:
                return None
            found.append(dependent)
        elif state == PENDING or (state == ACTIVE and status.unmet):
            return None
    return found


def _choose(
    plan: HotPlan, about: PlanCard, ended: Step, queue: Sequence[str], freed: Sequence[Step]
) -> Sequence[tuple[Step, StepCard]] | None:
    """Choose the steps that start in the place of `ended`, from the ready `queue` and those that it has freed.

    Returns None where that is not plain.
    """
    active, steps = plan.active, plan.steps
    waiting = [steps[name] for name in queue]
    waiting += [step for step in freed if step.status.unmet == 1]
    if len(waiting) > 1:
        waiting.sort(key=lambda step: step.status.index)
    room = about.slots - len(active) + 1
    busy: set[str] = set()
    if len(active) > 1:
        busy.update(*[one.files for name, one in active.items() if name != ended.step_id])
    starting: list[tuple[Step, StepCard]] = []
    for step in waiting:
        if room <= 0:
            break
        wanted = step_card(plan, step)
        if not wanted.starts_plain or step.status.state not in (PENDING, BLOCKED):
            return None
        if busy.isdisjoint(wanted.files):
            starting.append((step, wanted))
            busy.update(wanted.files)
            room -= 1
    return None if len(starting) > MOST_STARTS or (room > 0 and len(queue) == ENDS_AND_PAGE) else starting


def _fits(
    plan: PlanRecord,
    about: PlanCard,
    attempt: Attempt,
    used: Used,
    starting: Sequence[tuple[Step, StepCard]],
) -> bool:
    """Whether each attempt can hold all that is expected of it, something of each budget is left, and none runs low."""
    spent, reserved = plan.spent, plan.reserved
    tokens = cycles = 0
    for _, card in starting:
        tokens += card.tokens
        cycles += card.patch_cycles
    for name, limit, is_quiet in about.budgets:
        if name == "tokens":
            more, held, wanted = used.tokens, attempt.tokens, tokens
        elif name == "patch_cycles":
            more, held, wanted = used.patch_cycles, attempt.patch_cycles, cycles
        else:
            more, held, wanted = used.tool_calls if name == "tool_calls" else 0, 0, 0
        now_spent = spent[name] + more
        left = limit - now_spent - reserved[name] + held
        if left < 0 or (starting and left <= wanted) or not (is_quiet or now_spent < budget.WARN_SHARE * limit):
            return False
    return True
