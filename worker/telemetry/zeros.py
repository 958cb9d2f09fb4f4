"""What a worker tells as 0 from its start: Prometheus sees no increase in a series that begins at 1.

That is each counter without labels, and those that alerts ask for.
"""

from __future__ import annotations

from tasks.policy.advice import ADVICE
from worker.telemetry.counting import Tally
from worker.telemetry.metrics import CALLBACKS, HALTS, TABLE, Kind, Teller

GIVEN_UP = ("failed", "disabled")


def zeros() -> Tally:
    """Make the tally of a worker that has done nothing yet."""
    made = Tally()
    unlabelled = [
        each for each in TABLE if each.kind is Kind.COUNTER and each.teller is Teller.WORKER and not each.labels
    ]
    for metric, labels in (
        *((metric, ()) for metric in unlabelled),
        *((HALTS, (rule,)) for rule in ADVICE),
        *((CALLBACKS, (result,)) for result in GIVEN_UP),
    ):
        made.counts[metric, labels] = 0.0
    return made
