"""What the steps of a plan that have not ended are expected to use, and so whether its budgets will be enough."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from schemas.base import StepState, StepType
from schemas.plan import Budget, Forecast, ForecastLine

OPEN = frozenset({StepState.PENDING.value, StepState.BLOCKED.value, StepState.ACTIVE.value})
ESTIMATED = ("tokens", "patch_cycles")


class Expected(NamedTuple):
    """What is known of a step: its static part, its state, its attempts, and whether one is in flight."""

    facts: Mapping[str, Any]
    state: str
    attempts: int
    is_in_flight: bool


def forecast(steps: Iterable[Expected], budget: Budget) -> Forecast:
    """Return what the open steps of a plan need beside what is spent and held.

    Each is taken to need one more attempt, as its estimate says; a delivery uses nothing. `likely` is the same at the
    rate at which the attempts so far used their estimates, and of the clock at the pace so far.
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
    """Scale an amount by what was used of as much; None where nothing was yet."""
    return round(amount * used / of) if of and used else None
