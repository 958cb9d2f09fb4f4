"""A plan that goes on from what its steps answer: its strategy hears of every end, within the commit.

What it adds is validated, counted, versioned and logged like a revision; a strategy widens no allowlist and no budget.
Steps that are put into a plan bring their records, their dependents and their places in the ready queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from schemas.base import FailureCategory, GoalKind, GoalVerdict
from schemas.base import PlanState as P
from schemas.base import StepState as S
from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.outcome import Outcome
from schemas.step import PlannedStep, PreviousFailure, pack_step
from schemas.stored import StepStatus
from tasks.base.batches import batches
from tasks.base.errors import NeedsSteps
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.plan.snapshot import WINDOW, Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import halt, requests
from tasks.policy.outcome_verdict import fit_evidence
from tasks.policy.pre_steps import looks_prepared
from tasks.rules.strategy import MAX_EXPANSION, Draft, End, Expansion, LivePlan, Phase, Strategy
from tasks.rules.validation import max_steps, validate
from tasks.strategies.registry import strategy_of
from tasks.text.forbidden_paths import JUDGED
from tasks.text.paths import expand_globs
from tasks.toolchain.catalogue import Catalogue, catalogue_of

NOBODY: Mapping[str, Any] = MappingProxyType({})
FIRST_LOOK_MS = 60_000  # a wider order that came while the plan was made may not have reached it
KINDS = {kind.value: True for kind in GoalKind}
DROPPED: dict[str, Any] = {  # of the goal, for what a plan expands to
    **dict.fromkeys(("steps", *(kind for kind in KINDS if kind != GoalKind.TASK)), True),
    "context": {"documents", "failure_log", "manifests", "files"},
}


def begin(unit: UnitOfWork, goal: Goal, draft: Draft) -> None:
    """Keep what the strategy will need, with the goal's allowlist as literal paths."""
    allowed = list(expand_globs(goal.allowed_files, goal.context.files, forbidden=JUDGED).files)
    told = goal.model_dump(mode="json", exclude=DROPPED, exclude_defaults=True) | {"allowed_files": allowed}
    kept = Goal.model_validate(told, extra="ignore").model_dump(mode="json", exclude_defaults=True)
    ids = [step.step_id for step in draft.steps]
    unit.grow(goal=kept, state=draft.state, document=draft.document, ids=ids, page=None)


def open_plan(unit: UnitOfWork) -> None:
    """Open the finished plan: READY, its wall clock running."""
    unit.move_plan(P.VALIDATING.value, "validating")
    unit.move_plan(P.READY.value, "ready")
    unit.plan.times["ready"] = unit.snapshot.now
    unit.wake_at(unit.snapshot.now + min(FIRST_LOOK_MS, 1000 * (unit.plan.limits["wall_clock_s"] or 0)))


def tell_phases(unit: UnitOfWork, phases: Iterable[Phase]) -> None:
    """Tell the phases that a strategy went through."""
    for phase in phases:
        unit.emit("plan.phase", {"phase": phase.name, "status": phase.status})


def on_steps_ended(unit: UnitOfWork) -> None:
    """Have the strategy hear of every step that has ended. Raises NeedsSteps where the snapshot lacks their specs."""
    while unit.ends:
        step = unit.ends.pop(0)
        if unit.plan.state in PLAN_ENDS:
            continue
        if step.spec is None:
            raise NeedsSteps(frozenset({step.step_id}))
        if not step.facts["inserted_by"]:
            found = _strategy(unit).advance(_live_plan(unit), _end(unit, step), _catalogue(unit))
            if found:
                _expand(unit, found)


def refusal(unit: UnitOfWork, step: Step, outcome: Outcome) -> dict[str, Any] | None:
    """Say why an attempt that succeeded failed all the same: what it answered is no use to the strategy."""
    if unit.growth is None or step.facts["inserted_by"]:
        return None
    why = _strategy(unit).refusal(_live_plan(unit), step.facts, outcome.output)
    if why is None:
        return None
    unit.inputs.append(["output refused", step.step_id, step.status.attempt, fit_evidence(why)])
    return PreviousFailure(category=FailureCategory.OUTPUT_REFUSED.value, suggestion=fit_evidence(why)).model_dump()


