"""Outcomes and clocks of a partition, through the pure handlers into their plans (DESIGN.md section 3)."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from redis.exceptions import ResponseError

from schemas.base import Verdict, unknown_fields
from schemas.envelope import Problem
from tasks.batches import batches
from tasks.change import Change
from tasks.errors import NeedsSteps
from tasks.outcomes import Report
from tasks.view import Slice
from worker.inbox import Command, Entry, Inbox
from worker.reading import read_command, read_outcome
from worker.store import functions
from worker.store.functions import FunctionsMissing
from worker.store.keys import Partition, partition_of
from worker.store.plans import Begun, NoSlice, PlanStore, Unreadable, Write
from worker.work import Decided, Work

log = logging.getLogger("planner.engine")

DRAIN_S = 1.0  # a drain gives its place in the pool back after this long
LINGER_MS = 20  # and when nothing came for this long; an idle server rounds it up to the period of its clock
ORDERS_S = 0.2  # between looks for orders during a drain
ROUNDS = 8  # a busy plan waits for the next batch after this many looks
SWEEP_LOCK_MS = 10_000
DUE_PAGE = 256
RETRY_MS = 60_000  # until a plan is looked at again whose look has failed
DECIDE_AT_ONCE = 32  # plans decided while the server reads the next ones


class Engine:
    """Decides about the plans of one partition. One per process and partition; not for several threads at once."""

    def __init__(
        self,
        store: PlanStore,
        inbox: Inbox,
        orders: Inbox,
        client: Any,
        partition: Partition,
        partitions: int,
        max_failures: int,
    ) -> None:
        self._store = store
        self._inbox = inbox
        self._orders = orders
        self._looked = 0.0
        self._client = client
        self._partition = partition
        self._partitions = partitions
        self._max_failures = max_failures
        self._waiting: dict[str, Work] = {}
        self._tally: Counter[str] = Counter()
        self._beside: list[Command] = []
        self._reread = False

    def drain(self) -> bool:
        """Apply outcomes until none comes for LINGER_MS or DRAIN_S are over; returns whether some may be left."""
        end = time.monotonic() + DRAIN_S
        with self._rereading():
            while time.monotonic() < end:
                self._look_for_orders()
                entries = self._inbox.read(block_ms=None if self._waiting else LINGER_MS)
                if not entries and not self._waiting:
                    break
                self._sort(entries)
                self._settle()
            else:
                return True
            self._settle()  # the last counters
        return False

    def _look_for_orders(self) -> None:
        """Read what operators order, now and then: an order may wait a little, an outcome should not for its sake."""
        if time.monotonic() - self._looked >= ORDERS_S:
            self._looked = time.monotonic()
            self._sort_orders(self._orders.read())

    def _sort_orders(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            found = read_command(entry)
            if isinstance(found, Problem):
                self._bury(entry, found)
            else:
                self._waiting.setdefault(found[0], Work()).orders.append((entry, found[1]))

    @contextmanager
    def _rereading(self) -> Iterator[None]:
        """After a failure nobody knows what was committed: begin anew from the entries that are still pending."""
        if self._reread:
            self._apply_pending()
        self._reread = True
        try:
            yield
        except FunctionsMissing:
            self._forget()
            functions.load(self._client)
            self._apply_pending()
        except BaseException:
            self._forget()
            raise
        self._reread = False

    def _forget(self) -> None:
        """Drop what was read: it is still pending, and will be read again."""
        self._waiting.clear()
        self._beside.clear()

    def recover(self, idle_ms: int) -> int:
        """Take over and apply what a dead worker had read; returns how many entries that were."""
        taken = self._inbox.take_over(idle_ms) + self._orders.take_over(idle_ms)
        if taken:
            log.warning("entries taken over", extra={"stream": self._inbox.stream, "count": taken})
            self._apply_pending()
        return taken

    def _apply_pending(self) -> None:
        """Apply every entry that is pending here, page by page; what cannot be decided stays pending."""
        self._sort_orders(self._orders.read(after="0"))
        after = "0"
        while entries := self._inbox.read(after=after):
            self._sort(entries)
            self._settle()
            after = entries[-1].entry_id.decode()

    def sweep(self, token: str) -> None:
        """Hand out due work until none is due or DRAIN_S are over; does nothing while another worker sweeps."""
        end = time.monotonic() + DRAIN_S
        with self._rereading():
            while time.monotonic() < end:
                plans = self._due(token)
                if not plans:
                    return
                for plan_id in plans:
                    self._waiting.setdefault(plan_id.decode(), Work()).due = True
                self._settle()
                if self._waiting:  # another worker has its hands on them
                    return

    def _due(self, token: str) -> list[bytes]:
        keys = (self._partition.timers, self._partition.sweep)
        reply = functions.call(
            self._client, "FCALL", functions.UPKEEP, len(keys), *keys, token, SWEEP_LOCK_MS, DUE_PAGE
        )
        return reply[1] if len(reply) > 1 else []

    def carry_on(self, plan_id: str) -> None:
        """Go on with work that a commit left over, such as the first steps of a large plan."""
        self._waiting.setdefault(plan_id, Work())
        self._settle()

    def _sort(self, entries: Sequence[Entry]) -> None:
        """Put each entry with its plan; what is not for us or cannot be read goes where it belongs."""
        for entry in entries:
            if not entry.fields:  # deleted while it was pending
                self._beside += self._inbox.drop((entry,))
                continue
            found = self._read(entry)
            if isinstance(found, Problem):
                self._bury(entry, found)
            elif partition_of(found[0], self._partitions) != self._partition.number:
                self._forward(entry, found[0])
            else:
                self._tally["unknown_fields"] += unknown_fields(found[1].outcome)
                self._waiting.setdefault(found[0], Work()).reports.append((entry, found[1]))

    def _read(self, entry: Entry) -> tuple[str, Report] | Problem:
        """Read an outcome; what nobody thought of is one bad entry, not the end of the partition."""
        try:
            return read_outcome(entry)
        except Exception as error:
            log.exception("entry unreadable", extra={"stream": entry.stream, "entry": entry.entry_id.decode()})
            return Problem.of("unreadable", f"Reading it failed: {type(error).__name__}.")

    def _settle(self) -> None:
        """Decide about every plan that waits, round by round on fresh state; busy plans stay for the next batch."""
        for _ in range(ROUNDS):
            if not self._round():
                break

    def _round(self) -> bool:
        """Look once at every plan that waits; returns whether another look could help."""
        works = list(self._waiting.items())
        asks = [work.ask(plan_id) for plan_id, work in works]
        decided: list[Decided] = []
        if not works and not self._tally and not self._beside:
            return False
        with self._store.talk() as talk:
            talk.begin(asks)
            for some, part in zip(batches(works, DECIDE_AT_ONCE), batches(asks, DECIDE_AT_ONCE), strict=True):
                fresh = self._decide_all(some, talk.slices(part))
                talk.commit([one.write for one in fresh])
                decided += fresh
            talk.beside(self._take_beside())
            verdicts = talk.verdicts()
        for one, verdict in zip(decided, verdicts, strict=True):
            self._finish(one, verdict)
        return bool(decided and self._waiting)

    def _decide_all(self, works: Sequence[tuple[str, Work]], views: Sequence[Begun]) -> list[Decided]:
        decided = []
        for (plan_id, work), view in zip(works, views, strict=True):
            if isinstance(view, Slice):
                decided.append(self._decide(work, view))
            elif view is NoSlice.GONE:
                self._gone(plan_id, work)
            elif isinstance(view, Unreadable):
                log.error("plan unreadable", extra={"plan_id": plan_id, "error": str(view)})
                self._failed(plan_id, work, time.time_ns() // 1_000_000)
        return decided

    def _decide(self, work: Work, view: Slice) -> Decided:
        """Decide about one plan. Where that fails the commit writes nothing and only gives the lock back."""
        plan_id, nothing = view.plan_id, Change(view.plan_id, view.record.version, view.now)
        try:
            return Decided(plan_id, work, Write(work.decide(view), work.acks()))
        except NeedsSteps as missing:
            work.extra |= missing.step_ids
        except Exception:
            log.exception("decision failed", extra={"plan_id": plan_id})
            self._failed(plan_id, work, view.now)
        return Decided(plan_id, None, Write(nothing))

    def _finish(self, one: Decided, verdict: str | ResponseError) -> None:
        if isinstance(verdict, ResponseError):
            log.error("commit refused", extra={"plan_id": one.plan_id, "error": str(verdict)})
            self._failed(one.plan_id, one.work or Work(), one.write.change.now)
        elif verdict == "ok" and one.work:
            self._tally.update(one.write.change.verdicts)
            if one.work.done(one.write.change):
                del self._waiting[one.plan_id]

    def _take_beside(self) -> list[Command]:
        """Take the commands that go with the next commit, the counters among them: one each, whatever the batch."""
        counts = [("HINCRBY", self._partition.stats, name, count) for name, count in self._tally.items() if count]
        commands = [*self._beside, *counts]
        self._beside = []
        self._tally.clear()
        return commands

    def _gone(self, plan_id: str, work: Work) -> None:
        """Answer messages about a plan that is not there: they write nothing but their verdict."""
        self._tally[Verdict.UNKNOWN] += len(work.reports)
        self._beside += self._inbox.drop([entry for entry, _ in work.reports])
        for entry, _ in work.orders:
            self._bury(entry, Problem.of("unknown_plan", f"There is no plan {plan_id}.", status=404))
        if work.due:
            self._beside += [("ZREM", self._partition.timers, plan_id), ("ZREM", self._partition.plans, plan_id)]
        del self._waiting[plan_id]

    def _failed(self, plan_id: str, work: Work, now: int) -> None:
        """Find the entry with which deciding fails, by trying them one by one; who fails too often is poison."""
        if len(work.batch) > 1:
            work.size = 1
            return
        for entry, _ in [*work.orders, *work.batch]:
            count = self._client.hincrby(self._partition.failures, entry.entry_id, 1)
            if count >= self._max_failures:
                detail = f"Deciding about it failed {count} times; the worker's log says how."
                self._beside += self._inbox.bury(entry, Problem.of("poison", detail, status=500), now)
                self._beside.append(("HDEL", self._partition.failures, entry.entry_id))
                self._tally["dead"] += 1
        if work.due:
            self._beside.append(("ZADD", self._partition.timers, now + RETRY_MS, plan_id))
        if work.done(Change(plan_id, 0, now)):
            self._waiting.pop(plan_id, None)

    def _bury(self, entry: Entry, problem: Problem) -> None:
        log.warning(
            "entry dead", extra={"stream": entry.stream, "entry": entry.entry_id.decode(), "code": problem.code}
        )
        self._beside += self._inbox.bury(entry, problem, time.time_ns() // 1_000_000)
        self._tally["dead"] += 1

    def _forward(self, entry: Entry, plan_id: str) -> None:
        target = Partition(partition_of(plan_id, self._partitions)).outcomes
        flat = [part for pair in entry.fields.items() for part in pair]
        self._beside += [("XADD", target, "*", *flat), *self._inbox.drop((entry,))]
        self._tally["forwarded"] += 1
