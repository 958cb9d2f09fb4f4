"""One stored plan, read page by page at an unchanged version; fields of a newer version do no harm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from schemas import codec
from schemas.base import PlanState
from schemas.stored import PARTS, StepStatus
from schemas.stored.step import TEXTS, depends_on, window_of
from tasks.base.errors import PlannerError
from tasks.plan.snapshot import NOTE
from worker.doctor.finding import RedisCommand, Site, ask_together
from worker.store.keys import Partition, PlanKeys, partition_of
from worker.store.policies import Policies

PAGE = 500
LOOKS = 5
ENDS = frozenset({PlanState.COMPLETED.value, PlanState.HALTED.value, PlanState.REJECTED.value})
NO_WAITS = frozenset({"reserved", "spent", "counts", "times", "commands", "warned", "question", *PARTS})


class KeepsChanging(PlannerError):
    """The plan changed during every attempt to read it. It is live, and can be checked later."""


class StepRow(NamedTuple):
    """The fields of a step's record that the checks need."""

    unmet: int
    state: str
    place: int
    attempt: int
    approval: str


class Flight(NamedTuple):
    """The fields of an attempt in flight that the checks need."""

    entry: str
    attempt: int
    lease: str
    queue: str
    tokens: int
    patch_cycles: int


@dataclass(slots=True)
class Stored:
    """A plan as it is stored; `windows` has the dependents of each step in numbered pages, by step and number."""

    plan_id: str
    partition: Partition
    version: int
    state: str
    live: dict[str, Any]
    steps: dict[str, StepRow] = field(default_factory=dict)
    depends_on: dict[str, list[str]] = field(default_factory=dict)
    windows: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    active: dict[str, Flight] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    todo: list[tuple[str, int]] = field(default_factory=list)
    timer: int | None = None
    listed: bool = True
    ttls: dict[str, int] = field(default_factory=dict)
    leases: dict[str, tuple[str, str] | None] = field(default_factory=dict)  # step -> attempt and lease
    queued: set[str] = field(default_factory=set)  # steps with a spec in their queue
    log: Log = field(default_factory=lambda: Log())
    policy_version: int = 1
    policy: str | None = None  # the digest digest of a policy that cannot be read here

    @property
    def keys(self) -> PlanKeys:
        """The Redis keys of the plan."""
        return self.partition.plan(self.plan_id)

    @property
    def ended(self) -> bool:
        """Whether the plan has ended."""
        return self.state in ENDS

    @property
    def waiting(self) -> set[str]:
        """The steps that wait for a person or a time.

        Every field that names steps counts, except NO_WAITS, because a future version may have other waits.
        """
        found: set[str] = set()
        for name, value in self.live.items():
            if name not in NO_WAITS and isinstance(value, dict | list):
                found |= self.steps.keys() & {each for each in value if isinstance(each, str)}
        return found


@dataclass(slots=True)
class Log:
    """The result of replaying the log's moves: the last state of each step, and contradictions."""

    last: dict[str, str] = field(default_factory=dict)
    version: int = 0
    breaks: list[str] = field(default_factory=list)

    def follow(self, line: dict[str, Any]) -> None:
        """Apply the moves of one line of the log, and note contradictions."""
        if line["version"] <= self.version:
            self.breaks.append(f"version {line['version']} comes after {self.version}")
        self.version = line["version"]
        for name, before, after in line["moves"]:
            if self.last.get(name, before) != before:
                self.breaks.append(f"{name or 'the plan'} goes on from {before} after {self.last[name]}")
            self.last[name] = after


