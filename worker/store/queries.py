"""Plans in the form for people and scripts; only reads, and never scans the server's keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from redis import Redis

from schemas import codec
from schemas.base import GoalVerdict, PlanState
from schemas.delivered import DeliveryState
from schemas.plan import (
    Budget,
    BudgetLine,
    CriterionView,
    Forecast,
    GoalAnswer,
    LogView,
    MemoryView,
    NeedView,
    PlanSummary,
    PlanView,
    StepView,
    Waiting,
)
from schemas.result import IntegrityView
from schemas.stored import HOT, LogHead, PlanHead, PlanRecord, StepStatus, decode_plan, read_part
from schemas.stored.features import AskedFiles, Delivery, IntegrityFound, Reproduced
from schemas.stored.step import TEXTS, read_texts, unpack_step
from schemas.times import rfc3339
from tasks.base.batches import batches
from tasks.features.answers import note_of
from tasks.features.delivery import landing
from tasks.features.flaky_tests import FLAKY, MEMORY
from tasks.features.needs import REFUSED
from tasks.features.unverified import Planned, describe_unverified, is_strict, is_verified, tools_of
from tasks.plan.cached_draft import HIT
from tasks.plan.end_sum import cost_of
from tasks.plan.snapshot import NOTE
from tasks.rules.forecast import Expected, forecast
from tasks.strategies.criteria import describe_criteria, describe_unchecked
from tasks.strategies.gap_report.outside import describe_outside
from tasks.toolchain.catalogue import Catalogue, catalogue_of
from worker.store import delivered_changes, file_claims, keys, open_breakers
from worker.store.keys import NO_TENANT, home_of
from worker.store.plan_lists import Place, PlanFilter, walk

PAGE = 50
MOST_LOOKS = 2000  # at plans for one page
MOST_TEXTS = 20_000  # at goals for one page, where words are looked for
TEXT_PAGE = 1000  # goals that are read in one go
EVERY_PLAN = PlanFilter()
STEP_PAGE = 1000
FIELDS = (*HOT[:4], "halt", "text")  # without the strategy state, which may be large
SPEC_FIELDS = (
    *("step_id", "title", "depends_on", "allowed_files", "verify"),
    *("risk_level", "mode", "queue", "inserted_by"),
)
BOTH_SIDES = NOTE + landing.SIDES
NEEDS = NOTE + REFUSED  # the field of a plan's steps in which these are kept
ENDED = frozenset({PlanState.COMPLETED.value, PlanState.HALTED.value, PlanState.REJECTED.value})


class Owner(NamedTuple):
    """The tenant of a plan, and its repository."""

    tenant: str
    repo: str | None


class Page(NamedTuple):
    """Some plans, and the cursor of the next ones; None if there are no more."""

    items: list[PlanSummary]
    next_cursor: str | None


def plans(client: Redis, partitions: int, wanted: PlanFilter = EVERY_PLAN) -> Iterator[PlanSummary]:
    """Yield every wanted plan that has been created, the newest first, read in pages on demand."""
    return (plan for _, plan in _look(client, partitions, wanted, None) if plan)


def page(
    client: Redis,
    partitions: int,
    wanted: PlanFilter = EVERY_PLAN,
    limit: int = PAGE,
    cursor: str | None = None,
    is_seen: Callable[[PlanSummary], bool] = lambda _: True,
) -> Page:
    """Return up to `limit` plans that match and that the user may see, the newest first. Raises WrongCursor.

    At most MOST_LOOKS plans are examined, or MOST_TEXTS if words are searched. So a page can be short and have a
    cursor.
    """
    last, looks, items = None, 0, []
    most = MOST_TEXTS if wanted.words else MOST_LOOKS
    for place, plan in _look(client, partitions, wanted, Place.read(cursor) if cursor else None):
        if last and (len(items) == limit or looks == most):
            return Page(items, last.cursor())
        last, looks = place, looks + 1
        if plan and is_seen(plan):
            items.append(plan)
    return Page(items, None)


def read_summaries(client: Redis, partitions: int, plan_ids: Sequence[str], wanted: PlanFilter) -> list[PlanSummary]:
    """Return the summaries of the plans that exist and match `wanted`, in the given order."""
    found = _summaries(client, partitions, list(plan_ids)) if plan_ids else []
    return [plan for plan in found if plan and wanted.fits(plan)]


def _look(
    client: Redis, partitions: int, wanted: PlanFilter, after: Place | None
) -> Iterator[tuple[Place, PlanSummary | None]]:
    """Yield each place of a candidate, with the plan if it is wanted."""
    places = walk(client, partitions, wanted, after)
    while some := list(islice(places, TEXT_PAGE if wanted.words else PAGE)):
        plan_ids = [place.plan_id for place, may_fit in some if may_fit]
        if wanted.words:
            plan_ids = _told(client, partitions, plan_ids, wanted)
        read = dict(zip(plan_ids, _summaries(client, partitions, plan_ids), strict=True)) if plan_ids else {}
        for place, _ in some:
            found = read.get(place.plan_id)
            yield place, found if found and wanted.fits(found) else None


def _told(client: Redis, partitions: int, plan_ids: list[str], wanted: PlanFilter) -> list[str]:
    """Return the plans that contain the search words; only goals and heads are read."""
    pipeline = client.pipeline(transaction=False)
    for plan_id in plan_ids:
        pipeline.hmget(home_of(plan_id, partitions).plan(plan_id).plan, "text", "head")
    found = zip(plan_ids, pipeline.execute() if plan_ids else (), strict=True)
    return [
        plan_id
        for plan_id, (text, head) in found
        if head and wanted.is_told((text or b"").decode(), partial(PlanHead.decode, head))
    ]


def summary(client: Redis, partitions: int, plan_id: str) -> PlanSummary | None:
    """Return the summary of a plan; None if it does not exist or is still being created."""
    (found,) = _summaries(client, partitions, [plan_id])
    return found


def owners(client: Redis, partitions: int, plan_ids: Iterable[str]) -> dict[str, Owner]:
    """Return the owner of each of these plans that exists."""
    wanted = list(dict.fromkeys(plan_ids))
    pipeline = client.pipeline(transaction=False)
    for plan_id in wanted:
        pipeline.hget(home_of(plan_id, partitions).plan(plan_id).plan, "head")
    heads = {plan_id: PlanHead.decode(raw) for plan_id, raw in zip(wanted, pipeline.execute(), strict=True) if raw}
    return {plan_id: Owner(head.tenant, head.repo) for plan_id, head in heads.items()}


def plan(client: Redis, partitions: int, plan_id: str) -> PlanView | None:
    """Return everything about a plan; None if it does not exist or is still being created."""
    line = summary(client, partitions, plan_id)
    if line is None:
        return None
    k = home_of(plan_id, partitions).plan(plan_id)
    pipeline = client.pipeline(transaction=False)
    pipeline.hmget(k.plan, "document", "strategy_state", "head", "retry_of", "retried_by", "live")
    pipeline.hkeys(k.active)
    pipeline.hmget(k.steps, file_claims.OVERLAPS, NEEDS, BOTH_SIDES)  # no other command: readers have none
    (document, strategy_state, head, retry_of, retried_by, live), flying, (overlaps, needs, sides) = pipeline.execute()
    kept = codec.loads(strategy_state) if strategy_state else {}
    known = kept["document"] if kept else codec.loads(document or b"null")
    if line.waiting and (page := kept.get("page") or _conflict(line.waiting, live, sides)):
        line = line.model_copy(update={"waiting": line.waiting.model_copy(update={"document": page})})
    about = codec.loads(head or b"{}")
    steps = sorted(read_steps(client, k), key=lambda each: each[0])
    planned, catalogue = [each for _, _, each in steps], catalogue_of(about.get("tools", ()))
    criteria = describe_criteria(known, tools_of(planned), catalogue)
    return PlanView(
        **dict(line),
        steps=tuple(view for _, view, _ in steps),
        unverified=_unverified(live, planned, catalogue, criteria),
        criteria=criteria,
        outside=describe_outside(known),
        retry_of=retry_of.decode() if retry_of else None,
        retried_by=tuple((retried_by or b"").decode().split()),
        overlaps=file_claims.read_overlaps(overlaps),
        log=_log(live),
        forecast=_forecast(line, {step.decode() for step in flying}, [(view, each) for _, view, each in steps]),
        drafted_from=_drafted_from(about.get("cache")),
        flaky_tests=tuple(about.get("context", {}).get(MEMORY, {}).get(FLAKY, ())),
        memory=MemoryView.of(about.get("memory")),
        breaker=open_breakers.read_of(client, partitions, line),
        needs=_needs(live, needs),
        integrity=_integrity(live),
        document=known,
    )


def _forecast(line: PlanSummary, flying: Set[str], steps: Sequence[tuple[StepView, Planned]]) -> Forecast | None:
    if line.ended_at or not steps:
        return None
    known = (Expected(each.facts, each.state, view.attempt, view.step_id in flying) for view, each in steps)
    return forecast(known, line.budget)


def _unverified(
    live: bytes | None, steps: Sequence[Planned], catalogue: Catalogue, criteria: Sequence[CriterionView]
) -> str | None:
    """Return a text about files and criteria that nothing verifies, and about findings at the base; None without."""
    found = (
        describe_unverified(steps, catalogue),
        describe_unchecked(criteria),
        read_part(codec.loads(live or b"{}"), Reproduced).doubt,
    )
    return " ".join(filter(None, found)) or None


def _needs(live: bytes | None, note: bytes | None) -> tuple[NeedView, ...]:
    """Return each step that still needs files that its goal does not allow."""
    refused = read_part(codec.loads(live or b"{}"), AskedFiles).refused
    known = codec.loads(note) if note and refused else {}
    return tuple(NeedView(step_id=name, **known[name]) for name in refused if name in known)


def _conflict(waiting: Waiting, live: bytes | None, sides: bytes | None) -> str | None:
    """Return the paths and both diffs of the conflict that an open question is about; None for another question."""
    step = read_part(codec.loads(live or b"{}"), Delivery).step
    if not sides or not any(f" {step} " in question for question in waiting.questions):
        return None
    return "\n\n".join(f"{name}\n{text}" for name, text in codec.loads(sides).items()) or None


def _integrity(live: bytes | None) -> tuple[IntegrityView, ...]:
    """Return the recorded effects of the plan's changes on tests and checks."""
    told = read_part(codec.loads(live or b"{}"), IntegrityFound).told
    names = tuple(IntegrityView.model_fields)
    return tuple(IntegrityView.model_validate(dict(zip(names, each, strict=True))) for each in told)


