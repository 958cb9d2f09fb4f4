"""What waits to be decided about a plan, and a decision that is ready to be written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from schemas.command import Command
from tasks import commands, outcomes, upkeep
from tasks.change import Change
from tasks.outcomes import Report
from tasks.view import Slice
from worker.inbox import Entry
from worker.store.plans import READY_PAGE, Ask, Write

REPORTS_A_COMMIT = 32  # of one plan; more wait for the next round
MAX_PAGE = 256  # of the ready queue; a plan whose files are that much taken waits for one of them


@dataclass(slots=True)
class Work:
    """What is to be decided about one plan: its timer that has run out, else orders, else reports."""

    reports: list[tuple[Entry, Report]] = field(default_factory=list)
    orders: list[tuple[Entry, Command]] = field(default_factory=list)
    due: bool = False
    size: int = REPORTS_A_COMMIT  # of the next decision; 1 once deciding about several at once has failed
    page: int = READY_PAGE
    extra: frozenset[str] = frozenset()  # steps that the decision turned out to touch beside those

    @property
    def batch(self) -> list[tuple[Entry, Report]]:
        """The reports of the next decision."""
        return [] if self.due or self.orders else self.reports[: self.size]

    def ask(self, plan_id: str) -> Ask:
        """Say which part of the plan the next decision can touch."""
        named = dict.fromkeys(report.outcome.step_id for _, report in self.batch)
        if not self.due:
            named |= dict.fromkeys(order.step_id for _, order in self.orders if order.step_id)
        return Ask(plan_id, [*named, *sorted(self.extra - named.keys())], leases=self.due, page=self.page)

    def decide(self, view: Slice) -> Change:
        """Apply what is to be decided to the slice. Pure."""
        if self.due:
            return upkeep.apply(view)
        if self.orders:
            return commands.apply(view, [order for _, order in self.orders])
        return outcomes.apply(view, [report for _, report in self.batch])

    def acks(self) -> list[tuple[str, bytes]]:
        """Name the entries that the commit of this decision acknowledges."""
        messages: list[tuple[Entry, object]] = [] if self.due else [*(self.orders or self.batch)]
        return [(entry.stream, entry.entry_id) for entry, _ in messages]

    def done(self, change: Change) -> bool:
        """Take off what was committed; returns whether the plan is finished with for now."""
        if self.due:
            self.due = False
        elif self.orders:
            self.orders.clear()
        else:
            del self.reports[: self.size]
        self.extra = frozenset()
        wider = change.wider and self.page < MAX_PAGE
        self.page = self.page * 8 if wider else READY_PAGE
        return not (self.reports or self.orders or change.more or wider)


class Decided(NamedTuple):
    """A decision ready to be written; `work` is None where the commit only gives the lock back."""

    plan_id: str
    work: Work | None
    write: Write
