"""Expands a plan from the answers of its steps: the plan's strategy learns of each end of a step, in the same commit.

Added steps are validated, counted, versioned and logged like a revision. A strategy widens no allowlist and no budget.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from schemas.base import FailureCategory, GoalKind, GoalVerdict
from schemas.base import PlanState as P
from schemas.base import StepState as S
from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.outcome import Outcome
from schemas.step import PreviousFailure
from tasks.base.errors import NeedsSteps
from tasks.plan.cached_draft import DRAFT_NOTE, PUT, may_keep
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork, dependents_of
from tasks.policy import halt, waits
from tasks.policy.halt_rules import AT_ONCE
from tasks.policy.outcome_verdict import fit_evidence
from tasks.policy.pipeline import (
    ADDED,
    INPUT,
    JUDGES,
    LIMITS,
    REFUSALS,
    REFUSE_ADDED,
    Failure,
    Feature,
    Judgement,
    switched,
)
from tasks.policy.pre_steps import is_mend, looks_inserted
from tasks.rules.budget import bind
from tasks.rules.judging import judges_by_holdout
from tasks.rules.permission import expand_allowed, under
from tasks.rules.strategy import MAX_EXPANSION, Blocked, Draft, End, Expansion, LivePlan, Phase, Strategy
from tasks.rules.validation import max_steps, validate
from tasks.strategies.drafting.members import kept_manifests
from tasks.strategies.registry import strategy_of
from tasks.text.blocked_report import blocked_report
from tasks.text.forbidden_paths import JUDGED
from tasks.text.paths import clean, is_glob
from tasks.toolchain.catalogue import Catalogue, catalogue_of

MAX_MANIFESTS = 16_000  # stored characters of them
BLOCKED = "BLOCKED"  # prefix of the reason of a step whose controller could not go on
NOBODY: Mapping[str, Any] = MappingProxyType({})
KINDS = {kind.value: True for kind in GoalKind}
DROPPED: dict[str, Any] = {  # fields of the goal that expansion does not need
    **dict.fromkeys(("steps", *(kind for kind in KINDS if kind != GoalKind.TASK)), True),
    "context": {"documents", "failure_log", "manifests", "files"},
}


def begin(unit: UnitOfWork, goal: Goal, draft: Draft) -> None:
    """Store the strategy's data, with the goal's allowlist as literal paths.

    The allowlist of a task also keeps its globs, because steps of a template use them to make changes.
    """
    listed = expand_allowed(goal.allowed_files, goal.context.files, JUDGED).files
    made = (path for step in draft.steps for path in step.allowed_files)  # by globs, before there are such files
    globs = (path for path in map(clean, goal.allowed_files) if is_glob(path) and goal.kind is GoalKind.TASK)
    allowed = {"allowed_files": list(dict.fromkeys((*globs, *listed, *made)))}
    fields = goal.model_dump(mode="json", exclude=DROPPED, exclude_defaults=True) | allowed
    if manifests := kept_manifests(goal.context, MAX_MANIFESTS):
        fields["context"] = {**fields.get("context", {}), "manifests": manifests}
    kept = Goal.model_validate(fields, extra="ignore").model_dump(mode="json", exclude_defaults=True)
    ids = [step.step_id for step in draft.steps]
    unit.keep_strategy_state(goal=kept, state=draft.state, document=draft.document, ids=ids, page=None)


def emit_phases(unit: UnitOfWork, phases: Iterable[Phase]) -> None:
    """Emit the phases of a strategy."""
    for phase in phases:
        unit.emit("plan.phase", {"phase": phase.name, "status": phase.status})


def on_steps_ended(unit: UnitOfWork) -> None:
    """Pass every ended step to the strategy. Raises NeedsSteps if the snapshot lacks their specs."""
    while unit.ends:
        step = unit.ends.pop(0)
        if unit.plan.state in PLAN_ENDS or unit.is_delivering:
            continue
        if step.spec is None:
            raise NeedsSteps(frozenset({step.step_id}))
        if (step.facts["inserted_by"] and not is_mend(step.facts)) or judges_by_holdout(step.facts):
            continue
        said = unit.answers.get(step.step_id)
        end = End(
            step_id=step.step_id,
            facts=step.facts,
            state=step.status.state,
            output=said.output if said else None,
            touched_files=_touched(step, said),
            failure=step.status.previous,
            tool_calls=said.metrics.tool_calls if said and said.metrics else None,
            attempt=step.status.attempt or None,
            evaluation=(said.evaluation if said else None) or {},
            commit=said.commit if said else None,
        )
        strategy, live, catalogue = _strategy(unit)
        if found := strategy.advance(live, end, catalogue):
            if found.is_drafted and (unit.plan.head.cache or [None])[0] == PUT and may_keep(end.output):
                unit.keep_note(DRAFT_NOTE, {**(unit.note(DRAFT_NOTE) or {}), "output": end.output})
            _expand(unit, found)


def _touched(step: Step, said: Outcome | None) -> tuple[str, ...]:
    """Return the files that an attempt changed; a repair that reports none may have changed all of its files."""
    if said is None or said.tells("touched_files") or not step.facts["inserted_by"]:
        return said.touched_files if said else ()
    return tuple(step.facts["allowed_files"])


def refuse(unit: UnitOfWork, seen: Judgement) -> Failure | None:
    """Return the failure of a success whose answer the strategy cannot use; None if it can."""
    step = seen.step
    why = None if step.facts["finds_places"] else refusal(unit, seen)
    if why is None:
        return None
    unit.inputs.append(["output refused", step.step_id, step.status.attempt, why])
    return PreviousFailure(category=FailureCategory.OUTPUT_REFUSED.value, suggestion=why).model_dump()


def refusal(unit: UnitOfWork, seen: Judgement) -> str | None:
    """Return why the strategy cannot use a step's answer; None if it can, or if the step is not of the strategy."""
    facts = seen.step.facts
    if not unit.strategy_state or facts["inserted_by"] or judges_by_holdout(facts):
        return None
    strategy, live, _ = _strategy(unit)
    why = strategy.refusal(live, facts, seen.outcome.output)
    return None if why is None or isinstance(why, Blocked) else fit_evidence(why)


