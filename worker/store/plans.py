"""Reads snapshots of plans from Redis and writes changesets, in one round trip a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Self, TypeAlias

from redis import Redis
from redis.exceptions import ResponseError

from tasks.base.errors import PlannerError
from tasks.handlers.bulk_commands import Records, find_paused_queues, find_probe, find_standing
from tasks.plan.changeset import Changeset, PlainChange
from tasks.plan.hot_plan import FIRST_AHEAD, HotPlan
from tasks.plan.snapshot import NOTE, READY_PAGE, Grant, Lease, Snapshot
from worker.host.code_version import CODE_VERSION
from worker.store import file_claims, functions
from worker.store.commit_calls import EVENTS_CAP as EVENTS_CAP
from worker.store.commit_calls import MAX_QUEUE as MAX_QUEUE
from worker.store.commit_calls import Write as Write
from worker.store.commit_calls import each, lay_out, read_ahead, read_snapshot, read_whole
from worker.store.commits import Commits
from worker.store.file_claims import ClaimsAsk
from worker.store.hot_plans import STALE_TOGETHER, HotPlans
from worker.store.keys import Partition

OK = "ok"  # of a commit that was made
LOCK_MS = 5000  # saves work, protects nothing: the version is the fence


class NoSnapshot(Enum):
    """The reason why `begin` returned no snapshot."""

    BUSY = "another worker decides about this plan"
    GONE = "there is no such plan"


class UnreadablePlan(PlannerError):
    """The stored data of this plan cannot be read."""


class Reconnected(PlannerError):
    """The connection is new, so the server's commits must be compared with our records first."""


class RolledBack(PlannerError):
    """The server has lost commits that this worker knows of."""


Begun: TypeAlias = HotPlan | Snapshot | NoSnapshot | UnreadablePlan


class Ask(NamedTuple):
    """The part of a plan to read for a decision.

    `steps` contains each needed step id once, and the name of each needed note with the prefix NOTE. With `leases`, the
    leases of these steps are read, too. `page` is the number of ready steps to read.
    """

    plan_id: str
    steps: Sequence[str] = ()
    leases: bool = False
    page: int = READY_PAGE
    claims: ClaimsAsk | None = None  # claims on the repository's files, if the decision depends on them


@dataclass(frozen=True, slots=True)
class PlanStore:
    """Reads and writes the plans of one partition.

    `token` is this worker's name in the locks of plans. A queue accepts at most `max_queue` waiting specs.
    """

    client: Redis
    partition: Partition
    token: str
    retention_s: int
    commits: Commits
    max_queue: int = MAX_QUEUE
    hot: HotPlans = field(default_factory=HotPlans)

    def commit_call(
        self, writes: Sequence[Write | PlainChange], commands_heard: int | str = "", *, wants_time: bool = False
    ) -> tuple[Any, ...]:
        """Return the call that commits changes of several plans; see commit.lua.

        `commands_heard` is the number of bulk commands that the decision knew, if it matters.
        """
        p, commits = self.partition, self.commits
        keys = (p.commits, p.events, p.timers, p.scopes, p.plans, p.tenants, p.grants)
        terms = (commits.field, commits.known, commands_heard, EVENTS_CAP, self.max_queue, self.retention_s)
        return ("FCALL", functions.COMMIT, len(keys), *keys, *terms, int(wants_time), *lay_out(writes, p))

    def talk(self) -> PlanTalk:
        """Open a connection for rounds of begin and commit.

        Entering it raises Reconnected if it is a new connection.
        """
        return PlanTalk(self)

    def commit(self, writes: Sequence[Write]) -> list[str | ResponseError]:
        """Apply changesets in one round trip, without a separate begin. Returns the same as PlanTalk.verdicts."""
        with self.talk() as talk:
            talk.commit(writes)
            return talk.verdicts()


