"""The store as dicts: what planner.lua does, for tests of decisions. It passes the same suite as the real store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import ResponseError

from schemas.stored import HOT, Attempt, StepStatus, decode_plan
from tasks.change import MAX_STEP_CHANGES, Change
from tasks.view import WINDOW, Lease, Slice, Step, Window
from worker.store.keys import CONTROLLERS, GROUP, Partition, PlanKeys
from worker.store.plans import LOCK_MS, Ask, NoSlice, Write

FORGET_AFTER_S = 60  # as planner.lua has it
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

    def __init__(self, partition: Partition, retention_s: int = 10**9) -> None:
        self.partition = partition
        self.retention_s = retention_s
        self.now = EPOCH_MS
        self.keys: dict[str, Any] = {}
        self.expires: dict[str, int] = {}

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
        """The plans whose timer has run out."""
        return [plan for plan, at in self.hash(self.partition.timers).items() if at <= self.now]

    def claim(self, plan_id: str, step_id: str) -> None:
        """Do as planner_heartbeat does for the one controller of the attempt."""
        lease = self.hash(self.partition.lease_prefix(plan_id) + step_id)
        lease["claimed"], lease["renewed"] = lease.get("claimed", self.now), self.now

    def begin(self, asks: Sequence[Ask], token: str = "me") -> list[Slice | NoSlice]:
        return [self._begin(ask, token) for ask in asks]

    def commit(self, writes: Sequence[Write]) -> list[str | ResponseError]:
        return list(map(self._commit, writes))

    def _begin(self, ask: Ask, token: str) -> Slice | NoSlice:
        k = self.partition.plan(ask.plan_id)
        if not (plan := self.keys.get(k.plan)):
            return NoSlice.GONE
        holder, _, until = plan.get("lock", b"").decode().partition(" ")
        if holder not in ("", token) and int(until) > self.now:
            return NoSlice.BUSY
        plan["lock"] = b"%s %d" % (token.encode(), self.now + LOCK_MS)
        todo = [_todo(item) for item in self.items(k.todo)[:TODO_PAGE]]
        names = dict.fromkeys([*ask.steps, *(step for step, _ in todo)])
        ends = len(names)
        windows = self._windows(k, [*todo, *((step, 0) for step in ask.steps)])
        names |= dict.fromkeys(name for window in windows.values() for name in window.dependents)
        active = {step: Attempt.decode(raw) for step, raw in self.hash(k.active).items()}
        page = ends + ask.page
        ready = sorted(self.hash(k.ready), key=lambda step: (self.hash(k.ready)[step], step))[:page]
        must = {*list(names)[:ends], *ready}
        prefix = self.partition.lease_prefix(ask.plan_id)
        return Slice(
            plan_id=ask.plan_id,
            now=self.now,
            record=decode_plan([plan.get(name) for name in HOT]),
            steps=self._steps(k, dict.fromkeys([*names, *ready]), must, ends),
            windows=windows,
            active=active,
            ready=ready,
            ready_beyond=len(ready) >= page,
            todo=todo,
            todo_beyond=len(self.items(k.todo)) - len(todo),
            reply_to=self.partition.outcomes,
            lease_prefix=prefix,
            leases={step: found for step in ask.steps if ask.leases and (found := self._lease(prefix + step))},
        )

    def _windows(self, k: PlanKeys, wanted: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Window]:
        specs, windows, read = self.hash(k.steps), {}, 0
        for step, number in wanted:
            if read >= MAX_STEP_CHANGES:
                break
            ids = specs.get(f">{step}:{number}", b"").decode().split()
            read += len(ids)
            more = len(ids) == WINDOW and f">{step}:{number + 1}" in specs
            windows[step, number] = Window(ids, more)
        return windows

    def _steps(self, k: PlanKeys, names: dict[str, None], must: set[str], ends: int) -> dict[str, Step]:
        specs, records = self.hash(k.steps), self.hash(k.status)
        statuses = {name: StepStatus.decode(records[name]) for name in names if name in records}
        return {
            name: Step(name, specs.get(name) if name in must or status.unmet <= ends else None, status)
            for name, status in statuses.items()
        }

    def _lease(self, key: str) -> Lease | None:
        lease = self.keys.get(key)
        return Lease(lease["attempt"], lease.get("claimed", 0), lease.get("renewed", 0)) if lease else None

    def _commit(self, write: Write) -> str | ResponseError:
        change = write.change
        k = self.partition.plan(change.plan_id)
        version = int(self.keys.get(k.plan, {}).get("version", 0))
        if version != change.expected:
            return "stale" if version else "gone"
        queues = {self.partition.steps(one.attempt.queue) for one in change.dispatches}
        for queue in queues:
            if not isinstance(self.keys.get(queue, Stream()), Stream):
                return ResponseError(f"planner commit: {queue} is not a stream")
        for queue in queues:
            self.stream(queue).groups.setdefault(CONTROLLERS, set())
        self._write_plan(k, change)
        self._write_attempts(k, change)
        self._write_lists(k, change)
        for stream, entry in write.acks:
            self.stream(stream).remove(GROUP, entry)
        if change.ends:
            keys = (k.plan, k.steps, k.status, k.ready, k.active, k.todo, k.log)
            self.expires.update(dict.fromkeys(keys, self.now + 1000 * self.retention_s))
            self.hash(self.partition.timers)[change.plan_id] = self.now + 1000 * (self.retention_s + FORGET_AFTER_S)
        return "ok"

    def _write_plan(self, k: PlanKeys, change: Change) -> None:
        if change.expected == 0:
            self.hash(self.partition.plans)[change.plan_id] = change.now
        if change.changed:
            self.hash(k.plan)["version"] = b"%d" % (change.expected + 1)
        if change.changed or change.expected:
            self.hash(k.plan)["lock"] = b""
        for key, pairs in ((k.plan, change.fields), (k.status, change.statuses), (k.steps, change.specs)):
            self.hash(key).update(pairs)
        for step in change.ready_remove:
            self.hash(k.ready).pop(step, None)
        self.hash(k.ready).update(change.ready_add)
        if change.wake:
            self.hash(self.partition.timers)[change.plan_id] = change.wake
        elif change.wake == 0:
            self.hash(self.partition.timers).pop(change.plan_id, None)

    def _write_attempts(self, k: PlanKeys, change: Change) -> None:
        prefix = self.partition.lease_prefix(change.plan_id)
        for step, attempt in change.ended.items():
            self.hash(k.active).pop(step, None)
            self.stream(self.partition.steps(attempt.queue)).remove(CONTROLLERS, attempt.entry.encode())
            self.keys.pop(prefix + step, None)
        for one in change.dispatches:
            a = one.attempt
            entry = self.stream(self.partition.steps(a.queue)).add({b"data": one.spec})
            self.hash(k.active)[one.step_id] = entry + b" " + a.encode()
            self.hash(prefix + one.step_id).update(attempt=a.attempt, lease=a.lease, tokens=a.tokens)

    def _write_lists(self, k: PlanKeys, change: Change) -> None:
        del self.items(k.todo)[: change.todo_pop]
        self.items(k.todo).extend([b"%s %d" % (step.encode(), number) for step, number in change.todo_push])
        self.items(k.log).extend([change.log] if change.log else ())
        for kind, data in change.events:
            self.stream(self.partition.events).add({b"type": kind.encode(), b"data": data})


def _todo(item: bytes) -> tuple[str, int]:
    step, _, number = item.decode().partition(" ")
    return step, int(number)
