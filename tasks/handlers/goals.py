"""The result of a goal: a validated plan and the commits that create it, or a rejection with all its reasons.

A plan under creation is invisible until its last commit.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import Any

from schemas import codec
from schemas.base import PlanState as P
from schemas.base import StepState as S
from schemas.goal import Goal
from schemas.step import PlannedStep
from schemas.stored import USAGE_NAMES, LogHead, PlanHead, PlanRecord
from tasks.base.batches import batches
from tasks.handlers.birth import birth_data, setting_data
from tasks.plan.changeset import Changeset, HistoryChange, plan_history
from tasks.plan.snapshot import Snapshot
from tasks.plan.unit_of_work import UnitOfWork, dependents_of
from tasks.policy import expansion, halt, pipeline, waits
from tasks.policy.plan_seed import PlanSeed
from tasks.policy.pre_steps import looks_inserted
from tasks.policy.schedule import advance
from tasks.rules import budget, estimates
from tasks.rules.budget import Expected
from tasks.rules.goal_cleaning import clean_goal
from tasks.rules.judging import suite_of
from tasks.rules.permission import names_to_keep, under
from tasks.rules.strategy import Answer, Consult, Draft, NothingToDo, Question, Rejected, Setting
from tasks.rules.validation import reject, validate
from tasks.strategies.registry import strategy_of
from tasks.text.fields import as_written, fit
from tasks.text.forbidden_paths import Forbidden
from tasks.text.paths import TABOO, fault, is_glob
from tasks.toolchain.catalogue import CATALOGUE, Catalogue, catalogue_of, keep_contracts

NO_SETTING = Setting()
NO_STEPS = Expected()
SHOWN_CHARS = 200  # of the goal's sentence, for lists of plans
# Parts of a goal that the plan's steps have, and texts from outside that are not read after the plan's creation.
UNKEPT: dict[str, Any] = {
    "steps": True,
    "context": {"documents", "failure_log", "manifests", "definitions"},
    "gap_report": {"project": {"documents"}},
    "evolution": {"commit_cards", "chunk_summaries"},
}
CHUNK = 64  # steps in a commit: their specs, windows, states and places in the queue stay below 1000 arguments


def plan(goal: Goal, catalogue: Catalogue = CATALOGUE, setting: Setting = NO_SETTING) -> Answer:
    """Answer any valid goal without raising; a returned Draft has passed the validator. Pure.

    The goal is sanitized first; the answer contains the sanitized goal and the findings.
    """
    fit_goal = clean_goal(goal)
    asked = _without_forbidden(fit_goal.goal, setting.forbidden)
    planned = budget.bind(asked, setting.policy)
    answer: Answer
    if fit_goal.errors:
        answer = reject("invalid_goal", fit_goal.errors)
    else:
        answer = strategy_of(goal.kind).draft(planned, catalogue, setting)
    if isinstance(answer, Draft):
        names = names_to_keep(setting.forbidden, planned.allowed_files)
        steps = under(names, estimates.assign(answer.steps, planned, setting.learned))
        steps = tuple(map(_with_requirements, steps))
        answer = replace(answer, steps=steps, forbidden=names)
        errors = () if answer.question else validate(planned, answer.steps, catalogue, setting.forbidden)
        if errors or (errors := budget.find_too_small(asked, setting.policy, budget.expect(answer.steps))):
            answer = reject("invalid_plan", errors)
        else:
            expands = answer.question or answer.state is not None
            answer = replace(answer, tools=keep_contracts(catalogue, None if expands else answer.steps))
    if isinstance(answer, NothingToDo | Consult):
        return answer
    answer = replace(answer, read=setting_data(goal, catalogue, setting))
    if planned is goal:
        return answer
    about = asked if answer.goal is None else answer.goal.model_copy(update={"limits": asked.limits})
    return replace(answer, goal=about, findings=fit_goal.findings)


def _with_requirements(step: PlannedStep) -> PlannedStep:
    return step if step.requires == step.required else step.model_copy(update={"requires": step.required})


def _without_forbidden(goal: Goal, forbidden: Forbidden) -> Goal:
    """Remove forbidden files from the listing against which globs are expanded, now and when the plan expands."""
    files = goal.context.files
    if not any(map(is_glob, goal.allowed_files)):
        return goal
    kept = tuple(path for path in files if fault(path, forbidden) is not TABOO)
    if len(kept) == len(files):
        return goal
    return goal.model_copy(update={"context": goal.context.model_copy(update={"files": kept})})


def accept(plan_seed: PlanSeed, goal: Goal, draft: Draft) -> Iterator[Changeset]:
    """Yield the commits that create the plan; only the last one makes it READY and starts its first steps.

    A plan that needs an answer before its creation has one commit, and waits in CREATED.
    """
    goal = draft.goal or goal
    if draft.question:
        yield _ask(plan_seed, goal, draft, draft.question)
        return
    for look_at in pipeline.SEED:
        plan_seed = look_at(plan_seed, goal, draft)
    if refused := next(filter(None, (judge(plan_seed, goal, draft) for judge in pipeline.REFUSE_DRAFT)), None):
        yield refuse(plan_seed, goal, refused)
        return
    draft = replace(draft, steps=_settle(plan_seed, goal, draft.steps))
    total, dependents = len(draft.steps), dependents_of(draft.steps)
    taken = [step.step_id for step in draft.steps if looks_inserted(step.step_id)]
    counts, expected = {S.PENDING.value: 0, S.BLOCKED.value: 0}, budget.expect(draft.steps)
    for number, steps in enumerate(batches(draft.steps, CHUNK)):
        first, last = number == 0, number * CHUNK + len(steps) == total
        unit = _begin(plan_seed, goal, draft, expected, announced=first)
        unit.plan.counts = counts
        if taken:
            unit.plan.structure.taken = taken
        unit.insert(steps, number * CHUNK, dependents)
        if last:
            _book(unit, draft)
            unit.open_plan()
            for open_with in pipeline.OPENED:
                open_with(unit, draft.steps)
        if first and last:  # it fits into one commit, and starts its first steps at once
            yield advance(unit)
            return
        unit.change.more = last  # the first steps came with earlier commits: the engine reads them from the ready queue
        yield unit.close()
        version = plan_seed.version + 1
        plan_seed = replace(plan_seed, version=version, log_head=unit.plan.log)


def _settle(plan_seed: PlanSeed, goal: Goal, planned: tuple[PlannedStep, ...]) -> tuple[PlannedStep, ...]:
    """Let features sort the steps of a draft, and set the fields that each feature decides."""
    for arrange in pipeline.ARRANGED:
        planned = arrange(plan_seed, planned)
    for settle in pipeline.DRAFTED:
        planned = settle(goal, planned)
    return planned


def _ask(plan_seed: PlanSeed, goal: Goal, draft: Draft, question: Question) -> Changeset:
    unit = _begin(plan_seed, goal, draft)
    _book(unit, draft)
    waits.ask(unit, question)
    return advance(unit)


def await_draft(plan_seed: PlanSeed, goal: Goal, patience_ms: int) -> Changeset:
    """Return the commit of a plan that waits for a drafter in CREATED: it is visible and can be cancelled.

    After `patience_ms` without a plan it becomes REJECTED.
    """
    unit = _begin(plan_seed, goal, Draft(()))
    unit.born = {**unit.born, "patience_ms": patience_ms}
    waits.await_draft(unit, patience_ms)
    return advance(unit)


def refuse(plan_seed: PlanSeed, goal: Goal, answer: Rejected) -> Changeset:
    """Return the commit that stores a REJECTED plan with all errors, for its producer."""
    unit = _begin(
        plan_seed, answer.goal or goal, Draft((), findings=answer.findings, tokens=answer.tokens, read=answer.read)
    )
    budget.book(unit.plan, answer.tokens)
    errors = [error.model_dump() for error in answer.errors]
    halt.reject(unit, answer.reason, {"errors": errors}, answer.reason)
    return unit.close()


def _book(unit: UnitOfWork, draft: Draft) -> None:
    """Book the draft's tokens and count the draft, in the one commit that makes a plan of it."""
    budget.book(unit.plan, draft.tokens)
    head = unit.plan.head
    if draft.counted and (name := plan_history(head.kind, head.tenant, head.repo)):
        unit.change.history.append(HistoryChange(name, draft.counted, draft.seen, 1))


