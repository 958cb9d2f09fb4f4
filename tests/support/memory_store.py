"""The store as dicts: does the work of the Redis functions, for tests of decisions.

Passes the same suite as the real one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from redis.exceptions import ResponseError

from schemas import codec
from schemas.times import DAY_MS
from tasks.base.series import series_name
from tasks.handlers.bulk_commands import find_paused_queues, find_probe, find_standing
from tasks.plan.changeset import FIRST, WHOLE, Changeset, ClaimChange, KeptChange, claims_name
from tasks.plan.end_sum import EndSum
from tasks.plan.file_claims import MARK, FileClaims, mark_of, plan_of
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.plan.snapshot import Grant, Lease, Snapshot, StandingCommand
from tasks.record.held_plan import HeldPlan
from worker.store.commit_parts import DONE, FAILED
from worker.store.file_claims import ClaimsAsk
from worker.store.keys import CONTROLLERS, GROUP, Partition, PlanKeys
from worker.store.plans import LOCK_MS, MAX_QUEUE, Ask, NoSnapshot, Write
from worker.store.sums import PERIODS

FORGET_AFTER_S = 60  # as commit.lua has it
CONFIRM_AFTER_MS = 5000  # as there
TODO_PAGE = 8
EPOCH_MS = 1_800_000_000_000


@dataclass
class Stream:
    """Entries by id, and for each group the ids that it has read and not acknowledged."""

    entries: dict[bytes, dict[bytes, bytes]] = field(default_factory=dict)
    groups: dict[str, set[bytes]] = field(default_factory=dict)
    added: int = 0

    def add(self, fields: dict[bytes, bytes]) -> bytes:
        self.added += 1
        entry = b"%d-0" % self.added
        self.entries[entry] = fields
        return entry

    def remove(self, group: str, entry: bytes) -> None:
        self.groups.get(group, set()).discard(entry)
        self.entries.pop(entry, None)


class MemoryStore:
    """One server with one partition; `now` is its clock. Keys hold dicts (hashes, sorted sets), lists and streams."""

    def __init__(self, partition: Partition, retention_s: int = 10**9, max_queue: int = MAX_QUEUE) -> None:
        self.partition = partition
        self.max_queue = max_queue
        self.retention_s = retention_s
        self.now = EPOCH_MS
        self.keys: dict[str, Any] = {}
        self.expires: dict[str, int] = {}
        self.budgets: dict[str, int] = {}  # scope -> tokens of a day
        self.granted: dict[tuple[int, str], int] = {}
        self.quantum = 1  # least tokens of a grant

    def wait(self, ms: int) -> None:
        self.now += ms
        for key in [key for key, at in self.expires.items() if at <= self.now]:
            del self.expires[key]
            self.keys.pop(key, None)

    def hash(self, key: str) -> Any:
        return self.keys.setdefault(key, {})

    def items(self, key: str) -> Any:
        return self.keys.setdefault(key, [])

    def stream(self, key: str) -> Any:
        return self.keys.setdefault(key, Stream())

    def due(self) -> list[str]:
        """Return the plans whose timer has run out."""
        return [plan for plan, at in self.hash(self.partition.timers).items() if at <= self.now]

    def claim(self, plan_id: str, step_id: str, controller: str = "ctl-1", ttl_s: int = 0) -> None:
        """Do as planner_heartbeat does for the one controller of the attempt."""
        lease = self.lease(plan_id, step_id)
        if "controller" not in lease and ttl_s:
            lease["ttl"] = 1000 * min(max(60, ttl_s), 900)
        lease.setdefault("controller", controller)
        lease["claimed"], lease["renewed"] = lease.get("claimed", self.now), self.now

    def lease(self, plan_id: str, step_id: str) -> Any:
        return self.hash(self.partition.lease_prefix(plan_id) + step_id)

    def standing(self, tenant: str, repo: str | None, created: int) -> StandingCommand | None:
        """Return the standing command that holds such a plan, or None."""
        return find_standing(self._records(), tenant, repo, created, self.now)

    def paused_queues(self) -> dict[str, StandingCommand]:
        """Return the standing pauses of queues, by queue."""
        return find_paused_queues(self._records(), self.now)

    def _records(self) -> dict[bytes, bytes]:
        return {name.encode(): raw for name, raw in self.hash(self.partition.scopes).items()}

    def grants(self, scopes: Sequence[str]) -> dict[str, Grant]:
        """Return the rest of the day budgets of `scopes`."""
        return {scope: self._grant(scope) for scope in scopes}

    def _grant(self, scope: str) -> Grant:
        day, left, over = (self.hash(self.partition.grants).get(scope) or b"-1 0 0").split()
        return Grant(int(left), over == b"1") if int(day) == self.now // DAY_MS else Grant(0)

    def give(self, scope: str, tokens: int, *, exhausted: bool = False) -> None:
        """Add tokens to the rest of a day budget."""
        value = b"%d %d %d" % (self.now // DAY_MS, self._grant(scope).left + tokens, exhausted)
        self.hash(self.partition.grants)[scope] = value

    def refill(self, short: Mapping[str, int]) -> None:
        """Grant the missing tokens, as far as the day budget allows."""
        for scope, lacked in short.items():
            day = self.now // DAY_MS, scope
            left = self.budgets[scope] - self.granted.get(day, 0)
            given = max(0, min(left, max(lacked, self.quantum)))
            self.granted[day] = self.granted.get(day, 0) + given
            self.give(scope, given, exhausted=given < lacked)

    def begin(self, asks: Sequence[Ask], token: str = "me") -> list[Snapshot | NoSnapshot]:
        return [self._begin(ask, token) for ask in asks]

    def commit(self, writes: Sequence[Write]) -> list[str | ResponseError]:
        verdicts: list[str | ResponseError] = []
        refused: set[str] = set()  # what rests on a change that was not made is not made
        for write in writes:
            plan_id = write.changeset.plan_id
            verdicts.append("stale" if plan_id in refused else self._commit(write))
            if verdicts[-1] != "ok":
                refused.add(plan_id)
        return verdicts

    def _begin(self, ask: Ask, token: str) -> Snapshot | NoSnapshot:
        k = self.partition.plan(ask.plan_id)
        if not (plan := self.keys.get(k.plan)):
            return NoSnapshot.GONE
        holder, _, until = plan.get("lock", b"").decode().partition(" ")
        if holder not in ("", token) and 0 < int(until) - self.now <= LOCK_MS:
            return NoSnapshot.BUSY
        plan["lock"] = b"%s %d" % (token.encode(), self.now + LOCK_MS)
        prefix = self.partition.lease_prefix(ask.plan_id)
        leases = {step: found for step in ask.steps if ask.leases and (found := self._lease(prefix + step))}
        view: Snapshot = self.held(ask.plan_id).snapshot(self.now, ask.steps, ask.page, leases)
        view.knows_leases = ask.leases
        head = view.record.head
        view.probe = find_probe(self._records(), head.tenant, head.repo, view.plan_id)
        view.standing = self.standing(head.tenant, head.repo, view.record.times["created"])
        view.paused_queues = self.paused_queues()
        view.grants = self.grants(plan.get("quota", b"").decode().splitlines())
        if ask.claims:
            view.claims = self.claims(ask.claims, ask.plan_id)
        return view

    def claims(self, ask: ClaimsAsk, plan_id: str = "") -> FileClaims:
        """Return the claims of a repository's files in the short form that a decision gets."""
        return self.whole_claims(ask, plan_id).short_for(plan_id, ask.files)

    def whole_claims(self, ask: ClaimsAsk, plan_id: str = "") -> FileClaims:
        """Return the claims of a repository's files with every file and plan that were read for them."""
        by_plan: dict[str, list[str]] = self.hash(self.partition.claims)
        kept = self.hash(self.partition.claims_kept)
        for plan in [plan for plan in by_plan if not self._lives(plan) and kept.get(plan, 0) <= self.now]:
            kept.pop(plan, None)
            self.release(plan)
        claims = self.hash(self.partition.claims_of(claims_name(ask.tenant, ask.repo)))
        files: dict[str, str] = {}
        plans = {plan_id: self._waits_of(plan_id)} if plan_id else {}
        open_files = [*self._within(ask.files, claims), *plans.get(plan_id, ())]
        while open_files:
            file = open_files.pop(0)
            if file in files or file not in claims:
                continue
            files[file] = claims[file]
            for plan in map(plan_of, claims[file].split()) if ask.deep else ():
                if plan not in plans:
                    plans[plan] = self._waits_of(plan)
                    open_files += plans[plan]
        if ask.deep and "" in claims:
            files[""] = claims[""]
        return FileClaims(files, plans, asked=frozenset(ask.files), deep=ask.deep)

    @staticmethod
    def _within(asked: Iterable[str], claims: Iterable[str]) -> Iterator[str]:
        """Yield the files of `asked`; for a folder that ends in `*`, yield the claimed files in it instead."""
        for each in asked:
            folder = each.removesuffix("*")
            if each.endswith("/*"):
                yield from (file for file in claims if file and (folder == "./" or file.startswith(folder)))
            else:
                yield each

    def _waits_of(self, plan_id: str) -> list[str]:
        """Return the files that a plan waits for."""
        name, *files = self.hash(self.partition.claims).get(plan_id, [""])
        claims = self.hash(self.partition.claims_of(name))
        return [file for file in files if f"?{plan_id}" in claims.get(file, "").split()]

    def _lives(self, plan_id: str) -> bool:
        state = self.keys.get(self.partition.plan(plan_id).plan, {}).get("state", b"REJECTED")
        return state.decode() not in PLAN_ENDS

    def release(self, plan_id: str) -> None:
        """Release the claims of a plan, and wake the plans that waited directly behind it."""
        by_plan = self.hash(self.partition.claims)
        name, *files = by_plan.pop(plan_id, [""])
        claims, woken = self.hash(self.partition.claims_of(name)), False
        for file in files:
            known = claims.get(file, "").split()
            woken = self._wake_behind(known, plan_id) or woken
            claims[file] = " ".join(each for each in known if plan_of(each) != plan_id)
            if not claims[file]:
                del claims[file]
        if not claims.keys() - {""}:
            claims.clear()
        elif woken:
            claims[""] = str(int(claims.get("", 0)) + 1)

    def _keep_files(self, change: Changeset, marks: Iterable[str]) -> None:
        """Have a plan that ends keep the files that it delivered, and what it is about."""
        for name, file in (*((change.keeps[0][0], mark) for mark in marks), *change.keeps):
            claims = self.hash(self.partition.claims_of(name))
            claims[file] = f"{change.plan_id} {claims.get(file, '')}".strip()
            self.hash(self.partition.claims).setdefault(change.plan_id, [name]).append(file)
            self.hash(self.partition.claims_kept)[change.plan_id] = self.now + 14 * DAY_MS

    def release_kept(self, plan_id: str) -> None:
        """Give back what a plan keeps after its end."""
        if self.hash(self.partition.claims_kept).pop(plan_id, None):
            self.release(plan_id)

    def _wake_behind(self, claims: list[str], plan_id: str) -> bool:
        """Have the plan looked at that waits directly behind another one, if one does."""
        place = [plan_of(each) for each in claims].index(plan_id)
        waiting = [plan_of(each) for each in claims[place + 1 : place + 2] if each.startswith("?")]
        self.hash(self.partition.timers).update(dict.fromkeys(waiting, self.now))
        return bool(waiting)

    def held(self, plan_id: str) -> HeldPlan:
        """The keys of a plan that are its own."""
        k = self.partition.plan(plan_id)
        hashes = map(self.hash, (k.plan, k.steps, k.status, k.ready, k.active))
        prefix = self.partition.lease_prefix(plan_id)
        return HeldPlan(plan_id, self.partition.outcomes, prefix, *hashes, *map(self.items, (k.todo, k.log)))

    def _lease(self, key: str) -> Lease | None:
        lease = self.keys.get(key)
        if not lease:
            return None
        times = lease.get("claimed", 0), lease.get("renewed", 0)
        return Lease(lease.get("attempt", 0), *times, lease.get("controller", ""), lease.get("ttl", 0))

    def _commit(self, write: Write) -> str | ResponseError:
        change = write.changeset
        k = self.partition.plan(change.plan_id)
        version = int(self.keys.get(k.plan, {}).get("version", 0))
        if version != change.expected:
            return "stale" if version else "gone"
        if self._rests_on_what_changed(change):
            return "stale"
        if any(self._is_claimed(change.plan_id, one) for one in change.claims):
            return "claimed"
        queues = Counter(self.partition.steps(one.attempt.queue) for one in change.dispatches)
        if full := next((queue for queue, added in queues.items() if self._has_no_room(queue, added)), None):
            return f"full {full}"
        for queue in queues:
            if not isinstance(self.keys.get(queue, Stream()), Stream):
                return ResponseError(f"planner commit: {queue} is not a stream")
        for queue in queues:
            self.stream(queue).groups.setdefault(CONTROLLERS, set())
        entries = self._write_attempts(change)
        self.held(change.plan_id).commit(change, entries)
        self._write_beside(k, change)
        for stream, entry in write.acks:
            self.stream(stream).remove(GROUP, entry)
        self._write_counters(change)
        self._add_to_sums(change.sum, change.now)
        self._write_claims(change)
        self._tell_breaker(change)
        if change.ends:
            marks = [file for file in self.hash(self.partition.claims).get(change.plan_id, ()) if file.startswith(MARK)]
            self.release(change.plan_id)
            self._keep_files(change, marks if change.keeps else ())
            keys = (k.plan, k.steps, k.status, k.ready, k.active, k.todo, k.log)
            self.expires.update(dict.fromkeys(keys, self.now + 1000 * self.retention_s))
            self.hash(self.partition.timers)[change.plan_id] = self.now + CONFIRM_AFTER_MS
        return "ok"

    def _has_no_room(self, queue: str, added: int) -> bool:
        known = self.keys.get(queue, Stream())
        return isinstance(known, Stream) and len(known.entries) + added > self.max_queue

    def _rests_on_what_changed(self, change: Changeset) -> bool:
        prefix = self.partition.lease_prefix(change.plan_id)
        if any(self.hash(prefix + step).get("renewed", 0) != renewed for step, renewed in change.guards.items()):
            return True
        recalled = [one for one in change.history if one.seen != ""]
        if any(self.hash(self.partition.recall(one.name)).get(one.field, 0) != one.seen for one in recalled):
            return True
        return any(
            (left := self._grant(scope).left) != change.rests_on[scope] and left < tokens
            for scope, tokens in change.taken.items()
            if scope in change.rests_on
        )

    def _write_counters(self, change: Changeset) -> None:
        tenants = self.hash(self.partition.tenants)
        if change.expected == 0:
            tenants[change.tenant] = tenants.get(change.tenant, 0) + 1
        if change.ends:
            tenants[change.tenant] = tenants.get(change.tenant, 0) - 1
            if tenants[change.tenant] <= 0:
                del tenants[change.tenant]
        for one in change.history:
            counters = self.hash(self.partition.recall(one.name))
            counters[one.field] = counters.get(one.field, 0) + int(one.change or 0)
            if one.change == "":
                del counters[one.field]
        for used in change.used:
            self.items(self.partition.used(used.name)).insert(0, used.tokens)
        for scope, tokens in change.taken.items():
            self.give(scope, -tokens, exhausted=self._grant(scope).exhausted)
        for each in change.kept:
            self._keep(each)
        for recorded in filter(attrgetter("record"), change.memory):
            self.items(self.partition.memory(recorded.name)).insert(0, recorded.record)

    def _keep(self, each: KeptChange) -> None:
        kept = self.hash(self.partition.kept(each.name))
        if each.value:
            kept[each.field] = each.value
            for first in list(kept)[: max(0, len(kept) - each.most)]:
                del kept[first]
        elif not each.of or _plan_of(kept.get(each.field, b"")) in (None, each.of):
            kept.pop(each.field, None)

    def _tell_breaker(self, change: Changeset) -> None:
        """Keep the counts of the repositories' breakers, as breaker.lua does."""
        told = [series for series, _ in change.failures]
        for series, failure in change.failures:
            self.hash(self.partition.counted_failures(series))[codec.dumps([*failure]).decode()] = change.now
        if change.probe:
            series, news = change.probe
            told.append(series)
            self.hash(self.partition.probes)[series] = b"%d %b" % (change.now, codec.dumps([*news]))
        for series in told:
            self.hash(self.partition.breakers_due)[series] = self.now

    def _add_to_sums(self, ended: EndSum | None, at: int) -> None:
        """Add to the sums of this hour and this day, as sums.lua does, with room for every series."""
        if ended is None:
            return
        for period, ms in PERIODS.items():
            sums = self.hash(self.partition.sums(period, at // ms))
            name = series_name(ended.tenant, ended.repo)
            added: dict[str, int] = {}
            for each in f"{sums.get(name, b'').decode()} {ended.added}".split():
                what, _, figure = each.rpartition("=")
                added[what] = added.get(what, 0) + int(figure)
            sums[name] = " ".join(f"{what}={figure}" for what, figure in added.items()).encode()

    def _write_claims(self, change: Changeset) -> None:
        me = change.plan_id
        for one in change.claims:
            claims = self.hash(self.partition.claims_of(one.repository))
            known = [] if one.where == WHOLE else claims.get(one.file, "").split()
            plans = [plan_of(each) for each in known]
            if me in plans:
                known[plans.index(me)] = one.claim
            else:
                known.insert(plans.index(one.where) if one.where in plans else len(plans), one.claim)
            claims[one.file] = " ".join(known)
            own = self.hash(self.partition.claims).setdefault(me, [one.repository])
            if one.file and one.file not in own[1:]:
                own.append(one.file)
                self._wake_behind(known, me)

    def _is_claimed(self, plan_id: str, one: ClaimChange) -> bool:
        """Return whether other plans have claimed or released a file since the decision about this claim."""
        claims = self.hash(self.partition.claims_of(one.repository)).get(one.file, "")
        if one.where == FIRST:
            return plan_of(claims.partition(" ")[0]) != plan_id
        return one.seen != (claims if one.where == WHOLE else mark_of(claims))

    def _write_beside(self, k: PlanKeys, change: Changeset) -> None:
        if change.expected == 0:
            self.hash(self.partition.plans)[change.plan_id] = change.now
        if change.changed or change.expected:
            self.hash(k.plan)["lock"] = b""
        if change.wake:
            self.hash(self.partition.timers)[change.plan_id] = change.wake
        elif change.wake == 0:
            self.hash(self.partition.timers).pop(change.plan_id, None)
            if k.plan in self.expires:
                self.hash(self.partition.timers)[change.plan_id] = self.expires[k.plan] + 1000 * FORGET_AFTER_S
        for kind, data in change.events:
            self.stream(self.partition.events).add({b"type": kind.encode(), b"data": data})

    def _write_attempts(self, change: Changeset) -> list[bytes]:
        """Take attempts out of flight and start others; returns the entries of their specs."""
        prefix = self.partition.lease_prefix(change.plan_id)
        for step, attempt in change.ended.items():
            self.stream(self.partition.steps(attempt.queue)).remove(CONTROLLERS, attempt.entry.encode())
            if step in change.worked and (name := self.hash(prefix + step).get("controller")):
                counts = self.hash(self.partition.worked(change.now // DAY_MS))
                field = f"{DONE if change.worked[step] else FAILED} {name}"
                counts[field] = counts.get(field, 0) + 1
            if step in change.cancelled:
                self.hash(prefix + step)["action"] = "cancel"
            else:
                self.keys.pop(prefix + step, None)
        entries = []
        for one in change.dispatches:
            a = one.attempt
            entries.append(self.stream(self.partition.steps(a.queue)).add({b"data": one.spec}))
            self.keys[prefix + one.step_id] = {"attempt": a.attempt, "lease": a.lease, "tokens": a.tokens}
        for step, action in change.actions.items():
            self.hash(prefix + step)["action"] = action
        for step, most in change.call_limits.items():
            self.hash(prefix + step)["calls"] = most
        return entries


def _plan_of(kept: bytes) -> Any:
    """Return the id of the plan that a stored value names; None if it names none."""
    try:
        found = codec.loads(kept)
    except codec.DecodeError:
        return None
    return found.get("plan_id") if isinstance(found, dict) else None
