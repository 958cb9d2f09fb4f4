"""The milestones of plan.json: the role of each, its wave, and its files.

Given waves must cover every milestone once and keep the order. Without them milestones of one depth form a wave.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum

from schemas.kinds.reviewed_plan_files import Milestone, MilestoneFacts, Plan
from tasks.rules.validation import cycles, name_cycle


class RoleName(StrEnum):
    """The roles of a reviewed plan; each name is also the queue of the role's controllers."""

    ARCHITECT = "architect"
    DEVELOPER = "developer"
    WRITER = "technical-writer"
    REVIEWER = "quality-reviewer"


WORKERS = (RoleName.DEVELOPER, RoleName.WRITER)  # the roles that may change files


def delegate_of(milestone: MilestoneFacts) -> str | None:
    """Return the name that a milestone is delegated to, without `@agent-`; None if it is not delegated."""
    return milestone.delegated_to.strip().removeprefix("@agent-") if milestone.delegated_to else None


def is_external(milestone: MilestoneFacts) -> bool:
    """Return whether a milestone is delegated to someone else, so that it has no steps in this plan."""
    name = delegate_of(milestone)
    return name is not None and name not in WORKERS


def worker_of(milestone: MilestoneFacts) -> RoleName:
    """Return the role that executes a milestone: the delegate if there is one, else the role for its kind of change."""
    if (name := delegate_of(milestone)) in WORKERS:
        return RoleName(str(name))
    return RoleName.WRITER if milestone.is_documentation_only else RoleName.DEVELOPER


def waves_of(plan: Plan) -> tuple[tuple[Milestone, ...], ...]:
    """Return the milestones of each wave, ordered by number; the plan must have no wave faults."""
    known = {each.id: each for each in plan.milestones}
    waves = [wave.milestones for wave in plan.milestone_dependencies.waves] or _waves_by_depth(plan)
    return tuple(tuple(sorted((known[name] for name in wave), key=lambda each: each.number)) for wave in waves)


def wave_faults(plan: Plan) -> Iterator[str]:
    """Yield the faults in the dependencies and waves of a plan's milestones, such as a cycle."""
    graph = {each.id: each.depends_on for each in plan.milestones}
    for milestone in plan.milestones:
        for name in milestone.depends_on:
            if name not in graph or name == milestone.id:
                yield f"dangling: {milestone.id} depends on {name}, which is no other milestone"
    for members in cycles(graph):
        yield f"cycle: these milestones wait for each other: {name_cycle(members)}"
    if plan.milestone_dependencies.waves:
        yield from _wave_list_faults(plan, graph)


def _wave_list_faults(plan: Plan, graph: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    waves = plan.milestone_dependencies.waves
    if [wave.wave for wave in waves] != list(range(1, len(waves) + 1)):
        yield "waves: they must be numbered 1, 2, 3 and so on, in order"
    times = Counter(name for wave in waves for name in wave.milestones)
    yield from (f"dangling: a wave names {name}, which is no milestone" for name in times if name not in graph)
    yield from (f"waves: {name} is in {times[name]} waves and must be in one" for name in graph if times[name] != 1)
    place = {name: wave.wave for wave in waves for name in wave.milestones}
    for name, after in graph.items():
        for other in after:
            if name in place and other in place and place[other] >= place[name]:
                yield f"waves: {name} depends on {other} and must be in a later wave"


def _waves_by_depth(plan: Plan) -> list[tuple[str, ...]]:
    """Return the milestone ids of each wave; a milestone is in the wave after its last dependency."""
    depth: dict[str, int] = {}
    left = {each.id: each.depends_on for each in plan.milestones}
    waves: list[tuple[str, ...]] = []
    while left:
        ready = tuple(name for name, after in left.items() if all(other in depth for other in after))
        if not ready:  # a cycle, which `wave_faults` reports
            break
        depth.update(dict.fromkeys(ready, len(waves)))
        left = {name: after for name, after in left.items() if name not in depth}
        waves.append(ready)
    return waves


def files_of(milestone: Milestone) -> tuple[str, ...]:
    """Return the files that a milestone may touch, its tests last."""
    return tuple(dict.fromkeys((*milestone.files, *milestone.tests.files)))


def milestone_of(step_id: str) -> str | None:
    """Return the id of the milestone that a step belongs to; None if the step belongs to none."""
    found = re.match(r"impl-(m-\d+)(?:-|$)", step_id)
    return found[1].upper() if found else None