def _begin(
    plan_seed: PlanSeed, goal: Goal, draft: Draft, expected: Expected = NO_STEPS, *, announced: bool = True
) -> UnitOfWork:
    """Return the unit of work for a commit that creates the plan.

    With `announced` the commit also writes the constant parts of the plan, and emits its first events.
    """
    context = goal.context
    head = PlanHead(
        goal_id=plan_seed.goal_id,
        kind=goal.kind.value,
        tenant=goal.tenant,
        repo=context.repo,
        seed=plan_seed.seed,
        context={
            "repo": context.repo,
            "base_sha": context.base_sha,
            "failing_tests": context.failing_tests[:20],
            **({} if context.instructions is None else {"instructions": context.instructions}),
        },
        limits=_limits(plan_seed, goal, draft, expected),
        approvals=[level.value for level in budget.approvals_of(goal, plan_seed.policy)],
        policy_version=plan_seed.policy_version,
        tools=[dict(tool) for tool in draft.tools],
        streak=draft.streak,
        policy=plan_seed.policy.digest or None,
        traceparent=plan_seed.traceparent,
        cache=list(draft.cache) if draft.cache else None,
        forbidden=list(draft.forbidden) or None,
        tested=_runs_tests(draft) or None,
    )
    record = PlanRecord(
        version=plan_seed.version,
        state=P.CREATED.value,
        head=head,
        reserved=dict.fromkeys(USAGE_NAMES, 0),
        spent=dict.fromkeys(USAGE_NAMES, 0),
        counts={},
        times={"created": plan_seed.created or plan_seed.now, "down": plan_seed.down},
        revision=1,
        log=copy(plan_seed.log_head) if plan_seed.log_head else LogHead(),
    )
    for recall in pipeline.RECALLS:
        if found := plan_seed.recalled.get(recall.name):
            recall.begin(record, found)
    snapshot = Snapshot(
        plan_id=plan_seed.plan_id,
        now=plan_seed.now,
        record=record,
        steps={},
        windows={},
        active={},
        ready=[],
        todo=[],
        reply_to=plan_seed.reply_to,
        lease_prefix=plan_seed.lease_prefix,
        standing=plan_seed.standing,
        paused_queues=plan_seed.paused_queues,
        grants=plan_seed.grants,
        full=plan_seed.full,
        policy=plan_seed.policy,
        code=plan_seed.code,
        claims=plan_seed.claims,
        same=plan_seed.same,
    )
    unit = UnitOfWork(snapshot)
    if announced:
        _announce(unit, plan_seed, goal, draft)
        if plan_seed.unknown.pointers and plan_seed.version == 0:
            unit.emit("goal.unknown_fields", plan_seed.unknown._asdict())
    return unit


