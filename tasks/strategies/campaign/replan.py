"""Replans a stuck campaign, once unless the operator sets another number.

Complete tasks stay. If the drafter is `queue`, a controller writes other tasks, and may add tasks. Otherwise each
blocked task is repeated after a step that finds the cause, together with all tasks that waited for it. A campaign
counts as stuck by the progress of its tasks, not by the number of ready tasks. So a chain of tasks is never stuck only
because one task is ready at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import count

from schemas.base import FailureCategory as C
from schemas.kinds.campaign import PlanTask, TaskStatus, TaskType
from tasks.rules.strategy import MAX_EXPANSION, Expansion, LivePlan
from tasks.strategies.campaign.document import document_with
from tasks.strategies.campaign.formulas import LEAST_BUDGET
from tasks.strategies.campaign.prompt import prompt_of
from tasks.strategies.campaign.sequence import depends_on, graph, kebab, merge, parents, sequence_phase
from tasks.strategies.campaign.state import CampaignScope, CampaignState, Setback, TaskProgress
from tasks.strategies.campaign.steps import (
    DRAFT,
    StepFrame,
    complete_tasks,
    drafting_step,
    redo_suffix,
    steps_of,
    tasks_of,
)
from tasks.strategies.campaign.verification import project_of

LEAST_UNREACHABLE = 2
MOST_REWRITTEN = 2  # repetitions of a task's tests
_BY_TESTS = frozenset(  # failures of a task that its tests may have caused
    {C.TEST_REGRESSION, C.TEST_TIMEOUT, C.IMPORT_ERROR, C.COMPILATION_ERROR, C.TYPE_ERROR, C.LINT_ERROR}
)


def draft_again(live: LivePlan, state: CampaignState, scope: CampaignScope) -> Expansion:
    """Add the step that asks a controller for other tasks."""
    prompt = prompt_of(state.known, scope, stuck=_situation(tasks_of(live.document), state.progress))
    waits = DRAFT + redo_suffix(state.replans)
    state = state.model_copy(update={"waits": waits, "prompt": prompt, "made": state.made + 1})
    step = drafting_step(scope.goal, state.terms.attempts, waits)
    why = "The campaign is stuck, and its tasks are drafted again."
    return Expansion(state.model_dump(mode="json"), live.document, why, (step,), replaces=True)


def with_tests_again(live: LivePlan, state: CampaignState) -> CampaignState:
    """Return the state after opening complete SPEC tasks again whose tests keep another task from passing."""
    tasks = {task.seq: task for task in tasks_of(live.document)}
    progress, complete = dict(state.progress), complete_tasks(state)
    fit_for = frozenset(seq for seq in complete if progress[seq].rewritten < MOST_REWRITTEN)
    for seq, each in state.progress.items():
        if each.blocked_by is None and each.setback and each.setback.category in (None, *_BY_TESTS):
            for spec in _blamed_specs(tasks, seq, each.setback, fit_for):
                progress[spec] = TaskProgress(before=each.setback, rewritten=state.progress[spec].rewritten + 1)
    return state.model_copy(update={"progress": progress})


def _blamed_specs(
    tasks: Mapping[str, PlanTask], seq: str, setback: Setback, complete: Collection[str]
) -> tuple[str, ...]:
    """Return the complete SPEC tasks before `seq` whose test files its failure or its controller's report names.

    If the failure names no test, these are the SPEC tasks that `seq` directly waits for.
    """
    waits = graph(tuple(tasks.values()))
    before = _all_before(seq, waits)
    specs = [name for name in before if name in complete and tasks[name].type is TaskType.SPEC]
    reported = (setback.tried, setback.unknown, setback.discovery)
    told = "\n".join(filter(None, (*setback.failing_tests, setback.trace, setback.reason, *reported)))
    named = tuple(
        name for name in specs if any(path in told for path in (*tasks[name].delta, *(tasks[name].creates or ())))
    )
    is_vague = setback.category is not None and not setback.failing_tests
    return named or (tuple(name for name in specs if name in waits[seq]) if is_vague else ())


def _all_before(seq: str, waits: Mapping[str, Sequence[str]]) -> list[str]:
    """Return all tasks that a task waits for, directly or through others."""
    before = list(waits[seq])
    for name in before:  # the list grows meanwhile
        before += (each for each in waits[name] if each not in before)
    return before


def replan_by_templates(live: LivePlan, state: CampaignState, scope: CampaignScope) -> Expansion | None:
    """Repeat all incomplete tasks, after steps that find the cause of each block.

    Return None if these are too many steps for one expansion, or if the graph would be invalid.
    """
    tasks = tasks_of(live.document)
    left = [task for task in tasks if task.seq not in complete_tasks(state)]
    blocked = set(_causes(state.progress)) - set(state.finding)
    merged = merge(tasks, _add_causes(tasks, left, blocked, state), complete_tasks(state))
    if isinstance(merged, str):
        return None
    fresh = tuple(task.seq for task in merged if task.seq not in state.progress)
    state = state.model_copy(update={"finding": (*state.finding, *fresh)})
    made = replan_with(live, state, merged, scope)
    return made if len(made.steps) <= MAX_EXPANSION else None


def replan_with(live: LivePlan, state: CampaignState, tasks: Sequence[PlanTask], scope: CampaignScope) -> Expansion:
    """Add steps for all of `tasks` that are not complete; complete tasks stay as they are."""
    left = [task for task in tasks if task.seq not in complete_tasks(state)]
    exploring = {task.seq for task in left} & set(state.finding)
    project = project_of(state.known, scope)
    before = _setbacks(tasks, state)
    frame = StepFrame(
        *(state.known, project, redo_suffix(state.replans), exploring, before, graph(tasks)),
        limits_calls=scope.terms.limits_calls,
    )
    made = steps_of(left, frame)
    steps = tuple(step for some in made.values() for step in some)
    fresh = {
        seq: TaskProgress(
            steps=tuple(step.step_id for step in some), before=before.get(seq), rewritten=_rewritten(state, seq)
        )
        for seq, some in made.items()
    }
    whole = state.made + len(steps)
    update = {"progress": {**state.progress, **fresh}, "waits": None, "prompt": None, "made": whole}
    state = state.model_copy(update=update)
    after = f", {len(exploring)} of them after a look for the cause" if exploring else ""
    why = f"{len(left) - len(exploring)} tasks come again or are new{after}."
    document = document_with(live.document or {}, tasks, state.progress)
    return Expansion(state.model_dump(mode="json"), document, why, steps, (sequence_phase(tasks),), replaces=True)


def _rewritten(state: CampaignState, seq: str) -> int:
    return state.progress[seq].rewritten if seq in state.progress else 0


def _setbacks(tasks: Sequence[PlanTask], state: CampaignState) -> dict[str, Setback]:
    """Return by task number the failure that its controller has to know.

    For a repeated task this is its own block. For a new task it is the block of the task that waits for it.
    """
    progress = state.progress
    found = {seq: progress[seq].before for seq in _again(progress)}
    causes = {
        seq: progress[seq].setback or Setback(task=seq, reason=reason) for seq, reason in _causes(progress).items()
    }
    for task in tasks:
        if task.seq in causes or task.seq in found:
            for seq in parents(task.depends):
                if seq not in progress:
                    found.setdefault(seq, causes.get(task.seq) or found.get(task.seq))
    return {seq: each for seq, each in (found | causes).items() if each}


def _again(progress: Mapping[str, TaskProgress]) -> list[str]:
    """Return the numbers of the complete SPEC tasks that are open again because of their tests."""
    return [seq for seq, each in progress.items() if _comes_again(each)]


def _comes_again(far: TaskProgress) -> bool:
    return far.before is not None and not far.steps and far.status is TaskStatus.PENDING


def _situation(tasks: Sequence[PlanTask], progress: Mapping[str, TaskProgress]) -> list[str]:
    """Return the state of a stuck campaign in lines: its counts, and each task with its result or its block."""
    counts = Counter(each.status for each in progress.values())
    summary = ", ".join(f"{counts[status]} {status.replace('_', ' ')}" for status in TaskStatus if counts[status])
    lines = [f"{summary} of {len(tasks)} tasks"]
    for task in tasks:
        far, waits = progress[task.seq], ", ".join(parents(task.depends)) or "nothing"
        what = f"{task.seq} {task.slug} ({task.type}; {', '.join(task.delta[:5]) or 'no files'}; waits for {waits})"
        blocked = f"waited for {far.blocked_by}" if far.blocked_by else far.reason
        if far.before and _comes_again(far):
            blocked = f"its tests may be wrong, since {far.before.task} cannot pass: {far.before.reason}"
        lines.append(": ".join(filter(None, (f"{what} is {far.status.replace('_', ' ')}", far.delivered or blocked))))
    return lines


def may_plan_again(state: CampaignState, with_tests: CampaignState) -> bool:
    """Return whether a stuck campaign may be replanned, if that can help.

    It may within the limit of the operator. Beyond this limit it may if `with_tests` opens complete SPEC tasks again.
    """
    if not state.terms.replans or not is_worth_it(state.progress):
        return False
    return state.replans < state.terms.replans or with_tests.progress != state.progress


def is_worth_it(progress: Mapping[str, TaskProgress]) -> bool:
    """Return whether replanning may help: a task was blocked by its own failure, or two or more are incomplete."""
    left = [seq for seq, each in progress.items() if each.status is not TaskStatus.COMPLETE]
    return bool(_causes(progress)) or len(left) >= LEAST_UNREACHABLE


def _causes(progress: Mapping[str, TaskProgress]) -> dict[str, str]:
    """Return the reason for each task that its own failure blocked, not the block of another task."""
    blocked = {seq: each for seq, each in progress.items() if each.status is TaskStatus.BLOCKED}
    return {seq: each.reason or "" for seq, each in blocked.items() if each.blocked_by is None}


def _add_causes(
    tasks: Sequence[PlanTask], left: Sequence[PlanTask], blocked: Collection[str], state: CampaignState
) -> tuple[PlanTask, ...]:
    """Return the incomplete tasks, with a new task that finds the cause before each blocked one.

    If tests of complete SPEC tasks block a task, the new task comes before these SPEC tasks.
    """
    taken, before = {task.seq for task in tasks}, graph(tasks)
    free = (seq for seq in map("{:03}".format, count(1)) if seq not in taken)
    again = {task.seq: task for task in left}
    for task in (task for task in left if task.seq in blocked):
        blamed = [
            seq for seq in _again(state.progress) if state.progress[seq].before == state.progress[task.seq].setback
        ]
        firsts = [again[seq] for seq in blamed] or [again[task.seq]]
        # Tasks after repeated tests are complete; a wait for them could be a cycle.
        rewritten = set(_again(state.progress)) if blamed else set()
        awaited = (seq for first in firsts for seq in parents(first.depends))
        waits = dict.fromkeys(seq for seq in awaited if rewritten.isdisjoint((seq, *_all_before(seq, before))))
        cause = PlanTask(
            seq=next(free),
            slug=kebab(f"find-out-{task.slug}"),
            type=TaskType.VERIFY,
            delta=(),
            verify=task.verify,
            budget=LEAST_BUDGET,
            depends=depends_on(tuple(waits)),
        )
        again[cause.seq] = cause
        for first in firsts:
            more = depends_on((*parents(first.depends), cause.seq))
            again[first.seq] = first.model_copy(update={"depends": more})
    return tuple(again.values())
