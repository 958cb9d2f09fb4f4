"""What happens to a campaign that is stuck: it is planned anew, once (seed 003, BLOCK is an expected result).

What is complete stays. What was blocked comes again, each after a step that finds out why, and so does all that waited
for it. Progress is what counts, not how many tasks are ready: a plan of one task after another is never stuck for that.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import count

from schemas.campaign import PlanTask, TaskStatus, TaskType
from tasks.planning.campaign.commands import project_of
from tasks.planning.campaign.dag import depends_on, depth, graph, merge, parents
from tasks.planning.campaign.document import redrawn
from tasks.planning.campaign.growing import scope_of
from tasks.planning.campaign.measures import LEAST_BUDGET
from tasks.planning.campaign.progress import tasks_of
from tasks.planning.campaign.state import Progress, State
from tasks.planning.campaign.steps import Frame, steps_of
from tasks.planning.campaign.words import kebab
from tasks.planning.catalogue import Catalogue
from tasks.planning.draft import MAX_UNFOLDED, Growth, Phase, Unfolding

MAX_REPLANS = 1
LEAST_UNREACHABLE = 2
SUFFIX = "-r2"


def stuck(growth: Growth, catalogue: Catalogue) -> Unfolding | None:
    """Plan anew what is not complete; None where that was done before, or where nothing is blocked."""
    state, tasks = State.model_validate(growth.state), tasks_of(growth.document)
    if state.replans >= MAX_REPLANS or not worth_it(state.progress):
        return None
    complete = {seq for seq, each in state.progress.items() if each.status is TaskStatus.COMPLETE}
    again = [task for task in tasks if task.seq not in complete]
    merged = merge(tasks, with_causes(tasks, again, causes(state.progress)), complete)
    return None if isinstance(merged, str) else _replanned(growth, state, merged, complete, catalogue)


def worth_it(progress: Mapping[str, Progress]) -> bool:
    """Tell whether planning anew may help: a task is blocked, or at least two can no longer be reached."""
    left = [seq for seq, each in progress.items() if each.status is not TaskStatus.COMPLETE]
    return bool(causes(progress)) or len(left) >= LEAST_UNREACHABLE


def causes(progress: Mapping[str, Progress]) -> dict[str, str]:
    """Name the tasks that were blocked by themselves, and why."""
    blocked = {seq: each for seq, each in progress.items() if each.status is TaskStatus.BLOCKED}
    return {seq: each.reason or "" for seq, each in blocked.items() if each.blocked_by is None}


def with_causes(tasks: Sequence[PlanTask], again: Sequence[PlanTask], blocked: Collection[str]) -> tuple[PlanTask, ...]:
    """Put before each blocked task a new one that finds out why; it has the next free number."""
    taken = {task.seq for task in tasks}
    free = (seq for seq in map("{:03}".format, count(1)) if seq not in taken)
    changed: list[PlanTask] = []
    for task in again:
        if task.seq not in blocked:
            changed.append(task)
            continue
        cause = _cause(task, next(free))
        changed += (cause, task.model_copy(update={"depends": depends_on((*parents(task.depends), cause.seq))}))
    return tuple(changed)


def _cause(task: PlanTask, seq: str) -> PlanTask:
    """Make the task that looks into a blocked one: it changes nothing, and is verified as that one is."""
    return PlanTask(
        seq=seq,
        slug=kebab(f"find-out-{task.slug}"),
        type=TaskType.VERIFY,
        delta=(),
        verify=task.verify,
        budget=LEAST_BUDGET,
        depends=task.depends,
    )


def _replanned(
    growth: Growth, state: State, tasks: Sequence[PlanTask], complete: Collection[str], catalogue: Catalogue
) -> Unfolding | None:
    scope = scope_of(growth, catalogue)
    reasons = _reasons(tasks, state.progress)
    project = project_of(scope.goal, state.known, scope.allowed, catalogue)
    new = {task.seq for task in tasks if task.seq not in state.progress}
    left = [task for task in tasks if task.seq not in complete]
    made = steps_of(left, Frame(state.known, project, SUFFIX, exploring=new, reasons=reasons))
    steps = tuple(step for some in made.values() for step in some)
    if len(steps) > MAX_UNFOLDED:
        return None
    fresh = {seq: Progress(steps=tuple(step.step_id for step in some)) for seq, some in made.items()}
    state = state.model_copy(update={"progress": {**state.progress, **fresh}, "replans": state.replans + 1})
    document = redrawn(growth.document or {}, tasks, state.progress)
    why = f"{len(left) - len(new)} tasks come again, {len(new)} of them after finding out what blocked them."
    return Unfolding(state.model_dump(mode="json"), document, why, steps, _phases(tasks), replaces=True)


def _reasons(tasks: Sequence[PlanTask], progress: Mapping[str, Progress]) -> dict[str, str]:
    """Tell blocked tasks, and the new ones before them, why they were blocked."""
    blocked = causes(progress)
    told = dict(blocked)
    for task in tasks:
        if task.seq in blocked:
            told |= {seq: blocked[task.seq] for seq in parents(task.depends) if seq not in progress}
    return told


def _phases(tasks: Sequence[PlanTask]) -> tuple[Phase, ...]:
    return (Phase("DESIGN_SEQUENCE", f"Step: ordering, Status: {len(tasks)} tasks, depth={depth(graph(tasks))}"),)
