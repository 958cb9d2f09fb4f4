"""Holds the specs of a step against each other: after a failure that counts, no attempt is asked the same again."""

from __future__ import annotations

from collections import Counter
from typing import Any

from schemas import codec
from schemas.stored import StepStatus
from tasks.plan.changeset import Changeset

OWN = ("attempt", "lease", "lease_key", "deadline", "budget_remaining", "limits", "context")
DELIVERS = ("land", "deliver")  # no agent works there: what could not be delivered is tried as it was


def asked(spec: bytes) -> dict[str, Any]:
    """Return the parts of a spec that ask for work: not those of its attempt, and not the results of earlier ones."""
    return {name: value for name, value in codec.loads(spec).items() if name not in OWN}


class Asked:
    """The last spec of each step of a plan, and how many failures of the step were judged before it."""

    def __init__(self) -> None:
        self.last: dict[str, tuple[int, dict[str, Any]]] = {}
        self.lost: Counter[str] = Counter()  # attempts whose lease ran out: nobody said what is wrong

    def look(self, change: Changeset) -> None:
        """Check the specs of `change`."""
        line = codec.loads(change.log) if change.log else {"in": []}
        self.lost.update(said[1] for said in line["in"] if said[0] == "expired" and said[3])
        for name, _, spec in change.dispatches:
            status, now = StepStatus.decode(change.statuses[name]), asked(spec)
            failures = status.failures - self.lost[name]
            before, was = self.last.get(name, (failures, {}))
            self.last[name] = failures, now
            assert failures <= before or name in DELIVERS or now != was, f"{name} is asked the same again"
