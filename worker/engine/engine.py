"""Applies outcomes and clocks of a partition to their plans, through the pure handlers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from redis import Redis
from redis.exceptions import ResponseError

from tasks.base.batches import batches
from tasks.base.errors import Overtaken
from tasks.handlers.commands import needs_reconcile
from tasks.plan.snapshot import Clocks
from worker.drafters.queue_artifacts import QueueArtifacts
from worker.engine.admission import Quota
from worker.engine.commit_results import CommitResults
from worker.engine.decisions import Decisions
from worker.engine.router import Router
from worker.store import attachments, audit, functions
from worker.store import keys as names
from worker.store.functions import FunctionsMissing
from worker.store.keys import Partition
from worker.store.memory import ServerMemory
from worker.store.named_digests import NamedDigests
from worker.store.plans import PlanStore, PlanTalk, Reconnected, RolledBack
from worker.store.policies import Policies
from worker.streams import release
from worker.streams.inbox import StreamEntry
from worker.telemetry.commit_counts import BatchCounts

P = ParamSpec("P")
T = TypeVar("T")


DRAIN_S = 1.0  # a drain gives its place in the pool back after this long
LINGER_MS = 20  # and when nothing came for this long; an idle server rounds it up to the period of its clock
SHARE_TO_LINGER = 0.2  # share of a drain below which it does not wait for more
TRIES = 3  # of a piece of work after the server lost data; in between the loss is repaired
ROUNDS = 8  # a busy plan waits for the next batch after this many looks
SWEEP_LOCK_MS = 10_000
PATIENCE_S = 10.0  # with plans that others decide about while they have to be paused
DUE_PAGE = 256
CUT_S = 10.0  # between two looks
TARGET = 7 / 8  # a stream above its limit is cut to this share of it
SAMPLES = 20  # nodes of a stream that the server samples to estimate its size


def _with_retries(work: Callable[Concatenate[Engine, P], T]) -> Callable[Concatenate[Engine, P], T]:
    """Return `work` with retries, if the server lost data or functions. A retry starts with the pending entries."""

    @wraps(work)
    def run(self: Engine, /, *args: P.args, **options: P.kwargs) -> T:
        for tries_left in reversed(range(TRIES)):
            try:
                if self._reread:
                    self.router.forget()
                    self.store.hot.clear()
                    self.catch_up()
                    self._apply_pending()
                self._reread = True
                done = work(self, *args, **options)
            except FunctionsMissing:
                functions.load(self.store.client)
                if not tries_left:
                    raise
            except (RolledBack, Reconnected):
                if not tries_left:
                    raise
            else:
                self._reread = False
                return done
        raise AssertionError  # not reached: the last try returned or raised

    return run


class Keeper(Protocol):
    """Maintains the records of a partition's repositories, such as breakers."""

    def look(self) -> bool:
        """Process the repositories that are due. Return whether a bulk command has changed."""
        ...


