"""The tasks of a campaign as a graph: what waits for what, what is wrong with that, how deep it is, how it changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from schemas.campaign_plan import PlanTask
from tasks.rules.cycles import cycles

NO_TASK = "none"
MAX_NAMED = 10


def parents(depends: str | Sequence[str]) -> tuple[str, ...]:
    """List what a task waits for, however `depends` is written."""
    names = (depends,) if isinstance(depends, str) else depends
    named = (name.strip() for name in names)
    return tuple(dict.fromkeys(name.lstrip("0").zfill(3) for name in named if name.lower() not in (NO_TASK, "")))


def depends_on(names: Sequence[str]) -> str | tuple[str, ...]:
    """Write what a task waits for as plan.json has it."""
    return tuple(names) if len(names) > 1 else names[0] if names else NO_TASK


def graph(tasks: Sequence[PlanTask]) -> dict[str, tuple[str, ...]]:
    """Map each task to those it waits for."""
    return {task.seq: parents(task.depends) for task in tasks}


def problems(waits: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str, str]]:
    """Find what is wrong with a graph: the task, a code and a sentence."""
    valid = ", ".join(list(waits)[:MAX_NAMED])
    for name, others in waits.items():
        for other in others:
            if other == name:
                yield name, "self_dependency", "A task cannot wait for itself."
            elif other not in waits:
                yield name, "unknown_dependency", f"There is no task {other[:20]!r}; the tasks are {valid}."
    for members in cycles(waits):
        yield members[0], "cyclic_dependency", f"These tasks wait for each other: {way(members)}."


def way(members: Sequence[str]) -> str:
    """Name a cycle as the way round, from a task to itself."""
    shown = [*members[:MAX_NAMED], *(["..."] if len(members) > MAX_NAMED else []), members[0]]
    return " -> ".join(shown)


def depth(waits: Mapping[str, Sequence[str]]) -> int:
    """Count the tasks of the longest way through a graph that has no problems."""
    deep: dict[str, int] = {}
    left = dict(waits)
    while ready := [name for name, others in left.items() if all(other in deep for other in others)]:
        for name in ready:
            deep[name] = 1 + max((deep[other] for other in left.pop(name)), default=0)
    return max(deep.values(), default=0)


def merge(
    tasks: Sequence[PlanTask], changed: Sequence[PlanTask], complete: Collection[str]
) -> tuple[PlanTask, ...] | str:
    """Put changed and new tasks into a plan, all or none: complete tasks stay; a sentence where it would not hold."""
    new = {task.seq: task for task in changed}
    if len(new) < len(changed):
        return "A task comes twice."
    if done := sorted(set(new) & set(complete)):
        return f"The task {done[0]} is complete."
    old = {task.seq for task in tasks}
    merged = (*(new.get(task.seq, task) for task in tasks), *(task for seq, task in new.items() if seq not in old))
    return next((sentence for _, _, sentence in problems(graph(merged))), merged)
