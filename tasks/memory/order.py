"""Sorts steps with the same dependencies by the success rate of similar attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schemas.step import PlannedStep
from tasks.memory.alike import ENOUGH, Past

LIKELY, RISKY = 1, 2  # first those with a higher success rate, or those with a lower one
NAMES = {LIKELY: "likely", RISKY: "risky"}


def arrange(steps: Sequence[PlannedStep], past: Mapping[str, Past], by: int) -> list[str]:
    """Return the ids of the steps in their new order; empty if it equals the present one.

    Steps of one mode with the same dependencies swap places with each other, and their dependents follow. Steps without
    enough attempts count as the mean of the others. Rates that differ by less than a tenth are equal.
    """
    rates = {name: round(each.rate, 1) for name, each in past.items() if each.attempts >= ENOUGH}
    alike: dict[tuple[str, frozenset[str]], list[int]] = {}
    for place, step in enumerate(steps):
        alike.setdefault((step.mode.value, frozenset(step.depends_on)), []).append(place)
    sign, places = 1 if by == RISKY else -1, [*range(len(steps))]
    for group in alike.values():
        known = [rates[steps[place].step_id] for place in group if steps[place].step_id in rates]
        if len(set(known)) > 1 or (known and len(known) < len(group)):
            mean = round(sum(known) / len(known), 1)
            wanted = sorted(group, key=lambda place: sign * rates.get(steps[place].step_id, mean))
            for place, slot in zip(wanted, group, strict=True):
                places[place] = slot
    return _follow(steps, places) if places != [*range(len(steps))] else []


def _follow(steps: Sequence[PlannedStep], places: Sequence[int]) -> list[str]:
    """Return the ids by their places, each after the steps that it depends on."""
    left = {step.step_id: (place, {*step.depends_on}) for step, place in zip(steps, places, strict=True)}
    order: list[str] = []
    while left:
        name = min((place, name) for name, (place, after) in left.items() if after.isdisjoint(left))[1]
        order.append(name)
        del left[name]
    return order
