"""A campaign that is stuck is planned anew: once, unless the operator says otherwise.

What is complete stays. The drafter `queue` is asked what is to be done otherwise, and may add tasks. Without it what
was blocked comes again, each after a step that finds out why, and so does all that waited for it. Progress is what
counts, not how many tasks are ready: a plan of one task after another is never stuck for that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import count

from schemas.kinds.campaign import PlanTask, TaskStatus, TaskType
from tasks.rules.strategy import MAX_EXPANSION, Expansion, LivePlan
from tasks.strategies.campaign.document import document_with
from tasks.strategies.campaign.formulas import LEAST_BUDGET
from tasks.strategies.campaign.prompt import prompt_of
from tasks.strategies.campaign.sequence import depends_on, kebab, merge, parents, sequence_phase
from tasks.strategies.campaign.state import CampaignScope, CampaignState, TaskProgress
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


def ask_anew(live: LivePlan, state: CampaignState, scope: CampaignScope) -> Expansion:
    """Have a controller draft what is to be done otherwise."""
    prompt = prompt_of(state.known, scope, stuck=_situation(tasks_of(live.document), state.progress))
    waits = DRAFT + redo_suffix(state.replans)
    state = state.model_copy(update={"waits": waits, "prompt": prompt, "made": state.made + 1})
    step = drafting_step(scope.goal, state.terms.attempts, waits)
    why = "The campaign is stuck, and its tasks are drafted anew."
    return Expansion(state.model_dump(mode="json"), live.document, why, (step,), replaces=True)


def replan_by_templates(live: LivePlan, state: CampaignState, scope: CampaignScope) -> Expansion | None:
    """Have all that is not complete come again, after finding out what blocked it.

    None where that is too much for one expansion, or the graph would not hold.
    """
    tasks = tasks_of(live.document)
    left = [task for task in tasks if task.seq not in complete_tasks(state)]
    blocked = set(_causes(state.progress)) - set(state.finding)
    merged = merge(tasks, _add_causes(tasks, left, blocked), complete_tasks(state))
    if isinstance(merged, str):
        return None
    fresh = tuple(task.seq for task in merged if task.seq not in state.progress)
    state = state.model_copy(update={"finding": (*state.finding, *fresh)})
    made = replan_with(live, state, merged, scope)
    return made if len(made.steps) <= MAX_EXPANSION else None


def replan_with(live: LivePlan, state: CampaignState, tasks: Sequence[PlanTask], scope: CampaignScope) -> Expansion:
    """Go on with `tasks`, of which the complete ones stay."""
    left = [task for task in tasks if task.seq not in complete_tasks(state)]
    exploring = {task.seq for task in left} & set(state.finding)
    project = project_of(state.known, scope)
    blocked = _causes(state.progress)
    reasons = dict(blocked)
    for task in tasks:
        if task.seq in blocked:  # the new ones before it have its reason, too
            reasons |= {seq: blocked[task.seq] for seq in parents(task.depends) if seq not in state.progress}
    frame = StepFrame(state.known, project, redo_suffix(state.replans), exploring, reasons)
    made = steps_of(left, frame)
    steps = tuple(step for some in made.values() for step in some)
    fresh = {seq: TaskProgress(steps=tuple(step.step_id for step in some)) for seq, some in made.items()}
    whole = state.made + len(steps)
    update = {"progress": {**state.progress, **fresh}, "waits": None, "prompt": None, "made": whole}
    state = state.model_copy(update=update)
    after = f", {len(exploring)} of them after finding out what blocked it" if exploring else ""
    why = f"{len(left) - len(exploring)} tasks come again or are new{after}."
    document = document_with(live.document or {}, tasks, state.progress)
    return Expansion(state.model_dump(mode="json"), document, why, steps, (sequence_phase(tasks),), replaces=True)


def _situation(tasks: Sequence[PlanTask], progress: Mapping[str, TaskProgress]) -> list[str]:
    """Say what was delivered, what is blocked and why, and what remains."""
    counts = Counter(each.status for each in progress.values())
    summary = ", ".join(f"{counts[status]} {status.replace('_', ' ')}" for status in TaskStatus if counts[status])
    lines = [f"{summary} of {len(tasks)} tasks"]
    for task in tasks:
        far, waits = progress[task.seq], ", ".join(parents(task.depends)) or "nothing"
        what = f"{task.seq} {task.slug} ({task.type}; {', '.join(task.delta[:5]) or 'no files'}; waits for {waits})"
        blocked = f"waited for {far.blocked_by}" if far.blocked_by else far.reason
        lines.append(": ".join(filter(None, (f"{what} is {far.status.replace('_', ' ')}", far.delivered or blocked))))
    return lines


def is_worth_it(progress: Mapping[str, TaskProgress]) -> bool:
    """Tell whether planning anew may help: a task is blocked, or two are unreachable."""
    left = [seq for seq, each in progress.items() if each.status is not TaskStatus.COMPLETE]
    return bool(_causes(progress)) or len(left) >= LEAST_UNREACHABLE


def _causes(progress: Mapping[str, TaskProgress]) -> dict[str, str]:
    """Name the tasks that were blocked by themselves, and why."""
    blocked = {seq: each for seq, each in progress.items() if each.status is TaskStatus.BLOCKED}
    return {seq: each.reason or "" for seq, each in blocked.items() if each.blocked_by is None}


def _add_causes(tasks: Sequence[PlanTask], again: Sequence[PlanTask], blocked: Collection[str]) -> tuple[PlanTask, ...]:
    """Put a new task before each blocked one, which finds out why."""
    taken = {task.seq for task in tasks}
    free = (seq for seq in map("{:03}".format, count(1)) if seq not in taken)
    changed: list[PlanTask] = []
    for task in again:
        if task.seq not in blocked:
            changed.append(task)
            continue
        cause = PlanTask(
            seq=next(free),
            slug=kebab(f"find-out-{task.slug}"),
            type=TaskType.VERIFY,
            delta=(),
            verify=task.verify,
            budget=LEAST_BUDGET,
            depends=task.depends,
        )
        changed += (cause, task.model_copy(update={"depends": depends_on((*parents(task.depends), cause.seq))}))
    return tuple(changed)