class PlanTalk(functions.Talk):
    """Begins and commits on one connection, so that earlier plans are decided while the server reads later ones.

    Call `begin`, then `snapshots` for all begun plans in the same order, then `commit`, then `verdicts`.
    """

    def __init__(self, store: PlanStore) -> None:
        super().__init__(store.client)
        self._store = store
        self.hot = store.hot  # the plans that are known here
        self.now = store.hot.now  # the server's estimated time, ms, for a lent plan
        self._scopes: Records | None = None
        self._commands_heard: int | str = ""  # that the partition had heard of when `_scopes` was read
        self._lent: dict[str, HotPlan] = {}  # lent plans, which will be kept
        self._known: set[str] = set()  # those of them that were not read for this
        self._parts: set[str] = set()  # plans with a part that was read for outcomes
        self._short: dict[str, int] = {}  # plans with a prefetch: the number of steps ahead
        self._made: dict[str, HotPlan] = {}  # plans that are kept, unless one of their changes was refused
        self._sent: list[Sequence[Write | PlainChange]] = []  # in the order of their replies
        self._beside = 0

    def __enter__(self) -> Self:
        super().__enter__()
        if not self._store.commits.is_compared:
            self.__exit__(None)
            raise Reconnected
        return self

    def lend(self, plan_id: str, ask: Callable[[str], Ask]) -> HotPlan | None:
        """Lend a hot plan to a decision; None if the plan must be begun. Requires that `hot` is usable.

        The plan is kept again after its commits succeed, else dropped. `ask` returns the part of a large plan that is
        needed.
        """
        self._commands_heard = self.hot.heard
        plan = self.hot.lend(plan_id)
        if plan and plan.ahead:
            wanted = ask(plan_id)
            if not plan.covers(wanted.steps, wanted.page):
                return None
        if plan:
            self._lent[plan_id] = plan
            self._known.add(plan_id)
        return plan

    def begin(self, asks: Sequence[Ask]) -> None:
        """Lock each plan, and request the part that its decision can touch."""
        partition = self._store.partition
        calls: list[tuple[Any, ...]] = [("HGETALL", partition.scopes)]  # few or none, and read once a batch
        for ask in asks:
            k = partition.plan(ask.plan_id)
            keys = [k.plan, k.steps, k.status, k.ready, k.active, k.todo, partition.grants]
            if ask.leases:
                prefix = partition.lease_prefix(ask.plan_id)
                keys += [prefix + step for step in ask.steps]
            terms = (self._store.token, LOCK_MS, ask.page, self._whole_steps(ask))
            calls.append(("FCALL", functions.BEGIN, len(keys), *keys, *terms, *ask.steps))
            if ask.claims:
                calls.append(file_claims.read_call(partition, ask.claims, ask.plan_id))
        self.send(calls)

    def _whole_steps(self, ask: Ask) -> int:
        """Return the maximum size of a plan that is read whole."""
        return 0 if any(step[0] == NOTE for step in ask.steps) else self.hot.whole_steps

    def snapshots(self, asks: Sequence[Ask]) -> list[Begun]:
        """Return the results of the next begun `asks`: a snapshot, a hot plan, or the reason for neither.

        A plan that was read whole, without special context, is returned as a hot plan and kept. An unreadable plan does
        not affect the others.
        """
        if self._scopes is None:
            (found,) = self.receive(1)
            records = dict(each(found, 2))
            self._commands_heard = self.hot.heard = int(records.pop(b"commands", 0))
            self._scopes = self.hot.scopes = records
        begun: list[Begun] = []
        replies = iter(self.receive(len(asks) + sum(1 for ask in asks if ask.claims)))
        for ask, reply in zip(asks, replies, strict=False):
            claims = next(replies) if ask.claims else None
            if isinstance(reply, Exception):
                begun.append(UnreadablePlan(str(reply)))
                continue
            self.hot.note_time(reply[0])
            if reply[1] not in (b"ok", b"whole"):
                begun.append(NoSnapshot[reply[1].decode().upper()])
                continue
            try:
                plan = self._whole(ask, reply) if reply[1] == b"whole" else self._part(ask, reply)
                if claims is not None and isinstance(plan, Snapshot):
                    plan.claims = file_claims.decode(claims, ask.claims, ask.plan_id)
                begun.append(plan)
            except (ValueError, TypeError, KeyError) as error:
                begun.append(UnreadablePlan(f"{type(error).__name__}: {error}"))
        return begun

    def _whole(self, ask: Ask, reply: Any) -> HotPlan | Snapshot:
        """Decode a plan that was read whole, and keep it for the next decisions."""
        now, *_, leases, grants = reply
        plan = read_whole(self._store.partition, ask.plan_id, reply)
        if not grants:  # only the server knows the remaining day budget
            self._lent[ask.plan_id] = plan
            if not (leases or self._scopes or ask.claims):
                return plan
        return self._stand(plan.snapshot(now, ask.steps, ask.page), ask, leases, grants)

    def view(self, plan: HotPlan, ask: Ask) -> Snapshot:
        """Return the part of a lent plan that a decision can touch."""
        return self._stand(plan.snapshot(self.now(), ask.steps, ask.page), ask, (), ())

    def _part(self, ask: Ask, reply: Any) -> Snapshot:
        """Return the snapshot from a reply with a part of a plan.

        If the plan is large and has no special context, a part of it is kept after the commit.
        """
        *_, leases, grants, _ = reply
        if not (grants or ask.leases or self._scopes) and self._whole_steps(ask):
            self._parts.add(ask.plan_id)
        snapshot = read_snapshot(self._store.partition, ask.plan_id, ask.steps, reply)
        return self._stand(snapshot, ask, leases, grants)

    def _stand(self, plan: Snapshot, ask: Ask, leases: Any, grants: Any) -> Snapshot:
        """Return the snapshot of a plan with its context: leases, bulk commands, grants."""
        scopes, head, now = self._scopes or {}, plan.record.head, plan.now
        plan.code, plan.knows_leases = CODE_VERSION, ask.leases
        if leases:
            plan.leases = {
                step: Lease(attempt, claimed, renewed, controller.decode(errors="replace"), ttl)
                for step, (attempt, claimed, renewed, controller, ttl) in zip(ask.steps, leases, strict=False)
                if attempt
            }
        if scopes:
            plan.standing = find_standing(scopes, head.tenant, head.repo, plan.record.times["created"], now)
            plan.paused_queues = find_paused_queues(scopes, now)
            plan.probe = find_probe(scopes, head.tenant, head.repo, plan.plan_id)
        if grants:
            plan.grants = {scope.decode(): Grant(left, over == b"1") for scope, left, over in each(grants, 3)}
        return plan

    def commit(self, writes: Sequence[Write | PlainChange]) -> None:
        """Send all changes in one call; each applies only if its plan still has the expected version.

        The bulk commands must also be unchanged. All changes of one plan must be in one call, because they build on
        each other. Plain changes require lent plans.
        """
        if not writes:
            return
        wants_time = self.hot.wants_time and any(isinstance(write, PlainChange) for write in writes)
        self.send([self._store.commit_call(writes, self._commands_heard, wants_time=wants_time)])
        self._sent.append(writes)
        for write in writes:
            if isinstance(write, Write):
                self._look_ahead(write.changeset)
                continue
            plan = self._lent[write.plan_id]
            if plan.ahead and not write.end and plan.runs_short(start.step_id for start in write.starts):
                self._short[write.plan_id] = plan.next_ahead

    def _look_ahead(self, change: Changeset) -> None:
        """If a large plan runs short of steps that were read ahead, schedule a prefetch for after the commits."""
        plan = self._lent.get(change.plan_id)
        if not change.changed or change.ends:
            return
        if change.plan_id in self._parts:
            self._short[change.plan_id] = FIRST_AHEAD
        elif plan and plan.ahead:
            starts = [one.step_id for one in change.dispatches]
            if change.specs or plan.runs_short(starts, len(change.ready_remove)):
                self._short[change.plan_id] = plan.next_ahead

    def _prefetch(self) -> None:
        """Request the parts of large plans that the next outcomes can touch, after the commits."""
        partition = self._store.partition
        calls: list[tuple[Any, ...]] = []
        for plan_id, ahead in self._short.items():
            k = partition.plan(plan_id)
            calls.append(("FCALL", functions.PREFETCH, 6, k.plan, k.steps, k.status, k.ready, k.active, k.todo, ahead))
        self.send(calls)

    def beside(self, commands: Sequence[tuple[Any, ...]]) -> None:
        """Send further commands after the changesets, in the same round trip."""
        self.send(commands)
        self._beside += len(commands)

    def verdicts(self) -> list[str | ResponseError]:
        """Return the result of each commit, in the order of sending: `ok`, the reason for no write, or the error.

        Raises the first error of `beside`. Raises RolledBack if the server's data are older than this worker's record.
        """
        if self._short:
            self._prefetch()
        verdicts: list[str | ResponseError] = []
        refused: dict[str, str | ResponseError] = {}
        for writes in self._sent:
            for write, result in zip(writes, self._results(len(writes)), strict=True):
                change = write.changeset if isinstance(write, Write) else write
                verdict = self._verdict(change, result)
                verdicts.append(verdict)
                if verdict != OK:
                    refused.setdefault(change.plan_id, verdict)  # later ones are refused because of this one
        beside = self.receive(self._beside)
        parts = dict(zip(self._short.items(), self.receive(len(self._short)), strict=True))
        if "rolled back" in verdicts:
            raise RolledBack
        self._keep(refused, parts)
        for reply in beside:
            if isinstance(reply, Exception):
                raise reply
        return verdicts

    def _results(self, count: int) -> Iterable[Any]:
        """Return commit.lua's answers about the changes of one call."""
        (reply,) = self.receive(1)
        if isinstance(reply, Exception):
            return [reply] * count
        now, results = reply
        if now:
            self.hot.note_time(now)
        return map(bytes.decode, results)

    def _verdict(self, change: Changeset | PlainChange, result: Any) -> str | ResponseError:
        """Record the result of a change, and the resulting state of its plan."""
        if isinstance(result, ResponseError):
            return result
        text: str = result
        number, *entries = text.split(" ")
        if not number.isdecimal():
            return ResponseError(text.removeprefix("error ")) if number == "error" else text
        plan_id = change.plan_id
        self._store.commits.note(plan_id, int(number))
        plan = self._lent.get(plan_id)
        if plan is None or (change.end if isinstance(change, PlainChange) else change.ends):
            self._made.pop(plan_id, None)
            return OK
        if isinstance(change, PlainChange):
            for start, entry in zip(change.starts, entries, strict=True):
                start.attempt.entry = entry
        elif plan.ahead and change.specs:  # those may be of any steps
            return OK
        else:
            plan.take(change, entries)
        self._made[plan_id] = plan
        return OK

    def _keep(self, refused: Mapping[str, str | ResponseError], parts: Mapping[tuple[str, int], Any]) -> None:
        """Keep each plan whose changes all succeeded as a hot plan; of a large plan, keep the prefetched part."""
        made = self._made
        for (plan_id, ahead), reply in parts.items():
            if not isinstance(reply, list):  # the part is too large; the next begin reports an error
                continue
            with suppress(ValueError, TypeError, KeyError):  # as well
                made[plan_id] = read_ahead(self._store.partition, plan_id, reply, ahead)
        for plan_id, plan in made.items():
            if plan_id not in refused:
                self.hot.keep(plan)
        if not refused:
            return
        stale = {plan_id for plan_id, verdict in refused.items() if verdict == "stale"}
        if stale:
            self.hot.scopes = None  # the standing commands may have changed
        if len(stale & self._known) >= STALE_TOGETHER:
            self.hot.clear()


def full_queue(verdict: str | ResponseError) -> str | None:
    """Return the queue without capacity for the steps of a commit; None if the verdict is another one."""
    full = isinstance(verdict, str) and verdict.startswith("full ")
    return str(verdict).rpartition("steps:")[2] if full else None
