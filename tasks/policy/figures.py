"""The figures that an outcome tells: each within what can be counted, and what was not is told of.

No outcome is refused for the value of a number. What a controller or an agent says of itself must not lift a rule, so a
figure below 0 counts as 0: nobody gives back what an attempt used. `growth_kb` is negative where files were deleted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from schemas.outcome import Metrics, Outcome
from schemas.stored import PlanRecord
from tasks.base.policy_version import ChangedRule

MOST = 10**12  # of any figure; sums of very many such figures are still whole numbers of 64 bits
MOST_GROWTH_KB = 10**9
COUNTED = ("tokens_used", "patch_cycles", "tool_calls", "duration_ms")  # of `metrics`


class Wrong(NamedTuple):
    """A figure that was told, and what counts in its place."""

    told: int
    counted: int


def within_range(plan: PlanRecord, outcome: Outcome) -> tuple[Outcome, dict[str, Wrong]]:
    """Return `outcome` with figures that can be counted, and those that were changed and are worth telling of."""
    wrong: dict[str, Wrong] = {}
    if metrics := outcome.metrics:
        for told in (metrics.tokens_used, metrics.patch_cycles, metrics.tool_calls, metrics.duration_ms):
            if told is not None and not 0 <= told <= MOST:
                wrong = _wrong(metrics)
                counted = {name: each.counted for name, each in wrong.items()}
                outcome = outcome.model_copy(update={"metrics": metrics.model_copy(update=counted)})
                break
    if growth_kb := outcome.growth_kb:
        least = 0 if ChangedRule.GROWTH_COUNTS_UP.holds(plan) else -MOST_GROWTH_KB
        if not least <= growth_kb <= MOST_GROWTH_KB:
            counted_kb = min(max(least, growth_kb), MOST_GROWTH_KB)
            outcome = outcome.model_copy(update={"growth_kb": counted_kb})
            if abs(growth_kb) > MOST_GROWTH_KB:
                wrong["growth_kb"] = Wrong(growth_kb, counted_kb)
    return outcome, wrong


def _wrong(metrics: Metrics) -> dict[str, Wrong]:
    figures = {name: getattr(metrics, name) or 0 for name in COUNTED}
    return {name: Wrong(told, min(max(0, told), MOST)) for name, told in figures.items() if not 0 <= told <= MOST}


def told_of(wrong: dict[str, Wrong]) -> dict[str, Any]:
    """Lay out what was wrong for an event; a figure beyond all measure is told as the largest that fits."""
    return {
        name: {"told": min(max(-(2**53), each.told), 2**53), "counted": each.counted} for name, each in wrong.items()
    }
