"""What waits to be decided about a plan, and a decision that is ready to be written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schemas.command import Command
from tasks.handlers import commands, outcomes, upkeep
from tasks.handlers.outcomes import Report
from tasks.plan.changeset import Changeset
from tasks.plan.snapshot import Clocks, Snapshot
from worker.store.layout import Write
from worker.store.plans import READY_PAGE, Ask
from worker.streams.inbox import Entry

MESSAGES_A_COMMIT = 32  # of one plan; more wait for the next round
MAX_PAGE = 256  # of the ready queue; a plan whose files are that much taken waits for one of them


@dataclass(slots=True)
class Work:
    """What is to be decided about one plan: its timer that has run out, else orders, else reports."""

    reports: list[tuple[Entry, Report]] = field(default_factory=list)
    orders: list[tuple[Entry | None, Command]] = field(default_factory=list)  # without an entry: our own
    due: Clocks | None = None
    size: int = MESSAGES_A_COMMIT  # of the next decision; 1 once deciding about several at once has failed
    page: int = READY_PAGE
    extra: frozenset[str] = frozenset()  # steps that the decision turned out to touch beside those
    full: frozenset[str] = frozenset()  # queues that had no room for what was decided

    @property
    def batch(self) -> list[tuple[Entry, Report]]:
        """The reports of the next decision."""
        return [] if self.due or self.orders else self.reports[: self.size]

    @property
    def next_orders(self) -> list[tuple[Entry | None, Command]]:
        """The orders of the next decision."""
        return [] if self.due else self.orders[: self.size]

    @property
    def messages(self) -> list[tuple[Entry | None, Any]]:
        """What the next decision is about, beside a timer."""
        return [*self.next_orders, *self.batch]

    @property
    def only_pauses(self) -> bool:
        """Whether the next decision does no more than to pause a plan that lost commits: the one order of our own."""
        return not self.due and bool(self.orders) and all(entry is None for entry, _ in self.next_orders)

    def ask(self, plan_id: str) -> Ask:
        """Say which part of the plan the next decision can touch."""
        reports = [report for _, report in self.batch]
        named = dict.fromkeys([report.outcome.step_id for report in reports])
        if self.orders:
            named |= dict.fromkeys([order.step_id for _, order in self.next_orders if order.step_id])
        steps = [*named, *sorted(self.extra - named.keys())] if self.extra else [*named]
        claims_matter = self.due is not None or bool(self.orders) or None in [report.lease for report in reports]
        return Ask(plan_id, steps, claims_matter, self.page)

    def decide(self, view: Snapshot) -> Changeset:
        """Apply what is to be decided to the snapshot. Pure."""
        view.full = self.full
        if self.due:
            return upkeep.apply(view, self.due)
        if self.orders:
            return commands.apply(view, [order for _, order in self.next_orders])
        return outcomes.apply(view, [report for _, report in self.batch])

    def acks(self) -> list[tuple[str, bytes]]:
        """Name the entries that the commit of this decision acknowledges."""
        return [(entry.stream, entry.entry_id) for entry, _ in self.messages if entry]

    def done(self, change: Changeset) -> bool:
        """Take off what was committed; returns whether the plan is finished with for now."""
        if self.due:
            self.due = None
        elif self.orders:
            del self.orders[: self.size]
        else:
            del self.reports[: self.size]
        self.extra = self.full = frozenset()
        wider = change.wider and self.page < MAX_PAGE
        self.page = self.page * 8 if wider else READY_PAGE
        return not (self.reports or self.orders or change.more or change.short or wider)


class Decided(NamedTuple):
    """A decision ready to be written; `work` is None where the commit only gives the lock back."""

    plan_id: str
    work: Work | None
    write: Write
