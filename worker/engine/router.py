"""Sorts the messages of a partition by plan, and forwards messages for plans of other partitions."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

from msgspec import Struct

from schemas.base import Verdict
from schemas.command import Command
from schemas.envelope import Problem
from tasks.handlers import commands, outcomes, upkeep
from tasks.handlers.bulk_commands import WIDE
from tasks.plan.changeset import Changeset
from tasks.plan.report import PlainReport, Report
from tasks.plan.snapshot import READY_PAGE, Clocks, Snapshot
from worker.store import audit, functions, keys
from worker.store.file_claims import ClaimsAsk
from worker.store.keys import Partition, partition_of
from worker.store.plans import Ask
from worker.streams.decode import read_command, read_outcome, read_plain_outcome
from worker.streams.inbox import BATCH_ENTRIES, Inbox, RedisCommand, StreamEntry
from worker.telemetry import metrics
from worker.telemetry.metrics import HERE

log = logging.getLogger("planner.intake")

COMMANDS_S = 0.2  # between looks for commands while outcomes are drained
RETRY_MS = 60_000  # until a plan is looked at again whose look has failed
FOR_NEWER = "newer-workers"  # consumer for entries that only newer workers may decide
MESSAGES_A_COMMIT = 32  # of one plan; more wait for the next round
LEAST_AHEAD = 64  # outcomes in a batch, so that the next is read before this one is committed
MAX_PAGE = 256  # of the ready queue; a plan whose files are that much taken waits for one of them
NEWER_MS = 2000  # until the timer of such a plan runs out again, perhaps for a newer worker

REPORT, NEEDS_LEASE = itemgetter(1), attrgetter("needs_lease")  # of an entry with its report; of that
NewOutcome = tuple[StreamEntry, PlainReport | None]  # with the report where it has the strict form


class Work(Struct):
    """The waiting messages of one plan. The next decision is about its expired timer, else commands, else reports."""

    reports: list[tuple[StreamEntry, Report | PlainReport]] = []
    commands: list[tuple[StreamEntry | None, Command]] = []  # without an entry: our own
    due: Clocks | None = None
    size: int = MESSAGES_A_COMMIT  # of the next decision; 1 once deciding about several at once has failed
    page: int = READY_PAGE
    extra: frozenset[str] = frozenset()  # further steps and notes that the decision needed
    leases: bool = False  # whether it needed the leases, as controllers wrote them
    full: frozenset[str] = frozenset()  # queues without capacity for the decided steps
    claims: ClaimsAsk | None = None  # files whose claims the decision depends on
    is_general: bool = False  # whether no decision is plain, since one has failed

    @property
    def messages(self) -> list[tuple[StreamEntry | None, Any]]:
        """The commands or reports of the next decision; empty if it is about a timer."""
        if self.due:
            return []
        if self.commands:
            return [*self.commands[: self.size]]
        for place, (entry, report) in enumerate(self.reports[: self.size]):
            if isinstance(report, PlainReport):
                self.reports[place] = entry, report.ordinary()
        return [*self.reports[: self.size]]

    @property
    def plain(self) -> list[PlainReport]:
        """The reports of the next decision if all can be decided the plain way; else an empty list."""
        found = []
        for _, report in self.reports[: self.size]:
            if not isinstance(report, PlainReport):
                return []
            found.append(report)
        if len(found) > 1 and len({report.said.step_id for report in found}) < len(found):
            return []  # two reports of one step are judged together
        return found

    @property
    def needs_no_reading(self) -> bool:
        """Whether a hot plan suffices for the decision: the messages are only outcomes, and all name their leases."""
        if self.due or self.commands or self.extra or self.full or self.claims or self.leases or self.is_general:
            return False
        return not any(map(NEEDS_LEASE, map(REPORT, self.reports[: self.size])))

    @property
    def only_pauses(self) -> bool:
        """Whether the next decision only pauses a plan that lost commits: then all commands are the planner's own."""
        return not self.due and bool(self.commands) and all(entry is None for entry, _ in self.messages)

    def ask(self, plan_id: str) -> Ask:
        """Return the part of the plan that the next decision can touch."""
        if self.due or self.commands:
            named = [command.step_id for _, command in self.messages if command.step_id]
            claims_matter = True
        else:
            reports = self.reports[: self.size]
            named = [report.step_id for _, report in reports]
            claims_matter = self.leases or any(map(NEEDS_LEASE, map(REPORT, reports)))
        steps = dict.fromkeys([*named, *sorted(self.extra)])
        return Ask(plan_id, list(steps), claims_matter, self.page, self.claims)

    def decide(self, snapshot: Snapshot) -> Changeset:
        """Return the changeset of the next decision on the snapshot. Pure."""
        snapshot.full = self.full
        if self.due:
            return upkeep.apply(snapshot, self.due)
        messages = [message for _, message in self.messages]
        return commands.apply(snapshot, messages) if self.commands else outcomes.apply(snapshot, messages)

    def finish(self, changeset: Changeset) -> bool:
        """Remove the committed messages. Returns whether the plan has no more work."""
        if self.due:
            self.due = None
        elif self.commands:
            del self.commands[: self.size]
        else:
            del self.reports[: self.size]
        self.extra = self.full = frozenset()
        self.leases = False
        self.claims = None
        wider = changeset.wider and self.page < MAX_PAGE
        self.page = self.page * 8 if wider else READY_PAGE
        return not (self.reports or self.commands or changeset.more or changeset.short or wider)


