"""What comes in for a partition, sorted by plan; and what goes elsewhere: dead, forwarded, counted."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from schemas.base import Verdict, unknown_fields
from schemas.envelope import Problem
from tasks.change import Change
from tasks.outcomes import Report
from worker.inbox import Command, Entry, Inbox
from worker.reading import read_command, read_outcome
from worker.store.keys import Partition, partition_of
from worker.work import Work

log = logging.getLogger("planner.intake")

ORDERS_S = 0.2  # between looks for orders while outcomes are drained
RETRY_MS = 60_000  # until a plan is looked at again whose look has failed


class Intake:
    """Holds what waits to be decided, by plan, and the commands that travel beside the next commits."""

    def __init__(
        self, inbox: Inbox, orders: Inbox, client: Any, partition: Partition, partitions: int, max_failures: int
    ) -> None:
        self._inbox = inbox
        self._orders = orders
        self._client = client
        self._partition = partition
        self._partitions = partitions
        self._max_failures = max_failures
        self._looked = 0.0
        self.waiting: dict[str, Work] = {}
        self.tally: Counter[str] = Counter()
        self.beside: list[Command] = []

    def of(self, plan_id: str) -> Work:
        """What waits for this plan."""
        return self.waiting.setdefault(plan_id, Work())

    def read(self, block_ms: int | None) -> bool:
        """Read a batch of outcomes, and now and then orders; returns whether anything waits to be decided."""
        if time.monotonic() - self._looked >= ORDERS_S:
            self._looked = time.monotonic()
            self._sort_orders(self._orders.read())
        self._sort(self._inbox.read(block_ms=None if self.waiting else block_ms))
        return bool(self.waiting or self.beside)

    def take_over(self, idle_ms: int) -> int:
        """Make entries ours that a dead worker had read; returns how many, to be read as pending."""
        taken = self._inbox.take_over(idle_ms) + self._orders.take_over(idle_ms)
        if taken:
            log.warning("entries taken over", extra={"stream": self._inbox.stream, "count": taken})
        return taken

    def pending(self) -> Iterator[None]:
        """Read again, page by page, every entry that is pending here; what cannot be decided stays so."""
        self._sort_orders(self._orders.read(after="0"))
        after = "0"
        while entries := self._inbox.read(after=after):
            self._sort(entries)
            yield
            after = entries[-1].entry_id.decode()

    def forget(self) -> None:
        """Drop what was read: it is still pending, and will be read again."""
        self.waiting.clear()
        self.beside.clear()

    def _sort_orders(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            found = read_command(entry)
            if isinstance(found, Problem):
                self._bury(entry, found)
            else:
                self.of(found[0]).orders.append((entry, found[1]))

    def _sort(self, entries: Sequence[Entry]) -> None:
        """Put each entry with its plan; what is not for us or cannot be read goes where it belongs."""
        for entry in entries:
            if not entry.fields:  # deleted while it was pending
                self.beside += self._inbox.drop((entry,))
                continue
            found = self._read(entry)
            if isinstance(found, Problem):
                self._bury(entry, found)
            elif partition_of(found[0], self._partitions) != self._partition.number:
                self._forward(entry, found[0])
            else:
                self.tally["unknown_fields"] += unknown_fields(found[1].outcome)
                self.of(found[0]).reports.append((entry, found[1]))

    def _read(self, entry: Entry) -> tuple[str, Report] | Problem:
        """Read an outcome; what nobody thought of is one bad entry, not the end of the partition."""
        try:
            return read_outcome(entry)
        except Exception as error:
            log.exception("entry unreadable", extra={"stream": entry.stream, "entry": entry.entry_id.decode()})
            return Problem.of("unreadable", f"Reading it failed: {type(error).__name__}.")

    def take_beside(self) -> list[Command]:
        """Take the commands that go with the next commit, the counters among them: one each, whatever the batch."""
        counts = [("HINCRBY", self._partition.stats, name, count) for name, count in self.tally.items() if count]
        commands = [*self.beside, *counts]
        self.beside = []
        self.tally.clear()
        return commands

    def gone(self, plan_id: str, work: Work) -> None:
        """Answer messages about a plan that is not there: they write nothing but their verdict."""
        self.tally[Verdict.UNKNOWN] += len(work.reports)
        self.beside += self._inbox.drop([entry for entry, _ in work.reports])
        for entry, _ in work.orders:
            self._bury(entry, Problem.of("unknown_plan", f"There is no plan {plan_id}.", status=404))
        if work.due:
            self.beside += [("ZREM", self._partition.timers, plan_id), ("ZREM", self._partition.plans, plan_id)]
        del self.waiting[plan_id]

    def failed(self, plan_id: str, work: Work, now: int) -> None:
        """Find the entry with which deciding fails, by trying them one by one; who fails too often is poison."""
        if len(work.batch) > 1:
            work.size = 1
            return
        if work.due:  # its clocks can wait, and what else came is not to blame
            self.beside.append(("ZADD", self._partition.timers, now + RETRY_MS, plan_id))
        for entry, _ in [] if work.due else [*work.orders, *work.batch]:
            count = self._client.hincrby(self._partition.failures, entry.entry_id, 1)
            if count >= self._max_failures:
                detail = f"Deciding about it failed {count} times; the worker's log says how."
                self.beside += self._inbox.bury(entry, Problem.of("poison", detail, status=500), now)
                self.beside.append(("HDEL", self._partition.failures, entry.entry_id))
                self.tally["dead"] += 1
        if work.done(Change(plan_id, 0, now)):
            self.waiting.pop(plan_id, None)

    def _bury(self, entry: Entry, problem: Problem) -> None:
        log.warning(
            "entry dead", extra={"stream": entry.stream, "entry": entry.entry_id.decode(), "code": problem.code}
        )
        self.beside += self._inbox.bury(entry, problem, time.time_ns() // 1_000_000)
        self.tally["dead"] += 1

    def _forward(self, entry: Entry, plan_id: str) -> None:
        target = Partition(partition_of(plan_id, self._partitions)).outcomes
        flat = [part for pair in entry.fields.items() for part in pair]
        self.beside += [("XADD", target, "*", *flat), *self._inbox.drop((entry,))]
        self.tally["forwarded"] += 1