def block(unit: UnitOfWork, seen: Judgement) -> bool:
    """End a step whose controller reports that it cannot go on; False without such a report, or without a strategy."""
    step, outcome, failure = seen.step, seen.outcome, seen.failure
    if not unit.strategy_state or (failure and failure["category"] in AT_ONCE):
        return False
    if step.facts["inserted_by"] or judges_by_holdout(step.facts) or blocked_report(outcome.output) is None:
        return False
    strategy, live, _ = _strategy(unit)
    why = strategy.refusal(live, step.facts, outcome.output)
    if not isinstance(why, Blocked):
        return False
    unit.end_step(step, S.FAILED.value, "failed", f"{BLOCKED}: {why.reason}")
    return True


def goes_on_without(unit: UnitOfWork, step: Step) -> bool:
    """Return whether the strategy would go on if `step` failed for good now.

    If `step` was inserted before another step, that other step counts as failed. Raises NeedsSteps if the snapshot
    lacks that step.
    """
    ended = step
    if origin := step.facts["inserted_by"]:
        found = unit.snapshot.steps.get(origin)
        if found is None or found.spec is None:
            raise NeedsSteps(frozenset({origin}))
        ended = found
    strategy, live, catalogue = _strategy(unit)
    end = End(ended.step_id, ended.facts, S.FAILED.value, failure=step.status.previous)
    if noted := strategy.advance(live, end, catalogue):
        live = replace(live, state=noted.state, document=noted.document)
    return strategy.stuck(live, catalogue) is not None


def answer(unit: UnitOfWork, value: Any, who: Mapping[str, Any]) -> str | None:
    """Expand the plan from a person's answer; returns why the answer is invalid, and then the question stays.

    `who` becomes part of the evidence if the answer ends the plan.
    """
    if unit.strategy_state is None:
        return "a drafter is asked, and no command can answer for it"
    strategy, live, catalogue = _strategy(unit)
    found = strategy.answer(live, value, catalogue)
    if isinstance(found, str):
        return found
    unit.plan.question = None
    if unit.plan.counters.consecutive:
        unit.plan.counters.asked = True
    unit.plan.dirty.add("live")
    _expand(unit, found, who)
    return None


def rescue(unit: UnitOfWork) -> bool:
    """Let the strategy go on after steps failed and nothing else can run; returns whether it did."""
    strategy, live, catalogue = _strategy(unit)
    found = strategy.stuck(live, catalogue)
    if found:
        _expand(unit, found)
    return found is not None


def input_for(unit: UnitOfWork, step: Step) -> Mapping[str, Any] | None:
    """Return the input of an attempt of `step` from the strategy, in addition to its spec."""
    if not unit.strategy_state or unit.is_delivering:
        return None
    strategy, live, _ = _strategy(unit)
    return strategy.input_for(live, step.facts)


