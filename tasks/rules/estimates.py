"""Estimates for attempts: the median usage of the last attempts with the same mode and queue.

An estimate that the goal names is not replaced. Tests have no learned estimate, because they run no agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median_low

from schemas.goal import Goal
from schemas.step import PlannedStep
from tasks.rules.budget import LEARNED_MODES, usage_name
from tasks.rules.risk import estimate

LAST = 50  # attempts
FEWEST = 5  # fewer have no meaning
MOST_QUEUES = 20  # of a goal


def names_of(goal: Goal) -> list[str]:
    """Return the names of the usage records that may estimate the steps of a goal."""
    queues = dict.fromkeys([goal.queue, *(step.queue for step in goal.steps or () if step.queue)])
    names = (usage_name(mode, queue) for queue in [*queues][:MOST_QUEUES] for mode in LEARNED_MODES)
    return [name for name in names if name]


def learn(used: Mapping[str, Iterable[int]]) -> dict[str, int]:
    """Return the median tokens for each name of usage records; names with fewer than FEWEST records are left out."""
    known = {name: [*tokens] for name, tokens in used.items()}
    return {name: median_low(tokens) for name, tokens in known.items() if len(tokens) >= FEWEST}


def assign(steps: tuple[PlannedStep, ...], goal: Goal, learned: Mapping[str, int]) -> tuple[PlannedStep, ...]:
    """Give the learned estimates to the steps of a new plan, except steps whose estimate the goal names."""
    if not learned:
        return steps
    named = {step.step_id for step in goal.steps or () if step.estimate.tokens is not None}
    return tuple(step if step.step_id in named else with_estimate(step, learned) for step in steps)


def with_estimate(step: PlannedStep, learned: Mapping[str, int]) -> PlannedStep:
    """Return a step with its learned estimate; unchanged if there is none, or if its estimate is not the default."""
    tokens = learned.get(usage_name(step.mode, step.queue))
    if tokens is None or step.estimate.tokens != estimate(step.mode).tokens:
        return step
    return step.model_copy(update={"estimate": step.estimate.model_copy(update={"tokens": tokens})})
