"""Waves: which milestones come after which, and which at the same time (seed 002; spec B2, B4.9).

Given waves must cover every milestone once and keep the order; without them milestones of one depth form a wave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from schemas.review_plan import Milestone, Plan
from tasks.rules.cycles import cycles, name_cycle


def waves_of(plan: Plan) -> tuple[tuple[Milestone, ...], ...]:
    """List the waves of a plan that has no wave faults, milestones of a wave by their number."""
    known = {each.id: each for each in plan.milestones}
    waves = [wave.milestones for wave in plan.milestone_dependencies.waves] or _derived(plan)
    return tuple(tuple(sorted((known[name] for name in wave), key=lambda each: each.number)) for wave in waves)


def wave_faults(plan: Plan) -> Iterator[str]:
    """Say what is wrong with the order of the milestones."""
    graph = {each.id: each.depends_on for each in plan.milestones}
    for milestone in plan.milestones:
        for name in milestone.depends_on:
            if name not in graph or name == milestone.id:
                yield f"dangling: {milestone.id} depends on {name}, which is no other milestone"
    for members in cycles(graph):
        yield f"cycle: these milestones wait for each other: {name_cycle(members)}"
    if plan.milestone_dependencies.waves:
        yield from _given_faults(plan, graph)


def _given_faults(plan: Plan, graph: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
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


def _derived(plan: Plan) -> list[tuple[str, ...]]:
    """Put every milestone one wave after the last that it depends on."""
    depth: dict[str, int] = {}
    left = {each.id: each.depends_on for each in plan.milestones}
    waves: list[tuple[str, ...]] = []
    while left:
        ready = tuple(name for name, after in left.items() if all(other in depth for other in after))
        if not ready:  # a cycle, which `wave_faults` tells
            break
        depth.update(dict.fromkeys(ready, len(waves)))
        left = {name: after for name, after in left.items() if name not in depth}
        waves.append(ready)
    return waves
