"""What waits to be decided about a plan, and what has been decided."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schemas.command import Command
from tasks.handlers import commands, outcomes, upkeep
from tasks.handlers.outcomes import Report
from tasks.plan.changeset import Changeset
from tasks.plan.snapshot import Clocks, Snapshot
from worker.store.plans import READY_PAGE, Ask, Write
from worker.streams.inbox import StreamEntry

MESSAGES_A_COMMIT = 32  # of one plan; more wait for the next round
MAX_PAGE = 256  # of the ready queue; a plan whose files are that much taken waits for one of them


@dataclass(slots=True)
class Work:
    """What is to be decided about one plan.

    That is its timer that has run out, else commands, else reports.
    """

    reports: list[tuple[StreamEntry, Report]] = field(default_factory=list)
    commands: list[tuple[StreamEntry | None, Command]] = field(default_factory=list)  # without an entry: our own
    due: Clocks | None = None
    size: int = MESSAGES_A_COMMIT  # of the next decision; 1 once deciding about several at once has failed
    page: int = READY_PAGE
    extra: frozenset[str] = frozenset()  # steps and notes that the decision turned out to need beside those
    full: frozenset[str] = frozenset()  # queues that had no room for what was decided

    @property
    def batch(self) -> list[tuple[StreamEntry, Report]]:
        """The reports of the next decision."""
        return [] if self.due or self.commands else self.reports[: self.size]

    @property
    def next_commands(self) -> list[tuple[StreamEntry | None, Command]]:
        """The commands of the next decision."""
        return [] if self.due else self.commands[: self.size]

    @property
    def messages(self) -> list[tuple[StreamEntry | None, Any]]:
        """What the next decision is about, beside a timer."""
        return [*self.next_commands, *self.batch]

    @property
    def only_pauses(self) -> bool:
        """Whether the next decision only pauses a plan that lost commits.

        That is the one command of our own.
        """
        return not self.due and bool(self.commands) and all(entry is None for entry, _ in self.next_commands)

    def ask(self, plan_id: str) -> Ask:
        """Say which part of the plan the next decision can touch."""
        reports = [report for _, report in self.batch]
        named = dict.fromkeys([report.outcome.step_id for report in reports])
        if self.commands:
            named |= dict.fromkeys([command.step_id for _, command in self.next_commands if command.step_id])
        steps = [*named, *sorted(self.extra - named.keys())] if self.extra else [*named]
        claims_matter = self.due is not None or bool(self.commands) or None in [report.lease for report in reports]
        return Ask(plan_id, steps, claims_matter, self.page)

    def decide(self, snapshot: Snapshot) -> Changeset:
        """Apply what is to be decided to the snapshot. Pure."""
        snapshot.full = self.full
        if self.due:
            return upkeep.apply(snapshot, self.due)
        if self.commands:
            return commands.apply(snapshot, [command for _, command in self.next_commands])
        return outcomes.apply(snapshot, [report for _, report in self.batch])

    def acks(self) -> list[tuple[str, bytes]]:
        """Name the entries that the commit of this decision acknowledges."""
        return [(entry.stream, entry.entry_id) for entry, _ in self.messages if entry]

    def finish(self, changeset: Changeset) -> bool:
        """Take off what was committed; returns whether the plan is finished with."""
        if self.due:
            self.due = None
        elif self.commands:
            del self.commands[: self.size]
        else:
            del self.reports[: self.size]
        self.extra = self.full = frozenset()
        wider = changeset.wider and self.page < MAX_PAGE
        self.page = self.page * 8 if wider else READY_PAGE
        return not (self.reports or self.commands or changeset.more or changeset.short or wider)


class Decided(NamedTuple):
    """A decision ready to be written.

    `work` is None where the commit only gives the lock back.
    """

    plan_id: str
    work: Work | None
    write: Write
