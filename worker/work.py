"""What waits to be decided about a plan, and a decision that is ready to be written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tasks import outcomes, upkeep
from tasks.change import Change
from tasks.outcomes import Report
from tasks.view import Slice
from worker.inbox import Entry
from worker.store.plans import READY_PAGE, Ask, Write

REPORTS_A_COMMIT = 32  # of one plan; more wait for the next round
MAX_PAGE = 256  # of the ready queue; a plan whose files are that much taken waits for one of them


@dataclass(slots=True)
class Work:
    """What is to be decided about one plan: its timer that has run out, else reports with their entries."""

    reports: list[tuple[Entry, Report]] = field(default_factory=list)
    due: bool = False
    size: int = REPORTS_A_COMMIT  # of the next decision; 1 once deciding about several at once has failed
    page: int = READY_PAGE
    extra: frozenset[str] = frozenset()  # steps that the decision turned out to touch beside those

    @property
    def batch(self) -> list[tuple[Entry, Report]]:
        """The reports of the next decision."""
        return [] if self.due else self.reports[: self.size]

    def ask(self, plan_id: str) -> Ask:
        """Say which part of the plan the next decision can touch."""
        named = dict.fromkeys(report.outcome.step_id for _, report in self.batch)
        return Ask(plan_id, [*named, *sorted(self.extra - named.keys())], leases=self.due, page=self.page)

    def decide(self, view: Slice) -> Change:
        """Apply what is to be decided to the slice. Pure."""
        return upkeep.apply(view) if self.due else outcomes.apply(view, [report for _, report in self.batch])

    def acks(self) -> list[tuple[str, bytes]]:
        """Name the entries that the commit of this decision acknowledges."""
        return [(entry.stream, entry.entry_id) for entry, _ in self.batch]

    def done(self, change: Change) -> bool:
        """Take off what was committed; returns whether the plan is finished with for now."""
        del self.reports[: len(self.batch)]
        self.due, self.extra = False, frozenset()
        wider = change.wider and self.page < MAX_PAGE
        self.page = self.page * 8 if wider else READY_PAGE
        return not (self.reports or change.more or wider)


class Decided(NamedTuple):
    """A decision ready to be written; `work` is None where the commit only gives the lock back."""

    plan_id: str
    work: Work | None
    write: Write