def _drafted_from(cache: Any) -> str | None:
    """Return the id of the plan whose cached draft was used; None if the draft is new."""
    return str(cache[3]) if cache and cache[0] == HIT else None


def _log(live: bytes | None) -> LogView | None:
    head = read_part(codec.loads(live or b"{}"), LogHead)
    return LogView(head=head.head, lines=head.lines) if head.lines else None


def goal(client: Redis, goal_id: str, tenant: str = NO_TENANT) -> GoalAnswer | None:
    """Return the state of a tenant's goal; None if the planner has not taken it yet, or has forgotten it."""
    found: Any = client.hgetall(keys.goal_id(goal_id, tenant))
    said = {name.decode(): value.decode(errors="replace") for name, value in found.items()}
    if "verdict" not in said:
        return None
    names = ("state", "halt_rule", "halt_reason", "ended_at", "branch", "pull_request", "undelivered", "delivery_at")
    known: dict[str, Any] = {name: said.get(name) for name in (*names, "doubt", "same_as")}
    return GoalAnswer(
        goal_id=goal_id,
        plan_id=said.get("plan_id", ""),
        verdict=GoalVerdict(said["verdict"]),
        reason=said.get("reason", ""),
        errors=tuple(codec.loads(said.get("errors", "[]"))),
        criteria=tuple(codec.loads(said.get("criteria", "[]"))),
        delivery_state=DeliveryState(said["delivery_state"]) if "delivery_state" in said else None,
        **known,
    )


