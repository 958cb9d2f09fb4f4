"""What a plain decision needs of a plan and of its steps, found out once and kept with the plan."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from msgspec import Struct

from schemas import codec
from schemas.base import Mode
from schemas.base import PlanState as P
from schemas.step import SENT_OMITTED
from schemas.stored_step import read_step
from tasks.base.policy import BUILT_IN
from tasks.base.policy_version import POLICY_VERSION
from tasks.plan.changeset import usage_name
from tasks.plan.hot_plan import HotPlan
from tasks.plan.snapshot import Step
from tasks.policy import schedule
from tasks.policy.pipeline import END_FIELDS, START_FIELDS, are_idle
from tasks.policy.verification_name import name_verification
from tasks.rules import budget

EXECUTING = P.EXECUTING.value
NO_CODES: Mapping[str, tuple[int, ...]] = MappingProxyType({})
PATCH = Mode.PATCH.value


class StepCard(Struct, frozen=True, gc=False):
    """A step as a plain decision sees one."""

    ends_plain: bool  # whether a success may be plain
    starts_plain: bool
    patches: bool
    files: list[str]
    own: frozenset[str]  # the files that it may touch
    codes: Mapping[str, tuple[int, ...]]  # tool -> exit codes by which it passes
    tokens: int  # expected of an attempt
    patch_cycles: int
    most: int  # tokens that an attempt holds where as many are left
    max_diff_lines: int
    limits: str  # of its files, behind a comma; empty where the step names all that it may change
    lasts: int  # ms from dispatch to the deadline
    queue: str
    used: str  # the name under which the tokens of its attempts are left to later plans; empty where they are not
    key: str  # of its verification among those whose flips are counted
    sent: bytes  # the spec as far as it is the same for each attempt, without the closing brace


class PlanCard(Struct, frozen=True, gc=False):
    """A plan as a plain decision sees one: what no plain decision changes."""

    is_plain: bool
    ends_plain: bool  # whether its last success may be plain, too
    slots: int  # attempts that may be in flight
    budgets: tuple[tuple[str, int, bool], ...]  # name, limit and whether all of it may be spent without an event
    about: str  # the beginning of each event
    context: str  # of each spec, up to its last value
    end: str  # of each spec
    counts_untold: bool  # whether a patch that does not say what it created is noted


def card_of(plan: HotPlan) -> PlanCard:
    """Return the card of a plan."""
    if plan.card is None:
        plan.card = _look_at_plan(plan)
    found: PlanCard = plan.card
    return found


def step_card(plan: HotPlan, step: Step) -> StepCard:
    """Return the card of a step of the plan."""
    found: StepCard | None = plan.cards.get(step.step_id)
    if found is None:
        found = plan.cards[step.step_id] = _look_at(plan, step)
    return found


def _look_at_plan(plan: HotPlan) -> PlanCard:
    head, warned = plan.record.head, plan.record.warned
    about = {"plan_id": plan.plan_id, "goal_id": head.goal_id, "tenant": head.tenant}
    if head.repo:
        about["repo"] = head.repo
    trace = {"traceparent": head.traceparent} if head.traceparent else {}
    limits = [(name, limit) for name in budget.BUDGETS if (limit := head.limits[name]) is not None]
    return PlanCard(
        is_plain=_is_plain(plan),
        ends_plain=head.streak is None and head.cache is None,  # else it leaves something to other plans
        slots=head.limits["max_parallel"] or 1,
        budgets=tuple((name, limit, not limit or name in warned) for name, limit in limits),
        about=codec.dumps({**about, "kind": head.kind})[:-1].decode(),
        context=codec.dumps({**head.context, "previous_failure": None})[: -len("null}")].decode(),
        end=codec.dumps({"reply_to": plan.reply_to, **trace})[1:].decode(),
        counts_untold=bool(head.limits.get(budget.EXCUSES)),
    )


def _is_plain(plan: HotPlan) -> bool:
    """Whether nothing is going on in a plan that a plain decision would have to look at."""
    record, head = plan.record, plan.record.head
    return (
        record.state == EXECUTING
        and head.policy_version == POLICY_VERSION
        and not (record.paused or record.paused_until or record.held or record.question)
        and not (record.waits or record.backoffs or plan.todo)
        and not (head.approvals or head.tightened is not None or "previous_failure" in head.context)
        and "still" not in record.times
        and not (record.streaks.narrowed or record.counters.timeouts)
        and are_idle(record)
    )


def _look_at(plan: HotPlan, step: Step) -> StepCard:
    spec = step.spec or b"{}"
    stored = read_step(spec, step.texts)
    tools, files, estimate = stored["verify_tools"], stored["allowed_files"], stored["estimate"]
    rules = (plan.policy or BUILT_IN).attempts[stored["risk_level"]]
    codes, lasts = NO_CODES, schedule.QUEUED_MS
    if tools:
        codes, seconds = {}, 0
        for tool in tools:
            codes[tool["tool"]] = (*codes.get(tool["tool"], ()), *tool["pass_codes"])
            seconds += tool["timeout_s"]
        lasts = max(lasts, schedule.RUNNING_MARGIN_MS + 1000 * seconds)
    patches, most, queue = stored["mode"] == PATCH, estimate["tokens"], stored.get("queue", "default")
    return StepCard(
        step.spec is not None and END_FIELDS.isdisjoint(stored),  # what a step has not is not stored
        step.spec is not None and START_FIELDS.isdisjoint(stored),
        patches,
        files,
        frozenset(files if patches else ()),
        codes,
        most,
        estimate["patch_cycles"],
        most if rules.tokens is None else min(most, rules.tokens),
        rules.max_diff_lines,
        f",{codec.dumps(limits)[1:-1].decode()}" if (limits := schedule.limits_of_files(stored)) else "",
        lasts,
        queue,
        usage_name(stored["mode"], queue),
        name_verification(stored),
        codec.dumps(stored)[:-1] + _omitted(tuple(stored)),
    )


@lru_cache(maxsize=256)
def _omitted(stored: tuple[str, ...]) -> bytes:
    """Write the fields for controllers that a spec with the fields `stored` leaves out, behind a comma."""
    omitted = {name: value for name, value in SENT_OMITTED.items() if name not in stored}
    return b"," + codec.dumps(omitted)[1:-1] if omitted else b""