def answer(unit: UnitOfWork, value: Any, who: Mapping[str, Any]) -> str | None:
    """Expand from a person's answer; returns why it is none, and then the question stays.

    `who` goes into the evidence if that ends the plan.
    """
    if unit.growth is None:
        return "a drafter is asked, and nobody else can answer"
    found = _strategy(unit).answer(_live_plan(unit), value, _catalogue(unit))
    if isinstance(found, str):
        return found
    requests.settle(unit)
    _expand(unit, found, who)
    return None


def rescue(unit: UnitOfWork) -> bool:
    """Go on where steps failed and nothing else can run, if the strategy knows how."""
    found = _strategy(unit).stuck(_live_plan(unit), _catalogue(unit)) if unit.growth else None
    if found:
        _expand(unit, found)
    return found is not None


def input_for(unit: UnitOfWork, step: Step) -> Mapping[str, Any] | None:
    """Say what an attempt of `step` is given beside its spec."""
    return _strategy(unit).input_for(_live_plan(unit), step.facts) if unit.growth else None


def _strategy(unit: UnitOfWork) -> Strategy:
    return strategy_of(GoalKind(unit.plan.head.kind))


def _catalogue(unit: UnitOfWork) -> Catalogue:
    return catalogue_of(unit.plan.head.tools, unit.plan.head.policy_version)


def _live_plan(unit: UnitOfWork) -> LivePlan:
    kept = unit.growth or {}
    goal = Goal.model_validate(kept["goal"])
    head = unit.plan.head
    return LivePlan(goal, kept["state"], kept["document"], unit.snapshot.now, head.tools, head.policy_version)


def _end(unit: UnitOfWork, step: Step) -> End:
    said = unit.answers.get(step.step_id)
    return End(
        step_id=step.step_id,
        facts=step.facts,
        state=step.status.state,
        output=said.output if said else None,
        touched_files=said.touched_files if said else (),
        failure=step.status.previous,
        tool_calls=said.metrics.tool_calls if said and said.metrics else None,
        attempt=step.status.attempt or None,
    )


def _expand(unit: UnitOfWork, found: Expansion, who: Mapping[str, Any] = NOBODY) -> None:
    unit.grow(state=_with_unknown(found.state, (unit.growth or {}).get("state") or {}), document=found.document)
    tell_phases(unit, found.phases)
    if found.halt:
        rule, reason, evidence = found.halt
        halt.halt(unit, rule, reason, {**evidence, **who})
    elif errors := _errors(unit, found):
        told = [error.model_dump() for error in errors]
        halt.halt(unit, "invalid_unfolding", f"{errors[0].message} ({found.why})", {"errors": told, **who})
    else:
        if found.steps:
            _add(unit, found)
        if found.question:
            requests.ask(unit, found.question)


def _with_unknown(state: Mapping[str, Any], before: Mapping[str, Any]) -> Mapping[str, Any]:
    """Keep what a newer version added to a state; a strategy that leaves an empty one needs none any more."""
    return {**state, **{name: value for name, value in before.items() if name not in state}} if state else state


def _errors(unit: UnitOfWork, found: Expansion) -> Sequence[FieldError]:
    """Judge what is added as any plan is judged, and against what the plan has already."""
    if not found.steps:
        if unit.plan.state == P.CREATED and not found.question:
            return (FieldError(pointer="/steps", code="no_steps", message="Nothing came of the answer."),)
        return ()
    goal, known = _live_plan(unit).goal, {*(unit.growth or {})["ids"]}
    errors = list(validate(goal, found.steps, _catalogue(unit), JUDGED))
    total, most = sum(unit.plan.counts.values()) + len(found.steps), max_steps(goal)
    if total > most:
        message = f"The plan would have {total} steps and may have {most}; raise limits.max_steps."
        errors.append(FieldError(pointer="/steps", code="too_many_steps", message=message))
    if len(found.steps) > MAX_EXPANSION:
        message = f"{len(found.steps)} steps cannot be added at once; {MAX_EXPANSION} can."
        errors.append(FieldError(pointer="/steps", code="too_many_steps", message=message))
    for index, step in enumerate(found.steps):
        if step.step_id in known:
            message = f"The plan has had a step {step.step_id!r} before."
            errors.append(FieldError(pointer=f"/steps/{index}/step_id", code="duplicate_step_id", message=message))
    return errors