def errors_of(client: Redis, partitions: int, answer: GoalAnswer) -> list[dict[str, Any]]:
    """Return the errors of a REJECTED goal, which its plan stores."""
    plan = None if answer.errors or not answer.plan_id else summary(client, partitions, answer.plan_id)
    return list(plan.halt.evidence.get("errors", ()) if plan and plan.halt else answer.errors)


def _summaries(client: Redis, partitions: int, plan_ids: list[str]) -> list[PlanSummary | None]:
    """Return plans in one round trip; None for each that is gone or not complete yet."""
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    for plan_id in plan_ids:
        pipeline.hmget(home_of(plan_id, partitions).plan(plan_id).plan, FIELDS)
    (seconds, microseconds), *found = pipeline.execute()
    now = seconds * 1000 + microseconds // 1000
    plans = [_summary(plan_id, raw, now) for plan_id, raw in zip(plan_ids, found, strict=True)]
    delivered = [plan.plan_id for plan in plans if plan and plan.branch]
    if not delivered:
        return plans
    views = {kept.change.plan_id: kept.change.view() for kept in delivered_changes.read_all(client, delivered) if kept}
    return [
        plan.model_copy(update={"delivery": views[plan.plan_id]}) if plan and plan.plan_id in views else plan
        for plan in plans
    ]


