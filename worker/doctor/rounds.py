"""The doctor's rounds: every check once, page by page, each finding confirmed before it is reported."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from redis.exceptions import NoPermissionError, ResponseError

from schemas.plan import BreakerView
from worker.doctor import plans, server
from worker.doctor.finding import Finding, FindingSeverity, RedisCommand, Repair, Site, ask_together
from worker.doctor.stored import KeepsChanging, read
from worker.store import fleet, open_breakers
from worker.store.clients import now_ms
from worker.store.keys import Partition, partition_of

PAGE = 500
SAMPLE = 200  # plans
FEW_KEYS = 20_000  # of a server: a walk over them takes a moment
REFUSED = ("unknown command", "unknown subcommand")  # errors for commands that a managed server hides
SCAN = 1000
GONE_MS = 300_000  # the place of a plan in the list goes that long after its keys at the latest
PLAN_KEY = re.compile(r"planner:\{(\d+)\}:plan:(plan_[0-9a-f]{2}-[^:]*)(:[a-z]+)?")
LEASE_KEY = re.compile(r"planner:\{(\d+)\}:lease:(plan_[0-9a-f]{2}-[^:]*):(.+)", re.DOTALL)
QUEUE_KEY = re.compile(r"planner:\{(\d+)\}:steps:.+", re.DOTALL)


@dataclass(slots=True)
class Rounds:
    """Runs the checks. Counts the checked items, and notes the items that could not be checked."""

    site: Site
    step: Callable[[int], None]
    plans: int = 0
    queues: int = 0
    paused: list[BreakerView] = field(default_factory=list)  # repositories that their breakers have paused: no finding
    notes: list[str] = field(default_factory=list)
    _elsewhere: set[int] = field(default_factory=set)  # partitions with plans that belong to another

    def document(self) -> dict[str, Any]:
        """Return the checked items as JSON, without the findings."""
        paused = [each.model_dump(mode="json") for each in self.paused]
        return {"plans": self.plans, "queues": self.queues, "breakers": paused, "notes": self.notes}

    def sample(self) -> Iterator[Finding]:
        """Check the server, its streams, its queues, and SAMPLE plans; everything if there are no more plans."""
        homes = [Partition(number) for number in range(self.site.partitions)]
        sizes = [self.site.client.zcard(part.plans) for part in homes]
        if sum(sizes) <= SAMPLE and self.site.client.dbsize() <= FEW_KEYS:
            yield from self.everything()
            return
        yield from self._surroundings()
        for part, size in zip(homes, sizes, strict=True):
            some: Any = self.site.client.zrandmember(part.plans, math.ceil(SAMPLE * size / sum(sizes))) if size else ()
            page = [plan_id.decode() for plan_id in some]
            yield from find_gone(self.site, part, page)
            yield from self.some([each for each in page if partition_of(each, self.site.partitions) == part.number])
        streams = [stream.key for stream in fleet.streams(self.site.client, None, len(homes))]
        yield from self._queues(streams[:SAMPLE], pages=1)
        self.notes.append(
            f"This was a sample of {sum(sizes):,} plans; planner doctor --all checks every plan and every key."
        )

    def _surroundings(self) -> Iterator[Finding]:
        for check in server.CHECKS:
            yield from self._allowed(check.__name__.replace("_", " "), check(self.site))
        self.paused = open_breakers.read_all(self.site.client, self.site.partitions)

    def _queues(self, streams: Iterable[str], pages: float = math.inf) -> Iterator[Finding]:
        for queue in sorted(streams):
            self.queues += 1
            yield from self._allowed(queue, server.queue(self.site, queue, pages))

    def everything(self) -> Iterator[Finding]:
        """Check the server, its streams, every plan, and every key."""
        yield from self._surroundings()
        for number in range(self.site.partitions):
            part = Partition(number)
            ids: Any = self.site.client.zscan_iter(part.plans, count=PAGE)  # may miss plans that come and go
            while found := [plan_id.decode() for plan_id, _ in islice(ids, PAGE)]:
                page = list(dict.fromkeys(found))
                yield from find_gone(self.site, part, page)
                at_home = [each for each in page if partition_of(each, self.site.partitions) == number]
                if len(at_home) < len(page):
                    self._elsewhere.add(number)  # the other plans cannot be found from here
                yield from self.some(at_home)
        met = Walk(self._elsewhere)
        yield from self._allowed("keys", walk(self.site, met, self.step))
        yield from self.some(sorted(met.unlisted))
        yield from self._queues(met.queues)

    def some(self, plan_ids: Sequence[str]) -> Iterator[Finding]:
        """Check these plans. Yields only findings that a second check confirms, in the words of the second check."""
        for plan_id in plan_ids:
            self.plans += 1
            self.step(1)
            first = {finding.identity for finding in self._look(plan_id)}
            if first:
                yield from (finding for finding in self._look(plan_id) if finding.identity in first)

    def _look(self, plan_id: str) -> Iterable[Finding]:
        try:
            found = read(self.site, plan_id)
            if found is None:
                return []
            return list(plans.examine(found, now_ms(self.site.client), self.site.retention_s))
        except KeepsChanging:
            self.notes.append(f"{plan_id} changed in every look at it; it was left out.")
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, ResponseError) as error:
            key = Partition(partition_of(plan_id, self.site.partitions)).plan(plan_id).plan
            sentence = f"The stored plan cannot be read: {type(error).__name__}: {error}."
            do = f"Look at {key} and the keys that begin like it; no worker can decide about the plan."
            return [Finding("plan.unreadable", plan_id, sentence, do)]
        return []

    def _allowed(self, what: str, findings: Iterator[Finding]) -> Iterator[Finding]:
        """Yield the findings.

        If this user may not ask for them, or the server does not know the question, note this and continue.
        """
        try:
            yield from findings
        except ResponseError as error:
            if isinstance(error, NoPermissionError) or any(word in str(error) for word in REFUSED):
                self.notes.append(f"{what} could not be looked at: {error}")
            else:
                do = "Look at the key: another program wrote a value of another type to it."
                yield Finding("server.refused", what, f"It cannot be looked at: {error}.", do)


@dataclass(slots=True)
class Walk:
    """The keys that a walk over the server collects, in addition to the findings that it yields."""

    strange: set[int]  # partitions with plans that belong to another
    queues: set[str] = field(default_factory=set)
    unlisted: set[str] = field(default_factory=set)  # plans that are in no list


def walk(site: Site, met: Walk, step: Callable[[int], None]) -> Iterator[Finding]:
    """Check every key of the planner once."""
    cursor: Any = 0
    while True:
        reply: Any = site.client.scan(cursor, match="planner:{*", count=SCAN)
        cursor, names = reply[0], [key.decode(errors="replace") for key in reply[1]]
        step(len(names))
        met.queues |= {name for name in names if QUEUE_KEY.fullmatch(name)}
        yield from _plan_keys(site, met, [match for name in names if (match := PLAN_KEY.fullmatch(name))])
        yield from _leases(site, met, [match for name in names if (match := LEASE_KEY.fullmatch(name))])
        if not cursor:
            break
    if met.strange:
        numbers = ", ".join(map(str, sorted(met.strange)))
        sentence = f"PLANNER_PARTITIONS is {site.partitions} here, which does not fit the keys of partition {numbers}."
        yield Finding("keys.partition", "PLANNER_PARTITIONS", sentence, "Give every process the same number.")


def _plan_keys(site: Site, met: Walk, matches: list[re.Match[str]]) -> Iterator[Finding]:
    asked: list[RedisCommand] = []
    for match in matches:
        part = Partition(int(match[1]))
        owner = part.plan(match[2]).plan
        asked += [("HEXISTS", owner, "version"), ("ZSCORE", part.plans, match[2]), ("TTL", match[0])]
    answers = ask_together(site.client, asked, raise_on_error=False)
    for match, owned, listed, ttl in zip(matches, answers[::3], answers[1::3], answers[2::3], strict=True):
        part = Partition(int(match[1]))
        if part.number != partition_of(match[2], site.partitions):
            met.strange.add(part.number)
        elif any(isinstance(answer, Exception) for answer in (owned, listed, ttl)):
            continue  # of another type; found where the plan is read
        elif owned and listed is None:
            met.unlisted.add(match[2])
        elif not owned and ttl == -1:
            repair = Repair((("EXPIRE", match[0], site.retention_s),), part.plan(match[2]).plan)
            sentence = f"The plan is gone, and {match[0]} is there and will never expire."
            do = "planner doctor --fix lets it expire after PLANNER_RETENTION_DAYS."
            yield Finding("keys.orphan", match[2], sentence, do, FindingSeverity.WARNING, repair)


def _leases(site: Site, met: Walk, matches: list[re.Match[str]]) -> Iterator[Finding]:
    asked: list[RedisCommand] = []
    for match in matches:
        k = Partition(int(match[1])).plan(match[2])
        asked += [("HGET", k.plan, "version"), ("HEXISTS", k.active, match[3]), ("TTL", match[0])]
    answers = ask_together(site.client, asked, raise_on_error=False)
    for match, version, live, ttl in zip(matches, answers[::3], answers[1::3], answers[2::3], strict=True):
        if int(match[1]) != partition_of(match[2], site.partitions):
            met.strange.add(int(match[1]))
        elif any(isinstance(answer, Exception) for answer in (version, live, ttl)):
            continue
        elif not live and ttl == -1:
            fence = Partition(int(match[1])).plan(match[2]).plan
            repair = Repair((("DEL", match[0]),), fence, None if version is None else int(version))
            sentence = f"The lease of {match[3]} belongs to no attempt in flight, and will never expire."
            do = "planner doctor --fix deletes it."
            yield Finding("keys.lease", match[2], sentence, do, FindingSeverity.WARNING, repair)


def find_gone(site: Site, part: Partition, plan_ids: list[str]) -> Iterator[Finding]:
    """Find plans in the list whose keys are gone, and which no timer will remove from the list."""
    now = now_ms(site.client)
    asked: list[RedisCommand] = []
    for plan_id in plan_ids:
        asked += [("HEXISTS", part.plan(plan_id).plan, "version"), ("ZSCORE", part.plans, plan_id)]
        asked.append(("ZSCORE", part.timers, plan_id))
    answers = ask_together(site.client, asked)
    for plan_id, exists, listed, timer in zip(plan_ids, answers[::3], answers[1::3], answers[2::3], strict=True):
        if exists or listed is None or (timer is not None and timer > now - GONE_MS):
            continue
        repair = Repair((("ZADD", part.timers, now, plan_id),), part.plan(plan_id).plan)
        sentence = "The list of plans has the plan, and its keys are gone."
        do = "planner doctor --fix has a worker take it off the list."
        yield Finding("plan.gone", plan_id, sentence, do, FindingSeverity.WARNING, repair)