def _strategy(unit: UnitOfWork) -> tuple[Strategy, LivePlan, Catalogue]:
    """Return the strategy of a plan that expands, the plan as the strategy sees it, and its catalogue."""
    head, kept = unit.plan.head, unit.strategy_state or {}
    goal = bind(Goal.model_validate(kept["goal"]), unit.snapshot.policy)
    about = (kept["state"], kept["document"], unit.snapshot.now, head.tools, unit.snapshot.plan_id)
    live = LivePlan(goal, *about, steps=sum(unit.plan.counts.values()))
    return strategy_of(GoalKind(head.kind)), live, catalogue_of(head.tools)


def _expand(unit: UnitOfWork, found: Expansion, who: Mapping[str, Any] = NOBODY) -> None:
    before = (unit.strategy_state or {}).get("state") or {}
    # Fields of newer versions stay, unless the strategy leaves an empty state and needs none any more.
    unknown = {name: value for name, value in before.items() if found.state and name not in found.state}
    unit.keep_strategy_state(state={**found.state, **unknown}, document=found.document)
    emit_phases(unit, found.phases)
    if found.halt:
        rule, reason, evidence = found.halt
        halt.halt(unit, rule, reason, {**evidence, **who})
    elif errors := _errors(unit, found):
        evidence = {"errors": [error.model_dump() for error in errors], **who}
        halt.halt(unit, "invalid_unfolding", f"{errors[0].message} ({found.why})", evidence)
    elif not any(refuse_added(unit, found.steps, found.why, who) for refuse_added in REFUSE_ADDED):
        if found.steps:
            _add(unit, found)
        if found.question:
            waits.ask(unit, found.question)


def _errors(unit: UnitOfWork, found: Expansion) -> Sequence[FieldError]:
    """Return the errors of added steps: by the validator, by the limits, and for ids that the plan has had before."""
    if not found.steps:
        if unit.plan.state == P.CREATED and not found.question:
            return (FieldError(pointer="/steps", code="no_steps", message="The answer has no steps."),)
        return ()
    _, live, catalogue = _strategy(unit)
    errors = list(validate(live.goal, found.steps, catalogue, JUDGED))
    total, most = sum(unit.plan.counts.values()) + len(found.steps), max_steps(live.goal)
    if total > most:
        message = f"The plan would have {total} steps and may have {most}; raise limits.max_steps."
        errors.append(FieldError(pointer="/steps", code="too_many_steps", message=message))
    if len(found.steps) > MAX_EXPANSION:
        message = f"{len(found.steps)} steps cannot be added at once; {MAX_EXPANSION} can."
        errors.append(FieldError(pointer="/steps", code="too_many_steps", message=message))
    known = {*(unit.strategy_state or {})["ids"]}
    for index, step in enumerate(found.steps):
        if step.step_id in known:
            message = f"The plan has had a step {step.step_id!r} before."
            errors.append(FieldError(pointer=f"/steps/{index}/step_id", code="duplicate_step_id", message=message))
    return errors


def _add(unit: UnitOfWork, found: Expansion) -> None:
    plan, ids = unit.plan, [step.step_id for step in found.steps]
    if found.replaces:
        failed = plan.counts.get(S.FAILED.value, 0) + plan.counts.get(S.SKIPPED.value, 0)
        plan.structure.replaced = failed - plan.structure.skipped
    total = sum(plan.counts.values())
    steps = under(plan.head.forbidden or (), found.steps)
    for add in ADDED:
        steps = add(unit, steps)
    if plan.state == P.CREATED:
        waited = {"rested": plan.times["created"], "went_on": unit.snapshot.now}
        plan.times.update(lost=0, outages=0, **waited)  # outages during the wait do not extend the wall clock
        unit.open_plan()
        unit.change.settles = GoalVerdict.PLANNED.value
    else:
        unit.pass_revising(found.why)
    unit.keep_strategy_state(ids=[*(unit.strategy_state or {})["ids"], *ids])
    if taken := [step_id for step_id in ids if looks_inserted(step_id)]:
        plan.structure.taken += taken
    unit.insert(steps, total, dependents_of(steps))
    unit.log_added(ids, "unfolding", found.why)


EXPANDS = attrgetter("strategy_state")
FEATURE = Feature(
    "expansion",
    (
        LIMITS.row(switched(waits.ANSWER_WAIT)),
        JUDGES.row(block, only=EXPANDS),
        REFUSALS.row(refuse, only=EXPANDS),
        INPUT.row(input_for, only=EXPANDS),
    ),
    events=("plan.phase",),
    is_idle=lambda plan: not plan.strategy_state,
)
