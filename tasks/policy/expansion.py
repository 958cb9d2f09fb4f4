"""A plan that goes on from what its steps answer: its strategy hears of every end, within the commit.

What it adds is validated, counted, versioned and logged like a revision; a strategy widens no allowlist and no budget.
Steps that are put into a plan bring their records, their dependents and their places in the ready queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

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
from tasks.plan.unit_of_work import Fold
from tasks.policy import halt, requests
from tasks.policy.outcome_verdict import fit_evidence
from tasks.policy.pre_steps import looks_prepared
from tasks.rules.strategy import MAX_UNFOLDED, Draft, End, Growth, Phase, Unfolding, Unfolds
from tasks.rules.validation import max_steps, validate
from tasks.strategies.registry import strategy_of
from tasks.text.forbidden_paths import JUDGED
from tasks.text.paths import expand_globs
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.catalogue_snapshot import catalogue_of

NOBODY: Mapping[str, Any] = MappingProxyType({})
FIRST_LOOK_MS = 60_000  # a wider order that came while the plan was made may not have reached it
KINDS = {kind.value: True for kind in GoalKind}
DROPPED: dict[str, Any] = {  # of the goal, for what a plan unfolds to
    **dict.fromkeys(("steps", *(kind for kind in KINDS if kind != GoalKind.TASK)), True),
    "context": {"documents", "failure_log", "manifests", "files"},
}


def begin(fold: Fold, goal: Goal, draft: Draft) -> None:
    """Keep what the strategy will need, with the goal's allowlist as literal paths."""
    allowed = list(expand_globs(goal.allowed_files, goal.context.files, forbidden=JUDGED).files)
    told = goal.model_dump(mode="json", exclude=DROPPED, exclude_defaults=True) | {"allowed_files": allowed}
    kept = Goal.model_validate(told, extra="ignore").model_dump(mode="json", exclude_defaults=True)
    ids = [step.step_id for step in draft.steps]
    fold.grow(goal=kept, state=draft.state, document=draft.document, ids=ids, page=None)


def open_plan(fold: Fold) -> None:
    """Open the finished plan: READY, its wall clock running."""
    fold.move_plan(P.VALIDATING.value, "validating")
    fold.move_plan(P.READY.value, "ready")
    fold.plan.times["ready"] = fold.view.now
    fold.wake_at(fold.view.now + min(FIRST_LOOK_MS, 1000 * (fold.plan.limits["wall_clock_s"] or 0)))


def tell_phases(fold: Fold, phases: Iterable[Phase]) -> None:
    """Tell the phases that a strategy went through."""
    for phase in phases:
        fold.tell("plan.phase", {"phase": phase.name, "status": phase.status})


def hear(fold: Fold) -> None:
    """Have the strategy hear of every step that has ended. Raises NeedsSteps where the slice lacks their specs."""
    while fold.ends:
        step = fold.ends.pop(0)
        if fold.plan.state in PLAN_ENDS:
            continue
        if step.spec is None:
            raise NeedsSteps(frozenset({step.step_id}))
        if not step.facts["inserted_by"]:
            found = _strategy(fold).advance(_growth(fold), _end(fold, step), _catalogue(fold))
            if found:
                _unfold(fold, found)


def refusal(fold: Fold, step: Step, outcome: Outcome) -> dict[str, Any] | None:
    """Say why an attempt that succeeded failed all the same: what it answered is no use to the strategy."""
    if fold.growth is None or step.facts["inserted_by"]:
        return None
    why = _strategy(fold).refusal(_growth(fold), step.facts, outcome.output)
    if why is None:
        return None
    fold.inputs.append(["output refused", step.step_id, step.status.attempt, fit_evidence(why)])
    return PreviousFailure(category=FailureCategory.OUTPUT_REFUSED.value, suggestion=fit_evidence(why)).model_dump()


def answer(fold: Fold, value: Any, who: Mapping[str, Any]) -> str | None:
    """Unfold from a person's answer; returns why it is none, and then the question stays.

    `who` goes into the evidence if that ends the plan.
    """
    if fold.growth is None:
        return "a drafter is asked, and nobody else can answer"
    found = _strategy(fold).answer(_growth(fold), value, _catalogue(fold))
    if isinstance(found, str):
        return found
    requests.settle(fold)
    _unfold(fold, found, who)
    return None


def rescue(fold: Fold) -> bool:
    """Go on where steps failed and nothing else can run, if the strategy knows how."""
    found = _strategy(fold).stuck(_growth(fold), _catalogue(fold)) if fold.growth else None
    if found:
        _unfold(fold, found)
    return found is not None


def input_for(fold: Fold, step: Step) -> Mapping[str, Any] | None:
    """Say what an attempt of `step` is given beside its spec."""
    return _strategy(fold).input_for(_growth(fold), step.facts) if fold.growth else None


def _strategy(fold: Fold) -> Unfolds:
    return cast("Unfolds", strategy_of(GoalKind(fold.plan.head.kind)))


def _catalogue(fold: Fold) -> Catalogue:
    return catalogue_of(fold.plan.head.tools, fold.plan.head.policy_version)


def _growth(fold: Fold) -> Growth:
    kept = fold.growth or {}
    goal = Goal.model_validate(kept["goal"])
    head = fold.plan.head
    return Growth(goal, kept["state"], kept["document"], fold.view.now, head.tools, head.policy_version)