def read(site: Site, plan_id: str) -> Stored | None:
    """Return a plan; None if it does not exist.

    Raises KeepsChanging if the plan never stays unchanged, and errors of decoding for a damaged plan.
    """
    part = Partition(partition_of(plan_id, site.partitions))
    key = part.plan(plan_id).plan
    for _ in range(LOOKS):
        head: Any = site.client.hmget(key, "version", "state", "live", "head")
        if head[0] is None:
            return None
        found = Stored(plan_id, part, int(head[0]), head[1].decode(), codec.loads(head[2]))
        kept = codec.loads(head[3])
        found.policy_version = kept.get("policy_version", 1)
        if (policy := kept.get("policy")) and Policies(site.client).find(policy) is None:
            found.policy = policy
        _read_rest(site, found)
        _read_steps(site, found)
        _read_attempts(site, found)
        _read_log(site, found)
        if site.client.hget(key, "version") == head[0]:
            return found
    raise KeepsChanging(plan_id)


def _read_rest(site: Site, plan: Stored) -> None:
    """Read the rest of a plan at one moment: its attempts, ready queue, to-do list, places in lists, and expiries."""
    k, part = plan.keys, plan.partition
    every = (k.plan, k.steps, k.status, k.ready, k.active, k.todo, k.log)
    asked: list[RedisCommand] = [("HGETALL", k.active), ("ZRANGE", k.ready, 0, -1), ("LRANGE", k.todo, 0, -1)]
    asked += [("ZSCORE", part.timers, plan.plan_id), ("ZSCORE", part.plans, plan.plan_id)]
    active, ready, todo, timer, listed, *ttls = ask_together(site.client, [*asked, *(("TTL", key) for key in every)])
    for step, raw in active.items():
        entry, _, record = raw.partition(b" ")
        attempt, lease, queue, _, tokens, patch_cycles, *_ = codec.loads(record)
        plan.active[step.decode()] = Flight(entry.decode(), attempt, lease, queue, tokens, patch_cycles)
    plan.ready = {step.decode() for step in ready}
    for item in todo:
        name, number, *_ = item.decode().split(" ")
        plan.todo.append((name, int(number)))
    plan.timer = None if timer is None else int(timer)
    plan.listed = listed is not None
    plan.ttls = {key: ttl for key, ttl in zip(every, ttls, strict=True) if ttl != -2}  # -2: there is no such key


def _read_steps(site: Site, plan: Stored) -> None:
    for step, raw in _fields(site, plan.keys.status):
        if raw:
            found = StepStatus.decode(raw)
            plan.steps[step] = StepRow(found.unmet, found.state, found.index, found.attempt, found.approval)
    for name, raw in _fields(site, plan.keys.steps):
        if name.startswith(">"):
            step, _, number = name[1:].rpartition(":")
            plan.windows[step, int(number)] = raw.decode().split()
        elif name != TEXTS and not name.startswith(NOTE):
            plan.depends_on[name] = list(dict.fromkeys(depends_on(raw))) if raw else []
            if raw and (window := window_of(raw)):
                plan.windows[name, 0] = window


def _fields(site: Site, key: str) -> Iterator[tuple[str, bytes]]:
    """Yield the fields of a hash, read in pages; a field that is removed meanwhile has an empty value."""
    names: Any = site.client.hkeys(key)
    for start in range(0, len(names), PAGE):
        page = names[start : start + PAGE]
        values: Any = site.client.hmget(key, page)
        yield from ((name.decode(), raw or b"") for name, raw in zip(page, values, strict=True))


def _read_attempts(site: Site, plan: Stored) -> None:
    prefix = plan.partition.lease_prefix(plan.plan_id)
    pipeline = site.client.pipeline(transaction=False)
    for step, flight in plan.active.items():
        pipeline.hmget(prefix + step, "attempt", "lease")
        pipeline.xrange(plan.partition.steps(flight.queue), min=flight.entry, max=flight.entry)
    answers = pipeline.execute()
    for step, lease, entry in zip(plan.active, answers[::2], answers[1::2], strict=True):
        plan.leases[step] = (lease[0].decode(), (lease[1] or b"").decode()) if lease[0] else None
        if entry:
            plan.queued.add(step)


def _read_log(site: Site, plan: Stored) -> None:
    for start in range(0, 10**9, PAGE):
        page: Any = site.client.lrange(plan.keys.log, start, start + PAGE - 1)
        for line in page:
            plan.log.follow(codec.loads(line))
        if len(page) < PAGE:
            return