def _runs_tests(draft: Draft) -> bool:
    catalogue = catalogue_of([dict(tool) for tool in draft.tools])
    return any(suite_of(step, catalogue) for step in draft.steps)


def _limits(plan_seed: PlanSeed, goal: Goal, draft: Draft, expected: Expected) -> dict[str, int | None]:
    """Return the limits of a plan, its switches included."""
    limits = budget.limits_of(goal, plan_seed.policy, expected)
    for limits_of in pipeline.LIMITS:
        limits |= limits_of(plan_seed, goal, draft)
    return limits


def _left_out(part: Any, unkept: Any, pointer: str = "") -> Iterator[str]:
    """Yield a JSON pointer to each part of a goal that has a value and is not stored.

    `unkept` names these parts; if it is a mapping, its values name parts below its keys.
    """
    for name in sorted(unkept):
        below = unkept[name] if isinstance(unkept, dict) else True
        if value := getattr(part, name):
            if below is True:
                yield f"{pointer}/{name}"
            else:
                yield from _left_out(value, below, f"{pointer}/{name}")


def _announce(unit: UnitOfWork, plan_seed: PlanSeed, goal: Goal, draft: Draft) -> None:
    plan = unit.plan
    plan.dirty.update(("state", "head", "live"))
    body = goal.model_dump(mode="json", exclude={**UNKEPT, "traceparent": True}, exclude_defaults=True)
    unit.extra = {
        "kind": goal.kind.value.encode(),
        "goal_id": plan.head.goal_id.encode(),
        "policy_version": str(plan.head.policy_version).encode(),
        "text": fit(goal.goal, SHOWN_CHARS, as_written).encode(errors="replace"),
        "goal": codec.dumps(body),
        "left_out": " ".join(_left_out(goal, UNKEPT)).encode(),
    }
    if goal.retry_of:
        unit.extra["retry_of"] = goal.retry_of.encode()
    if goal.callback:
        unit.extra["callback"] = goal.callback.encode()
    for begin in pipeline.AT_BIRTH:
        begin(unit, plan_seed, goal, draft)
    unit.keep_notes(draft.notes)
    if draft.state is None:
        unit.extra["document"] = codec.dumps(draft.document)
    else:
        expansion.begin(unit, goal, draft)
    if plan.version == 0:
        unit.change.tenant = plan.head.tenant
        unit.emit("goal.received", {})
    if unit.snapshot.grants:
        unit.extra["quota"] = "\n".join(unit.snapshot.grants).encode()
    if draft.findings:
        unit.emit("goal.sanitized", {"count": len(draft.findings), "classes": sorted(set(draft.findings))})
    if draft.phases:
        expansion.emit_phases(unit, draft.phases)
    unit.born = birth_data(unit, draft)
