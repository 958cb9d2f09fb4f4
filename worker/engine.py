"""Outcomes and clocks of a partition, through the pure handlers into their plans (DESIGN.md section 3)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from redis.exceptions import ResponseError

from tasks.batches import batches
from tasks.change import Change
from tasks.errors import NeedsSteps
from tasks.view import Slice
from worker.intake import Intake
from worker.store import functions
from worker.store.functions import FunctionsMissing
from worker.store.keys import Partition
from worker.store.plans import Begun, NoSlice, PlanStore, Unreadable, Write
from worker.work import Decided, Work

log = logging.getLogger("planner.engine")

DRAIN_S = 1.0  # a drain gives its place in the pool back after this long
LINGER_MS = 20  # and when nothing came for this long; an idle server rounds it up to the period of its clock
ROUNDS = 8  # a busy plan waits for the next batch after this many looks
SWEEP_LOCK_MS = 10_000
DUE_PAGE = 256
DECIDE_AT_ONCE = 32  # plans decided while the server reads the next ones


class Engine:
    """Decides about the plans of one partition. One per process and partition; not for several threads at once."""

    def __init__(self, store: PlanStore, intake: Intake, client: Any, partition: Partition) -> None:
        self._store = store
        self._intake = intake
        self._client = client
        self._partition = partition
        self._reread = False

    def drain(self) -> bool:
        """Apply outcomes until none comes for LINGER_MS or DRAIN_S are over; returns whether some may be left."""
        end = time.monotonic() + DRAIN_S
        with self._rereading():
            while time.monotonic() < end:
                if not self._intake.read(LINGER_MS):
                    break
                self._settle()
            else:
                return True
            self._settle()  # the last counters
        return False

    @contextmanager
    def _rereading(self) -> Iterator[None]:
        """After a failure nobody knows what was committed: begin anew from the entries that are still pending."""
        if self._reread:
            self._apply_pending()
        self._reread = True
        try:
            yield
        except FunctionsMissing:
            self._intake.forget()
            functions.load(self._client)
            self._apply_pending()
        except BaseException:
            self._intake.forget()
            raise
        self._reread = False

    def recover(self, idle_ms: int) -> int:
        """Take over and apply what a dead worker had read; returns how many entries that were."""
        taken = self._intake.take_over(idle_ms)
        if taken:
            self._apply_pending()
        return taken

    def _apply_pending(self) -> None:
        for _ in self._intake.pending():
            self._settle()
        self._settle()

    def sweep(self, token: str) -> None:
        """Hand out due work until none is due or DRAIN_S are over; does nothing while another worker sweeps."""
        end = time.monotonic() + DRAIN_S
        with self._rereading():
            while time.monotonic() < end:
                plans = self._due(token)
                if not plans:
                    return
                for plan_id in plans:
                    self._intake.of(plan_id.decode()).due = True
                self._settle()
                if self._intake.waiting:  # another worker has its hands on them
                    return

    def _due(self, token: str) -> list[bytes]:
        keys = (self._partition.timers, self._partition.sweep)
        reply = functions.call(
            self._client, "FCALL", functions.UPKEEP, len(keys), *keys, token, SWEEP_LOCK_MS, DUE_PAGE
        )
        return reply[1] if len(reply) > 1 else []

    def carry_on(self, plan_id: str) -> None:
        """Go on with work that a commit left over, such as the first steps of a large plan."""
        self._intake.of(plan_id)
        self._settle()

    def _settle(self) -> None:
        """Decide about every plan that waits, round by round on fresh state; busy plans stay for the next batch."""
        for _ in range(ROUNDS):
            if not self._round():
                break

    def _round(self) -> bool:
        """Look once at every plan that waits; returns whether another look could help."""
        works = list(self._intake.waiting.items())
        asks = [work.ask(plan_id) for plan_id, work in works]
        decided: list[Decided] = []
        if not works and not self._intake.tally and not self._intake.beside:
            return False
        with self._store.talk() as talk:
            talk.begin(asks)
            for some, part in zip(batches(works, DECIDE_AT_ONCE), batches(asks, DECIDE_AT_ONCE), strict=True):
                fresh = self._decide_all(some, talk.slices(part))
                talk.commit([one.write for one in fresh])
                decided += fresh
            talk.beside(self._intake.take_beside())
            verdicts = talk.verdicts()
        for one, verdict in zip(decided, verdicts, strict=True):
            self._finish(one, verdict)
        return bool(decided and self._intake.waiting)

    def _decide_all(self, works: Sequence[tuple[str, Work]], views: Sequence[Begun]) -> list[Decided]:
        decided = []
        for (plan_id, work), view in zip(works, views, strict=True):
            if isinstance(view, Slice):
                decided.append(self._decide(work, view))
            elif view is NoSlice.GONE:
                self._intake.gone(plan_id, work)
            elif isinstance(view, Unreadable):
                log.error("plan unreadable", extra={"plan_id": plan_id, "error": str(view)})
                self._intake.failed(plan_id, work, time.time_ns() // 1_000_000)
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
            self._intake.failed(plan_id, work, view.now)
        return Decided(plan_id, None, Write(nothing))

    def _finish(self, one: Decided, verdict: str | ResponseError) -> None:
        if isinstance(verdict, ResponseError):
            log.error("commit refused", extra={"plan_id": one.plan_id, "error": str(verdict)})
            self._intake.failed(one.plan_id, one.work or Work(), one.write.change.now)
        elif verdict == "ok" and one.work:
            self._intake.tally.update(one.write.change.verdicts)
            if one.work.done(one.write.change):
                del self._intake.waiting[one.plan_id]
