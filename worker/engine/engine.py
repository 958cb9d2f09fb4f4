"""Outcomes and clocks of a partition, through the pure handlers into their plans."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from itertools import chain
from typing import Any, Concatenate, ParamSpec, TypeVar

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tasks.base.batches import batches
from tasks.base.errors import EVERY_STEP, NeedsSteps, Overtaken
from tasks.base.policy import BUILT_IN
from tasks.base.policy_version import is_newer
from tasks.handlers.commands import needs_reconcile
from tasks.plan.changeset import Changeset
from tasks.plan.hot_plan import HotPlan
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.plan.snapshot import Clocks, Snapshot
from tasks.policy import plain_success
from worker.engine.commit_results import CommitResults, Decided, describe
from worker.engine.quota import Quota
from worker.engine.router import Router, Work
from worker.host.code_version import CODE_VERSION
from worker.store import functions, goal_record
from worker.store import keys as names
from worker.store.event_keeper import EventKeeper
from worker.store.functions import FunctionsMissing
from worker.store.list_keeper import ListKeeper
from worker.store.memory import ServerMemory
from worker.store.plans import (
    Begun,
    NoSnapshot,
    PlanStore,
    PlanTalk,
    Reconnected,
    RolledBack,
    UnreadablePlan,
    Write,
)
from worker.store.policies import Policies
from worker.streams import release
from worker.streams.inbox import StreamEntry
from worker.telemetry import tracing
from worker.telemetry.commit_counts import BatchCounts

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger("planner.engine")

DRAIN_S = 1.0  # a drain gives its place in the pool back after this long
LINGER_MS = 20  # and when nothing came for this long; an idle server rounds it up to the period of its clock
SHARE_TO_LINGER = 0.2  # of a drain, below which it ends where nothing more is there
TRIES = 3  # of a piece of work whose server had lost something; what may be lost is mended in between
ROUNDS = 8  # a busy plan waits for the next batch after this many looks
SWEEP_LOCK_MS = 10_000
PATIENCE_S = 10.0  # with plans that others decide about while they have to be paused
DUE_PAGE = 256
READ_AT_ONCE = 32  # plans whose snapshots are read together
DECIDE_AT_ONCE = 16  # plans, or plain outcomes, while the server writes those before; more cost its allocator time


def _with_retries(work: Callable[Concatenate[Engine, P], T]) -> Callable[Concatenate[Engine, P], T]:
    """After a failure nobody knows what was committed: begin `work` anew from the entries that are pending."""

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
    _lists: ListKeeper = field(init=False)
    _events: EventKeeper = field(init=False)
    _reread: bool = field(default=True, init=False)  # what is pending; at first the server has to be compared, too
    _batch: BatchCounts = field(default_factory=BatchCounts, init=False)
    _results: CommitResults = field(init=False)

    def __post_init__(self) -> None:
        client, partition = self.store.client, self.store.partition
        self._lists = ListKeeper(client, partition)
        self._results = CommitResults(self.store, self.router, self.quota, self._batch)
        self._events = EventKeeper(client, partition, self.memory, self.events_s)

    @_with_retries
    def drain(self, share: float = 1.0) -> bool:
        """Apply outcomes until none comes, or for `share` of DRAIN_S.

        Returns whether some were read and not applied. Where others wait for their turn nobody waits for more to come.
        """
        end = time.monotonic() + DRAIN_S * share
        linger = LINGER_MS if share >= SHARE_TO_LINGER else None
        while self.router.read(linger):
            self._settle()
            if time.monotonic() >= end:
                break
        self._settle()  # the last counters
        return bool(self.router.waiting)

    def apply(self, entries: Sequence[StreamEntry]) -> bool:
        """Apply outcomes that were read as this engine's consumer, and what is left of earlier ones.

        Returns whether some are not applied.
        """
        if not self._reread:  # else they are read again, with all that is pending
            self.router.put(entries)
        return self._go_on()

    @_with_retries
    def _go_on(self) -> bool:
        self._settle()
        return bool(self.router.waiting)

    @_with_retries
    def recover(self, idle_ms: int) -> int:
        """Take over and apply what a dead worker had read.

        Returns how many entries that were.
        """
        taken = self.router.take_over(idle_ms)
        if taken:
            self._apply_pending()
        return taken

    @_with_retries
    def carry_on(self, plan_id: str) -> None:
        """Go on with work that a commit left over."""
        self.router.of(plan_id)
        self._settle()
        if self.router.has_news:  # the next commit may be another worker's
            self._settle()

    @_with_retries
    def sweep(self, token: str, share: float = 1.0) -> None:
        """Hand out due work until none is due, or for `share` of DRAIN_S.

        Does nothing while another worker sweeps. Whether the server has lost commits is looked at in any case: nobody
        may have changed a plan since.
        """
        if self.store.commits.sees_loss():
            raise RolledBack
        self._lists.mend()
        self._events.cut()
        end = time.monotonic() + DRAIN_S * share
        while time.monotonic() < end:
            plans, clocks = self._due(token)
            if not plans:
                self._settle()  # what goes beside the next commit, which may be long in coming
                return
            for plan_id in plans:
                self.router.of(plan_id.decode()).due = clocks
            self._settle()
            if self.router.waiting:  # another worker has its hands on them
                return

    def catch_up(self) -> None:
        """Go on from what the server has.

        Comes before anything else, and whenever the server may have lost something. Every plan that lost something is
        paused: only a person can tell what became of it.
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
        for _ in self.router.read_pending():
            self._settle()
        self._settle()

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

    def _settle(self) -> None:
        """Decide about every plan that waits, round by round on fresh state; busy plans stay for the next batch."""
        router = self.router
        for _ in range(ROUNDS):
            works = list(router.waiting.items())
            if not works and not router.has_news:
                return
            tight = not self.memory.takes_steps  # asked before the talk, which has the connection to itself
            decided: list[Decided] = []
            self._batch.begin()
            began_ns = time.time_ns()
            with self.store.talk() as talk:
                known, others = self._lend(talk, works, tight=tight)
                asks = [work.ask(plan_id) for plan_id, work in others]
                talk.begin(asks)
                for part in batches(known, DECIDE_AT_ONCE):
                    decided += self._decide_all(talk, part, tight=tight)
                for some, part_asks in zip(batches(others, READ_AT_ONCE), batches(asks, READ_AT_ONCE), strict=True):
                    begun = zip(some, talk.snapshots(part_asks), strict=True)
                    read = [(plan_id, work, plan) for (plan_id, work), plan in begun]
                    for part in batches(read, DECIDE_AT_ONCE):
                        decided += self._decide_all(talk, part, tight=tight)
                talk.beside(router.take_beside())
                since = time.perf_counter()
                verdicts = talk.verdicts()
                self._batch.commit_s += time.perf_counter() - since
            router.send_on()
            for one, verdict in zip(decided, verdicts, strict=True):
                self._results.take(one, verdict, began_ns)
            self._batch.end(verdicts)
            if not decided or not router.waiting:  # another look would not help
                return

    def _lend(
        self, talk: PlanTalk, works: Sequence[tuple[str, Work]], *, tight: bool
    ) -> tuple[list[tuple[str, Work, Begun]], list[tuple[str, Work]]]:
        """Find the plans that can be decided about as they are known here, and those that have to be read."""
        if tight or not talk.lends:
            return [], [*works]
        known: list[tuple[str, Work, Begun]] = []
        others: list[tuple[str, Work]] = []
        for plan_id, work in works:
            if (work.plain or work.needs_no_reading) and (plan := talk.lend(plan_id, work.ask)):
                known.append((plan_id, work, plan))
            else:
                others.append((plan_id, work))
        return known, others

    def _decide_all(self, talk: PlanTalk, works: Sequence[tuple[str, Work, Begun]], *, tight: bool) -> list[Decided]:
        """Decide about some plans, and send what is to be written; plain changes go in one call, before the others."""
        since = time.perf_counter()
        now = 0 if tight or tracing.is_on() else talk.now()  # 0: nothing counts as plain
        calls: list[list[Decided]] = [[]]  # the plain ones; those of one plan have to be in one call
        ordinary: list[Decided] = []
        for plan_id, work, plan in works:
            if isinstance(plan, HotPlan):
                if now and (made := self._decide_plain(plan_id, work, plan, now)):
                    if len(calls[-1]) + len(made) > DECIDE_AT_ONCE:
                        calls.append([])
                    calls[-1] += made
                    continue
                plan = talk.view(plan, work.ask(plan_id))
            if one := self._decide(plan_id, work, plan, tight=tight):
                ordinary.append(one)
        self._batch.decide_s += time.perf_counter() - since
        for some in calls:
            talk.commit_plain([one.plain for one in some if one.plain])
        talk.commit([one.write for one in ordinary if one.write])
        return [*chain.from_iterable(calls), *ordinary]

    def _decide_plain(self, plan_id: str, work: Work, plan: HotPlan, now: int) -> list[Decided]:
        """Decide about reports of one plan, one after the other; the first that is not plain waits for another look."""
        made: list[Decided] = []
        reports = work.plain[:DECIDE_AT_ONCE]
        if not reports or not self._knows_policy(plan):
            return made
        for report in reports:
            spent = plan.record.spent["tokens"]
            change = plain_success.decide(plan, report, now, CODE_VERSION)
            if change is None:
                break
            booked = plan.record.spent["tokens"] - spent
            made.append(Decided(plan_id, work, None, None, booked, change, plan))
        return made

    def _knows_policy(self, plan: HotPlan) -> bool:
        """Whether this worker knows the policy that a plan was made under; the plan has it then."""
        if plan.policy is None:
            plan.policy = self.policies.find(plan.record.head.policy)
        return plan.policy is not None

    def _decide(self, plan_id: str, work: Work, plan: Begun, *, tight: bool) -> Decided | None:
        """Decide about one plan; None where another worker has it, or there is nothing to decide about.

        Where deciding fails the commit writes nothing and only gives the lock back.
        """
        if plan is NoSnapshot.GONE:
            self.router.answer_gone(plan_id, work)
        elif isinstance(plan, UnreadablePlan):
            log.error("plan unreadable", extra={"plan_id": plan_id, "error": str(plan)})
            self.router.isolate_failure(plan_id, work, time.time_ns() // 1_000_000)
        if not isinstance(plan, Snapshot):
            return None
        plan.short_of_memory = tight
        policy = self.policies.find(plan.record.head.policy)
        if (policy is None or is_newer(plan.record)) and not work.only_pauses:
            self.router.leave_to_newer(plan_id, work, plan.now)
        else:
            plan.policy = policy or BUILT_IN
            try:
                had_ended, spent = plan.record.state in PLAN_ENDS, plan.record.spent["tokens"]
                changeset = work.decide(plan)
                if changeset.settles:
                    self._answer_goal(plan, changeset.settles)
                if had_ended and work.due:
                    self._conclude_again(plan)
                acks = [(entry.stream, entry.entry_id) for entry, _ in work.messages if entry]
                return Decided(plan_id, work, Write(changeset, acks), plan, plan.record.spent["tokens"] - spent)
            except NeedsSteps as missing:
                work.extra |= self._named(plan_id, missing.step_ids)
            except (FunctionsMissing, RedisConnectionError, RedisTimeoutError):  # not the plan's fault
                raise
            except Exception:
                log.exception("decision failed", extra=describe(plan_id, plan.record))
                self.router.isolate_failure(plan_id, work, plan.now)
        return Decided(plan_id, None, Write(Changeset(plan_id, plan.record.version, plan.now)))

    def _named(self, plan_id: str, names: frozenset[str]) -> frozenset[str]:
        """Put the ids of the plan's steps in the place of EVERY_STEP."""
        if EVERY_STEP not in names:
            return names
        ids: Any = self.store.client.hkeys(self.store.partition.plan(plan_id).status)
        return names - {EVERY_STEP} | {step_id.decode() for step_id in ids}

    def _answer_goal(self, plan: Snapshot, verdict: str) -> None:
        """Write a goal's verdict: in another slot, so before the commit. Who dies here leaves the answer pending."""
        head, reason = plan.record.head, plan.record.cause
        place, kept_s = (head.goal_id, head.tenant), self.store.retention_s
        goal_record.settle(self.store.client, place, plan.plan_id, verdict, reason, kept_s, *goal_record.OPEN)

    def _conclude_again(self, plan: Snapshot) -> None:
        """Tell a goal's record of an end that nobody confirmed; the commit that follows sets the plan's last timer."""
        if "ended" in plan.record.times:
            functions.call(self.store.client, *self._results.conclusion(plan.plan_id, plan.record, plan.now)[0])