@dataclass(eq=False, repr=False)
class Router:
    """The waiting messages of each plan, and the commands to send to the server with the next commits."""

    inbox: Inbox
    commands: Inbox
    partition: Partition
    partitions: int
    max_failures: int
    waiting: dict[str, Work] = field(default_factory=dict)
    applied: Counter[str] = field(default_factory=Counter)  # counters of committed decisions
    tally: Counter[str] = field(default_factory=Counter)  # counters of the commands in `beside`
    beside: list[RedisCommand] = field(default_factory=list)
    astray: list[tuple[StreamEntry, str]] = field(default_factory=list, init=False)  # and the partition of its plan
    _looked: float = field(default=0.0, init=False)  # when commands were read
    _came: int = field(default=0, init=False)  # outcomes with the last reading of new ones
    _is_ahead: bool = field(default=False, init=False)  # whether that reading was early
    _left_some: bool = field(default=False, init=False)  # to newer workers, with a log line

    def of(self, plan_id: str) -> Work:
        """Return the work of this plan."""
        return self.waiting.setdefault(plan_id, Work())

    def read(self, block_ms: int | None) -> bool:
        """Read a batch of outcomes, and at times commands. Return whether there is anything to decide or write.

        Waits up to `block_ms` for the first outcome. With None, it does not wait, and always reads commands.
        """
        if block_ms is None or time.monotonic() - self._looked >= COMMANDS_S:
            self._looked = time.monotonic()
            if commands := self.commands.read():
                self._sort_commands(commands)
        if not (self._is_ahead and self.waiting):
            entries = self.inbox.read(block_ms=None if self.waiting else block_ms)
            self._came = len(entries)
            self.put(entries)
        self._is_ahead = False
        return bool(self.waiting or self.beside)

    def question(self) -> Sequence[RedisCommand]:
        """Return the command that reads more outcomes; empty if few arrived last time, or over a batch waits."""
        if self._came < LEAST_AHEAD or sum([len(work.reports) for work in self.waiting.values()]) > BATCH_ENTRIES:
            return ()
        return (self.inbox.read_command(),)

    def decode(self, replies: Sequence[Any]) -> list[NewOutcome]:
        """Return the outcomes in the reply to `question`.

        An error reply is skipped: the next `read` reports the same error.
        """
        read = [self.inbox.entries_of(reply) for reply in replies if not isinstance(reply, Exception)]
        return [(entry, read_plain_outcome(entry)) for entry in chain.from_iterable(read)]

    def put_ahead(self, outcomes: Sequence[NewOutcome]) -> None:
        """Add outcomes that were read early; the next `read` then reads none."""
        self._came = len(outcomes)
        self._is_ahead = bool(outcomes)
        self._put(outcomes)

    def take_over(self, idle_ms: int) -> int:
        """Take over entries that a dead worker had read. Returns their number; they are read as pending."""
        taken = self.inbox.take_over(idle_ms) + self.commands.take_over(idle_ms)
        if taken:
            log.warning("entries taken over", extra={"stream": self.inbox.stream, "count": taken})
            HERE.count(metrics.TAKEN_OVER, by=taken)
        return taken

    def take(self, entries: Sequence[StreamEntry]) -> None:
        """Take over those of `entries` that are still pending, to be read as pending."""
        for command in self.inbox.give_away(entries, self.inbox.consumer):
            functions.call(self.inbox.client, *command)

    def read_pending(self) -> Iterator[None]:
        """Read again, page by page, every entry that is pending here. Entries that cannot be decided stay pending."""
        self._sort_commands(self.commands.read(after="0"))
        after = "0"
        while entries := self.inbox.read(after=after):
            self.put(entries)
            yield
            after = entries[-1].entry_id.decode()

    def let_go(self) -> None:
        """Drop the waiting messages, so that they are read again as pending entries; timers and leftover work stay."""
        for plan_id, work in [*self.waiting.items()]:
            if work.due:
                work.reports, work.commands = [], [each for each in work.commands if each[0] is None]
            elif work.reports or any(entry for entry, _ in work.commands):
                del self.waiting[plan_id]

    def forget(self) -> None:
        """Drop everything that was read, also timers and counters; the entries are still pending and are read again."""
        self.waiting.clear()
        self.beside.clear()
        self.tally.clear()
        self.astray.clear()

    def _sort_commands(self, entries: Sequence[StreamEntry]) -> None:
        for entry in entries:
            if not entry.fields:  # deleted while it was pending
                self.beside += self.commands.drop((entry,))
                continue
            found = read_command(entry)
            if isinstance(found, Problem):
                self._dead_letter(entry, found)
            elif found.plan_id is None or found.scope in WIDE:
                self._forward(entry, keys.COMMANDS)
            else:
                self.of(found.plan_id).commands.append((entry, found))

    def put(self, entries: Sequence[StreamEntry]) -> None:
        """Add each entry to the work of its plan; forward or dead-letter entries that belong nowhere here."""
        self._put(zip(entries, map(read_plain_outcome, entries), strict=True))

    def _put(self, outcomes: Iterable[NewOutcome]) -> None:
        for entry, plain in outcomes:
            if plain is not None:
                self.waiting.setdefault(plain.said.plan_id, Work()).reports.append((entry, plain))
                continue
            if not entry.fields:  # deleted while it was pending
                self.beside += self.inbox.drop((entry,))
                continue
            try:
                found = read_outcome(entry)
            except Exception as error:  # an unexpected error is one bad entry, not the end of the partition
                log.exception("entry unreadable", extra={"stream": entry.stream, "entry": entry.entry_id.decode()})
                found = Problem.of("unreadable", f"Reading it failed: {type(error).__name__}.")
            if isinstance(found, Problem):
                self._dead_letter(entry, found)
            else:
                plan_id, report = found
                if report.unknown:
                    self.tally["unknown_fields"] += report.unknown
                self.of(plan_id).reports.append((entry, report))

    @property
    def has_news(self) -> bool:
        """Whether there is anything to write in addition to the commits."""
        return bool(self.beside or self.tally or self.applied)

    def take_beside(self) -> list[RedisCommand]:
        """Return the server commands to send with the next commit, and forget them. One of them adds all counters."""
        counts = [*chain.from_iterable((self.tally + self.applied).items())]
        commands, self.beside = self.beside, []
        if counts:
            commands.append(("FCALL", functions.COUNT, 1, self.partition.stats, *counts))
        self.tally.clear()
        self.applied.clear()
        return commands

    def answer_gone(self, plan_id: str, work: Work) -> None:
        """Answer the messages about a plan that this partition does not have.

        If the plan belongs to another partition, the messages are forwarded. Otherwise outcomes get the verdict
        `unknown`, and commands are dead-lettered. Only a missing plan is forwarded: after a change of the number of
        partitions, plans stay in their partition.
        """
        del self.waiting[plan_id]
        if work.due:
            places = (self.partition.timers, self.partition.plans, self.partition.plan(plan_id).plan)
            self.beside.append(("FCALL", functions.FORGET, len(places), *places, plan_id))
        partition = Partition(partition_of(plan_id, self.partitions))
        if partition.number != self.partition.number:
            self.astray += [(entry, partition.outcomes) for entry, _ in work.reports]
            self.astray += [(entry, partition.commands) for entry, _ in work.commands if entry]
            return
        self.tally[Verdict.UNKNOWN] += len(work.reports)
        HERE.count(metrics.OUTCOMES, Verdict.UNKNOWN, "none", by=len(work.reports))
        self.beside += self.inbox.drop([entry for entry, _ in work.reports])
        for entry, command in [(entry, command) for entry, command in work.commands if entry]:
            self._dead_letter(entry, Problem.of("unknown_plan", f"There is no plan {plan_id}.", status=404))
            gone = (entry.field("source"), audit.REFUSED, "there is no such plan")
            self.beside.append(audit.call_of_command(command, *gone))

    def leave_to_newer(self, plan_id: str, work: Work, now: int) -> None:
        """Leave a plan to workers that know its rules.

        They take over its entries, and its timer expires again. The entries go to an unused consumer, so that the next
        worker to take them over may be a newer one. Without a newer worker they wait there, and return to every worker
        once per `claim_idle_s`. Nothing of the plan is lost or changed.
        """
        entries = [entry for entry, _ in [*work.commands, *work.reports] if entry]
        self.beside += self.inbox.give_away(entries, FOR_NEWER)
        if work.due:
            self.beside.append(("FCALL", functions.REMIND, 1, self.partition.timers, now + NEWER_MS, 0, plan_id))
        del self.waiting[plan_id]
        self.tally["newer"] += 1
        if not self._left_some:  # log it only once
            log.warning("plans left to newer workers", extra={"plan_id": plan_id})
        self._left_some = True

    def isolate_failure(self, plan_id: str, work: Work, now: int) -> None:
        """Find the entry that makes a decision fail, by trying entries one by one.

        After too many failures it is poison.
        """
        if len(work.messages) > 1:
            work.size = 1
            return
        if work.due:  # its clocks can wait, and the other messages are not the cause
            self.beside.append(("FCALL", functions.REMIND, 1, self.partition.timers, now + RETRY_MS, 0, plan_id))
        for entry in [entry for entry, _ in work.messages if entry]:
            if removal := self.inbox.count_failure(entry, self.partition.failures, self.max_failures):
                self._dead(entry, "poison", removal)
        if work.finish(Changeset(plan_id, 0, now)):
            self.waiting.pop(plan_id, None)

    def _dead_letter(self, entry: StreamEntry, problem: Problem) -> None:
        self._dead(entry, problem.code, self.inbox.dead_letter(entry, problem))

    def _dead(self, entry: StreamEntry, code: str, removal: Sequence[RedisCommand]) -> None:
        log.warning("entry dead", extra={"stream": entry.stream, "entry": entry.entry_id.decode(), "code": code})
        self.beside += removal
        self.tally.update(("dead", f"dead:{code}"))
        HERE.count(metrics.DEAD, code)

    def send_on(self) -> None:
        """Forward messages for plans of other partitions. Needs exclusive use of the connection."""
        for entry, target in self.astray:
            self._forward(entry, target)
        self.astray.clear()

    def _forward(self, entry: StreamEntry, target: str) -> None:
        self.inbox.forward(entry, target)
        self.tally["forwarded"] += 1
