"""What waits to be decided about a plan, and a decision that is ready to be written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tasks import outcomes, upkeep
from tasks.change import Change
from tasks.outcomes import Report
from tasks.view import Slice
from worker.inbox import Entry
from worker.store.plans import Ask, Write

REPORTS_A_COMMIT = 32  # of one plan; more wait for the next round


@dataclass(slots=True)
class Work:
    """What is to be decided about one plan: its timer that has run out, else reports with their entries."""

    reports: list[tuple[Entry, Report]] = field(default_factory=list)
    due: bool = False
    extra: frozenset[str] = frozenset()  # steps that the decision turned out to touch beside those

    @property
    def batch(self) -> list[tuple[Entry, Report]]:
        """The reports of the next decision."""
        return [] if self.due else self.reports[:REPORTS_A_COMMIT]

    def ask(self, plan_id: str) -> Ask:
        """Say which part of the plan the next decision can touch."""
        named = dict.fromkeys(report.outcome.step_id for _, report in self.batch)
        return Ask(plan_id, [*named, *sorted(self.extra - named.keys())], leases=self.due)

    def decide(self, view: Slice) -> Change:
        """Apply what is to be decided to the slice. Pure."""
        return upkeep.apply(view) if self.due else outcomes.apply(view, [report for _, report in self.batch])

    def acks(self) -> list[tuple[str, bytes]]:
        """Name the entries that the commit of this decision acknowledges."""
        return [(entry.stream, entry.entry_id) for entry, _ in self.batch]

    def done(self, *, more: bool) -> bool:
        """Take off what was committed; returns whether the plan is finished with for now."""
        del self.reports[: len(self.batch)]
        self.due, self.extra = False, frozenset()
        return not self.reports and not more


class Decided(NamedTuple):
    """A decision ready to be written; `work` is None where the commit only gives the lock back."""

    plan_id: str
    work: Work | None
    write: Write