@dataclass(eq=False, repr=False)
class Engine:
    """Decides about the plans of one partition.

    One per process and partition; not for several threads at once.
    """

    store: PlanStore
    router: Router
    quota: Quota
    memory: ServerMemory
    policies: Policies
    events_s: int = 3600  # for which events are kept
    audit_s: float = 90 * 86_400  # for which audit entries are kept
    keep_diffs: bool = True  # and not only their figures
    keeper: Keeper | None = None  # for records that all plans of a repository share
    drafts: QueueArtifacts | None = None
    pending_look: object = field(default_factory=object, init=False)  # replaced when pending entries were read
    _events: EventKeeper = field(init=False)
    _reread: bool = field(default=True, init=False)  # pending entries; at first the server has to be compared, too
    _batch: BatchCounts = field(default_factory=BatchCounts, init=False)
    _results: CommitResults = field(init=False)
    _decisions: Decisions = field(init=False)
    _named: NamedDigests = field(default_factory=NamedDigests, init=False)

    def __post_init__(self) -> None:
        client, partition = self.store.client, self.store.partition
        self._results = CommitResults(self.store, self.router, self.quota, self._batch, self.drafts)
        self._decisions = Decisions(self.router, self.policies, self._results)
        self._events = EventKeeper(client, partition, self.memory, self.events_s, self.audit_s)

    @_with_retries
    def drain(self, share: float = 1.0) -> bool:
        """Apply outcomes until none arrives, or for `share` of DRAIN_S. Return whether some were read and not applied.

        A small `share` means that other work waits; then it does not wait for more outcomes.
        """
        end = time.monotonic() + DRAIN_S * share
        linger = LINGER_MS if share >= SHARE_TO_LINGER else None
        while self.router.read(linger):
            self._settle(reads_on=True)
            if time.monotonic() >= end:
                break
        self._settle_last()
        return bool(self.router.waiting)

    def apply(self, entries: Sequence[StreamEntry], since: object) -> bool:
        """Apply outcomes that the reader read under this engine's consumer name. Return whether some are not applied.

        `since` is the value of `pending_look` before the read. If it has changed, the engine may have applied these
        outcomes as pending entries already; then it applies only those that are still pending.
        """
        if since is not self.pending_look:  # they may have been applied then, as pending
            self.router.take(entries)
            return self._go_on(read_again=True)
        if not self._reread:  # else they are read again, with all that is pending
            self.router.put(entries)
        return self._go_on()

    @_with_retries
    def _go_on(self, *, read_again: bool = False) -> bool:
        if read_again:
            self._apply_pending()
        self._settle()
        return bool(self.router.waiting)

    @_with_retries
    def recover(self, idle_ms: int) -> int:
        """Take over the entries that a dead worker had read, and apply them. Returns their number."""
        taken = self.router.take_over(idle_ms)
        if taken:
            self._apply_pending()
        return taken

    @_with_retries
    def carry_on(self, plan_id: str) -> None:
        """Continue with the work that a commit about this plan has left."""
        self.router.of(plan_id)
        self._settle_last()

    @_with_retries
    def sweep(self, token: str, share: float = 1.0) -> None:
        """Process due work until none is due, or for `share` of DRAIN_S.

        Does nothing while another worker sweeps. It checks in any case whether the server has lost commits: there may
        have been no other change of a plan since.
        """
        commits = self.store.commits
        connection = commits.compared_on
        if commits.sees_loss():
            raise RolledBack
        if commits.compared_on != connection:  # our knowledge of the server is older than its outage
            raise Reconnected
        self._events.cut()
        self._take_attachments()
        self._look_at_repositories()
        end = time.monotonic() + DRAIN_S * share
        while time.monotonic() < end:
            plans, clocks = self._due(token)
            if not plans:
                self._settle()  # commands for the next commit, which may be far away
                return
            for plan_id in plans:
                self.router.of(plan_id.decode()).due = clocks
            self._settle()
            if self.router.waiting:  # another worker is deciding about them
                return

    def catch_up(self) -> None:
        """Find out which commits the server has lost, and pause each plan that lost one.

        Runs before anything else, and each time the server may have lost commits. Only a person can determine the loss
        of a plan. Raises Overtaken if other workers are deciding about some of these plans.
        """
        lost = self.store.commits.compare()
        if lost is None:
            return
        plans = lost.plans
        if plans is None:
            found: Any = self.store.client.zrange(self.store.partition.plans, 0, -1)
            plans = [plan_id.decode() for plan_id in found]
        for page in batches(plans, DUE_PAGE):
            for plan_id in page:
                self.router.of(plan_id).commands.append((None, needs_reconcile(plan_id, lost.base)))
            end = time.monotonic() + PATIENCE_S
            while self.router.waiting and time.monotonic() < end:
                self._settle()
            if self.router.waiting:
                raise Overtaken("plans that need a person are being decided about")
        self.store.commits.forget_loss()

    def _apply_pending(self) -> None:
        self._settle_last()  # entries stay pending until the commands for them are written
        self.router.let_go()
        for _ in self.router.read_pending():
            self._settle()
        self._settle()
        self.pending_look = object()

    def _due(self, token: str) -> tuple[list[bytes], Clocks]:
        partition = self.store.partition
        keys = (partition.timers, partition.sweep, partition.outcomes)
        reply = functions.call(
            self.store.client, "FCALL", functions.UPKEEP, len(keys), *keys, token, SWEEP_LOCK_MS, DUE_PAGE
        )
        if len(reply) == 1:
            return [], Clocks()
        now, due, *clocks = reply
        if now == clocks[0]:  # sweeping has just gone on after a gap, or the server's clock was set back
            streams = (partition.outcomes, partition.commands, names.GOALS, names.COMMANDS)
            release.date_anew(self.store.client, streams)
        return due, Clocks(*clocks)

    def _settle(self, *, reads_on: bool = False) -> None:
        """Decide about every waiting plan, in rounds; plans that other workers have locked stay for the next batch.

        With `reads_on`, and if many outcomes arrived, the next outcomes are requested before the commits. The engine
        decodes them while the server writes.
        """
        router = self.router
        for _ in range(ROUNDS):
            works = list(router.waiting.items())
            if not works and not router.has_news:
                return
            tight = not self.memory.takes_steps  # asked before the talk, which has the connection to itself
            question = router.question() if reads_on else ()
            self._batch.begin()
            began_ns = time.time_ns()
            with PlanTalk(self.store) as talk:
                decided = self._decisions.make(talk, works, question, tight=tight)
                talk.beside(router.take_beside())
                ahead = router.decode(talk.receive(len(question))) if question else []
                since = time.perf_counter()
                verdicts = talk.verdicts()
                self._batch.commit_s += time.perf_counter() - since
            if router.astray:
                router.send_on()
            concern_repository = False
            for one, verdict in zip(decided, verdicts, strict=True):
                self._results.take(one, verdict, began_ns)
                if one.write:
                    concern_repository |= one.write.changeset.concerns_repository
            if self._batch.counts:
                self._batch.end(verdicts)
            if question:
                router.put_ahead(ahead)
            if concern_repository:
                self._look_at_repositories()
            if not decided or not router.waiting or ahead:  # another look would not help, or is the next batch's
                return

    def _settle_last(self) -> None:
        """Decide about the waiting plans, and also write the counters: this worker may make no further commit."""
        self._settle()
        if self.router.has_news:
            self._settle()

    def _take_attachments(self) -> None:
        store = self.store
        is_full = self.memory.share >= attachments.REFUSED_FROM
        kept = {"keep": self.keep_diffs, "is_full": is_full}
        share = self.router.partitions
        attachments.take(store.client, store.partition, store.retention_s, share, self._named, **kept)

    def _look_at_repositories(self) -> None:
        """Process the due repositories, such as their breakers; that may pause or resume a repository."""
        if self.keeper and self.keeper.look():
            self.store.hot.scopes = None  # the standing commands have changed