def _summary(plan_id: str, raw: list[bytes | None], now: int) -> PlanSummary | None:
    *hot, halt, text = raw
    if raw[0] is None:
        return None
    record = decode_plan([*hot, None])
    if record.state == PlanState.CREATED and not record.question:
        return None
    ended, paused_by = record.times.get("ended"), _paused_by(record)
    return PlanSummary(
        plan_id=plan_id,
        goal_id=record.head.goal_id,
        tenant=record.head.tenant,
        repo=record.head.repo,
        kind=record.head.kind,
        goal=(text or b"").decode(),
        state=PlanState(record.state),
        revision=record.revision,
        paused=bool(paused_by),
        paused_by=paused_by,
        waiting=_waiting(plan_id, record),
        halt=codec.loads(halt or b"null"),
        budget=_budget(record, now),
        counts={state: count for state, count in record.counts.items() if count},
        created_at=rfc3339(record.times["created"]),
        ended_at=rfc3339(ended) if ended else None,
        cost_usd=cost_of(record),
        branch=record.delivery.branch or None,
        pull_request=record.delivery.pull_request or None,
        undelivered=record.delivery.undelivered or None,
        delivery=delivered_changes.awaiting_room(record),
        lines=record.delivery.lines or None,
        doubt=record.doubt,
    )


def _paused_by(record: PlanRecord) -> str | None:
    """Return the causes that pause a plan, and their end if that is known."""
    if record.state in ENDED:
        return None
    until = f" (until {rfc3339(record.paused_until)})" if record.paused_until else ""
    said = (record.paused and f"{record.paused}{until}", record.held)
    return "; ".join(filter(None, said)) or None


def _waiting(plan_id: str, record: PlanRecord) -> Waiting | None:
    """Return the open question of a plan, or the steps that wait for approval with the first deadline."""
    if record.question and record.state not in ENDED:
        asked = record.question
        return Waiting(kind=asked["kind"], questions=asked["questions"], until=rfc3339(asked["until"]))
    if not record.waits or record.state in ENDED:
        return None
    questions = tuple(f"May step {step} start? Then: planner approve {plan_id} {step}" for step in sorted(record.waits))
    return Waiting(kind="approval", questions=questions, until=rfc3339(min(record.waits.values())))


def _budget(record: PlanRecord, now: int) -> Budget:
    def line(name: str) -> BudgetLine:
        return BudgetLine(limit=record.limits[name], reserved=record.reserved[name], spent=record.spent[name])

    times = record.times
    until, since = times.get("ended", now), times.get("ready")
    given_back = times.get("lost", 0) + (until - times["still"] if "still" in times else 0)
    seconds = (until - since - given_back) // 1000 if since else 0
    return Budget(
        tokens=line("tokens"),
        patch_cycles=line("patch_cycles"),
        failing_outcomes=line("failing_outcomes"),
        wall_clock_s=BudgetLine(limit=record.limits["wall_clock_s"], reserved=0, spent=max(0, seconds)),
    )


def read_steps(client: Redis, k: keys.PlanKeys) -> Iterator[tuple[int, StepView, Planned]]:
    """Yield each step with its index, in the forms for people and for decisions.

    The ids are read with HKEYS, the records in pages, so that no reply is huge.
    """
    ids: Any = client.hkeys(k.status)
    for page in batches(ids, STEP_PAGE):
        pipeline = client.pipeline(transaction=False)
        pipeline.hmget(k.status, page)
        pipeline.hmget(k.steps, [TEXTS, *page])
        states, (raw_texts, *specs) = pipeline.execute()
        texts = read_texts(raw_texts)
        known = {name: unpack_step(spec, texts) for name, spec in zip(page, specs, strict=True) if spec}
        answers = _answers(client, k, [name for name, facts in known.items() if facts["keeps_answer"]])
        for name, status in zip(page, states, strict=True):
            if status and (facts := known.get(name)):
                record = StepStatus.decode(status)
                verified = is_verified(record, facts)
                view = StepView(
                    answer=answers.get(name),
                    verified=verified,
                    type=facts["controller_task_spec"]["type"],
                    state=record.state,
                    attempt=record.attempt,
                    waiting="approval" if record.approval == "asked" else None,
                    **{name: facts[name] for name in SPEC_FIELDS},
                )
                yield record.index, view, Planned(facts, record.state, verified, is_strict(record))


def _answers(client: Redis, k: keys.PlanKeys, ids: list[bytes]) -> dict[bytes, str]:
    """Return the answers of steps that are stored."""
    notes: Any = client.hmget(k.steps, [NOTE + note_of(name.decode()) for name in ids]) if ids else ()
    return {name: codec.loads(note)["output"] for name, note in zip(ids, notes, strict=True) if note}