def _add(unit: UnitOfWork, found: Expansion) -> None:
    plan, ids = unit.plan, [step.step_id for step in found.steps]
    if found.replaces:
        plan.halting["replaced"] = _not_done(unit)
    total = sum(plan.counts.values())
    _begin_revision(unit, found.why)
    unit.grow(ids=[*(unit.growth or {})["ids"], *ids])
    if taken := [step_id for step_id in ids if looks_prepared(step_id)]:
        plan.halting["taken"] = [*plan.halting.get("taken", ()), *taken]
    steps = [new_step(total + place, step) for place, step in enumerate(found.steps)]
    insert(unit, steps, dependents_of(found.steps))
    _tell(unit, found.why, ids, found.steps)


def _not_done(unit: UnitOfWork) -> int:
    counts = unit.plan.counts
    failed: int = counts.get(S.FAILED.value, 0) + counts.get(S.SKIPPED.value, 0)
    return failed - int(unit.plan.halting.get("skipped_by_operator", 0))


def _begin_revision(unit: UnitOfWork, why: str) -> None:
    plan = unit.plan
    if plan.state == P.CREATED:
        waited = {"rested": plan.times["created"], "went_on": unit.snapshot.now}
        plan.times.update(lost=0, outages=0, **waited)  # outages while it waited lengthen no wall clock
        open_plan(unit)
        unit.change.settles = GoalVerdict.PLANNED.value
        return
    plan.revision += 1
    if plan.state == P.READY:  # its first step was skipped
        plan.times["started"] = unit.snapshot.now
        unit.move_plan(P.EXECUTING.value, "executing")
    unit.move_plan(P.REVISING.value, "revising", reason=why)
    unit.move_plan(P.EXECUTING.value, "revised")


def _tell(unit: UnitOfWork, why: str, ids: Sequence[str], steps: Sequence[PlannedStep]) -> None:
    plan = unit.plan
    told = {
        "revision": plan.revision,
        "policy_version": plan.head.policy_version,
        "rule": "unfolding",
        "count": len(steps),
        "diff": {"added": list(ids)},
    }
    unit.revisions.append({**told, "why": why})
    unit.emit("plan.unfolded", told, why)


def new_step(index: int, planned: PlannedStep) -> Step:
    """Make the record of a step that nothing has happened to; `index` is its place among the plan's steps."""
    state = S.BLOCKED if planned.depends_on else S.PENDING
    status = StepStatus(len(set(planned.depends_on)), state.value, index)
    return Step(planned.step_id, pack_step(planned), status)


def dependents_of(steps: Sequence[PlannedStep]) -> dict[str, list[str]]:
    """Find for each step those that wait for it."""
    found: dict[str, list[str]] = {}
    for step in steps:
        for dependency in dict.fromkeys(step.depends_on):
            found.setdefault(dependency, []).append(step.step_id)
    return found


def insert(unit: UnitOfWork, steps: Sequence[Step], dependents: dict[str, list[str]]) -> None:
    """Put steps into the plan; those that wait for nothing are ready."""
    counts = unit.plan.counts
    for step in steps:
        state = step.status.state
        counts[state] = counts.get(state, 0) + 1
        unit.touched[step.step_id] = unit.snapshot.steps[step.step_id] = step
        unit.change.specs.update(_stored(step, dependents.get(step.step_id, ())))
        if state == S.PENDING:
            unit.make_ready(step)
    unit.plan.dirty.add("live")


def _stored(step: Step, dependents: Sequence[str]) -> dict[str, bytes]:
    """Lay out a step for the store: its spec, and its dependents in windows of WINDOW ids."""
    stored = {step.step_id: step.spec or b""}
    for number, window in enumerate(batches(dependents, WINDOW)):
        stored[f">{step.step_id}:{number}"] = " ".join(window).encode()
    return stored
