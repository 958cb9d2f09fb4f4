"""What an attempt is expected to use: the median of the last attempts of its mode on its queue.

An estimate that somebody named stays. Of a test nothing is learned, as no agent runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median_low

from schemas.goal import Goal
from schemas.step import PlannedStep
from tasks.rules.budget import LEARNED_MODES, usage_name
from tasks.rules.risk import estimate

LAST = 50  # attempts
FEWEST = 5  # fewer say nothing
MOST_QUEUES = 20  # of a goal


def names_of(goal: Goal) -> list[str]:
    """Name the attempts that the steps of a goal are expected to be like."""
    queues = dict.fromkeys([goal.queue, *(step.queue for step in goal.steps or () if step.queue)])
    names = (usage_name(mode, queue) for queue in [*queues][:MOST_QUEUES] for mode in LEARNED_MODES)
    return [name for name in names if name]


def learn(used: Mapping[str, Iterable[int]]) -> dict[str, int]:
    """Take the median of what attempts used, of each name; none where too few did."""
    known = {name: [*tokens] for name, tokens in used.items()}
    return {name: median_low(tokens) for name, tokens in known.items() if len(tokens) >= FEWEST}


def assign(steps: tuple[PlannedStep, ...], goal: Goal, learned: Mapping[str, int]) -> tuple[PlannedStep, ...]:
    """Give steps of a plan that is made the estimates that were learned, where the goal names none."""
    if not learned:
        return steps
    named = {step.step_id for step in goal.steps or () if step.estimate.tokens is not None}
    return tuple(step if step.step_id in named else with_estimate(step, learned) for step in steps)


def with_estimate(step: PlannedStep, learned: Mapping[str, int]) -> PlannedStep:
    """Give a step the estimate that was learned for it, in the place of the usual one."""
    tokens = learned.get(usage_name(step.mode, step.queue))
    if tokens is None or step.estimate.tokens != estimate(step.mode).tokens:
        return step
    return step.model_copy(update={"estimate": step.estimate.model_copy(update={"tokens": tokens})})