class EventKeeper:
    """Keeps the events of a partition for about `kept_s`, and fewer if they use more than their share of memory.

    Whole pages of the stream are removed, so about a hundred events stay regardless of age. The keeper of the first
    partition removes old audit entries, too.
    """

    def __init__(
        self, client: Redis, partition: Partition, memory: ServerMemory, kept_s: int, audit_s: float | None = None
    ) -> None:
        self._client = client
        self._stream = partition.events
        self._memory = memory
        self._kept_s = kept_s
        self._audit_s = None if partition.number else audit_s
        self._cut_at = float("-inf")

    def cut(self) -> None:
        """Remove events that are too old or too many, at most once per CUT_S."""
        if time.monotonic() - self._cut_at < CUT_S:
            return
        self._cut_at = time.monotonic()
        if self._audit_s is not None:
            audit.cut(self._client, self._audit_s)
        now: Any = self._client.time()
        pipeline = self._client.pipeline(transaction=False)
        pipeline.xtrim(self._stream, minid=f"{(now[0] - self._kept_s) * 1000}-0", approximate=True, limit=0)
        pipeline.memory_usage(self._stream, samples=SAMPLES)
        pipeline.xlen(self._stream)
        _, size, length = pipeline.execute(raise_on_error=False)
        most = self._memory.event_bytes()
        if not isinstance(size, ResponseError) and size and size > most:
            self._client.xtrim(self._stream, maxlen=int(length * TARGET * most / size), approximate=True, limit=0)
