"""Forecasts the usage of the open steps of a plan, to show whether its budgets will suffice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from schemas.base import StepState, StepType
from schemas.plan import Budget, Forecast, ForecastLine

OPEN = frozenset({StepState.PENDING.value, StepState.BLOCKED.value, StepState.ACTIVE.value})
ESTIMATED = ("tokens", "patch_cycles")


class Expected(NamedTuple):
    """A step as the forecast reads it: its static part, its state, its attempts, and whether one is in flight."""

    facts: Mapping[str, Any]
    state: str
    attempts: int
    is_in_flight: bool


def forecast(steps: Iterable[Expected], budget: Budget) -> Forecast:
    """Return the expected needs of a plan's open steps, in addition to spent and reserved amounts.

    Each step is expected to need one more attempt, with the step's estimate. A landing or delivery needs nothing.
    `likely` multiplies the needs by the rate so far: the usage of the attempts divided by their estimates. For the
    clock the rate is the time of each step that ended.
    """
    needed, tried = dict.fromkeys(ESTIMATED, 0), dict.fromkeys(ESTIMATED, 0)
    ended = open_steps = 0
    for step in steps:
        if step.facts["controller_task_spec"]["type"] in (StepType.LAND, StepType.DELIVER):
            continue
        is_open = step.state in OPEN
        ended, open_steps = ended + (not is_open and step.attempts > 0), open_steps + is_open
        for name in ESTIMATED:
            estimate = step.facts["estimate"][name]
            needed[name] += estimate * (is_open and not step.is_in_flight)
            tried[name] += estimate * max(0, step.attempts - step.is_in_flight)
    lines = {
        name: ForecastLine(needed=needed[name], likely=_at_rate(needed[name], getattr(budget, name).spent, tried[name]))
        for name in ESTIMATED
    }
    pace = _at_rate(open_steps, budget.wall_clock_s.spent, ended)
    return Forecast(steps=open_steps, wall_clock_s=ForecastLine(needed=None, likely=pace), **lines)


def _at_rate(amount: int, used: int, of: int) -> int | None:
    """Return `amount` times `used / of`, rounded; None if either of these is 0."""
    return round(amount * used / of) if of and used else None