def _end(fold: Fold, step: Step) -> End:
    said = fold.answers.get(step.step_id)
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


def _unfold(fold: Fold, found: Unfolding, who: Mapping[str, Any] = NOBODY) -> None:
    fold.grow(state=_with_unknown(found.state, (fold.growth or {}).get("state") or {}), document=found.document)
    tell_phases(fold, found.phases)
    if found.halt:
        rule, reason, evidence = found.halt
        halt.halt(fold, rule, reason, {**evidence, **who})
    elif errors := _errors(fold, found):
        told = [error.model_dump() for error in errors]
        halt.halt(fold, "invalid_unfolding", f"{errors[0].message} ({found.why})", {"errors": told, **who})
    else:
        if found.steps:
            _add(fold, found)
        if found.question:
            requests.ask(fold, found.question)


def _with_unknown(state: Mapping[str, Any], before: Mapping[str, Any]) -> Mapping[str, Any]:
    """Keep what a newer version added to a state; a strategy that leaves an empty one needs none any more."""
    return {**state, **{name: value for name, value in before.items() if name not in state}} if state else state


def _errors(fold: Fold, found: Unfolding) -> Sequence[FieldError]:
    """Judge what is added as any plan is judged, and against what the plan has already."""
    if not found.steps:
        if fold.plan.state == P.CREATED and not found.question:
            return (FieldError(pointer="/steps", code="no_steps", message="Nothing came of the answer."),)
        return ()
    goal, known = _growth(fold).goal, {*(fold.growth or {})["ids"]}
    errors = list(validate(goal, found.steps, _catalogue(fold), JUDGED))
    total, most = sum(fold.plan.counts.values()) + len(found.steps), max_steps(goal)
    if total > most:
        message = f"The plan would have {total} steps and may have {most}; raise limits.max_steps."
        errors.append(FieldError(pointer="/steps", code="too_many_steps", message=message))
    if len(found.steps) > MAX_UNFOLDED:
        message = f"{len(found.steps)} steps cannot be added at once; {MAX_UNFOLDED} can."
        errors.append(FieldError(pointer="/steps", code="too_many_steps", message=message))
    for index, step in enumerate(found.steps):
        if step.step_id in known:
            message = f"The plan has had a step {step.step_id!r} before."
            errors.append(FieldError(pointer=f"/steps/{index}/step_id", code="duplicate_step_id", message=message))
    return errors


def _add(fold: Fold, found: Unfolding) -> None:
    plan, ids = fold.plan, [step.step_id for step in found.steps]
    if found.replaces:
        plan.halting["replaced"] = _not_done(fold)
    total = sum(plan.counts.values())
    _begin_revision(fold, found.why)
    fold.grow(ids=[*(fold.growth or {})["ids"], *ids])
    if taken := [step_id for step_id in ids if looks_prepared(step_id)]:
        plan.halting["taken"] = [*plan.halting.get("taken", ()), *taken]
    steps = [new_step(total + place, step) for place, step in enumerate(found.steps)]
    insert(fold, steps, dependents_of(found.steps))
    _tell(fold, found.why, ids, found.steps)


def _not_done(fold: Fold) -> int:
    counts = fold.plan.counts
    failed: int = counts.get(S.FAILED.value, 0) + counts.get(S.SKIPPED.value, 0)
    return failed - int(fold.plan.halting.get("skipped_by_operator", 0))


def _begin_revision(fold: Fold, why: str) -> None:
    plan = fold.plan
    if plan.state == P.CREATED:
        waited = {"rested": plan.times["created"], "went_on": fold.view.now}
        plan.times.update(lost=0, outages=0, **waited)  # outages while it waited lengthen no wall clock
        open_plan(fold)
        fold.change.settles = GoalVerdict.PLANNED.value
        return
    plan.revision += 1
    if plan.state == P.READY:  # its first step was skipped
        plan.times["started"] = fold.view.now
        fold.move_plan(P.EXECUTING.value, "executing")
    fold.move_plan(P.REVISING.value, "revising", reason=why)
    fold.move_plan(P.EXECUTING.value, "revised")


def _tell(fold: Fold, why: str, ids: Sequence[str], steps: Sequence[PlannedStep]) -> None:
    plan = fold.plan
    told = {
        "revision": plan.revision,
        "policy_version": plan.head.policy_version,
        "rule": "unfolding",
        "count": len(steps),
        "diff": {"added": list(ids)},
    }
    fold.revisions.append({**told, "why": why})
    fold.tell("plan.unfolded", told, why)


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


def insert(fold: Fold, steps: Sequence[Step], dependents: dict[str, list[str]]) -> None:
    """Put steps into the plan; those that wait for nothing are ready."""
    counts = fold.plan.counts
    for step in steps:
        state = step.status.state
        counts[state] = counts.get(state, 0) + 1
        fold.touched[step.step_id] = fold.view.steps[step.step_id] = step
        fold.change.specs.update(_stored(step, dependents.get(step.step_id, ())))
        if state == S.PENDING:
            fold.make_ready(step)
    fold.plan.dirty.add("live")


def _stored(step: Step, dependents: Sequence[str]) -> dict[str, bytes]:
    """Lay out a step for the store: its spec, and its dependents in windows of WINDOW ids."""
    stored = {step.step_id: step.spec or b""}
    for number, window in enumerate(batches(dependents, WINDOW)):
        stored[f">{step.step_id}:{number}"] = " ".join(window).encode()
    return stored
