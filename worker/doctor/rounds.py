"""The doctor's rounds: every check once, page by page, each finding confirmed before it is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from redis.exceptions import NoPermissionError, ResponseError

from schemas.plan import BreakerView
from worker.doctor import orphans, plans, server
from worker.doctor.finding import Finding, Site
from worker.doctor.stored import KeepsChanging, read
from worker.store import open_breakers
from worker.store.clients import now_ms
from worker.store.keys import Partition, partition_of

PAGE = 500
REFUSED = ("unknown command", "unknown subcommand")  # what a managed server hides


@dataclass(slots=True)
class Rounds:
    """What was looked at, and what could not be."""

    site: Site
    step: Callable[[int], None]
    plans: int = 0
    queues: int = 0
    breakers: list[BreakerView] = field(default_factory=list)  # repositories that theirs have paused: no finding
    notes: list[str] = field(default_factory=list)
    _elsewhere: set[int] = field(default_factory=set)  # partitions with plans that belong to another

    def everything(self) -> Iterator[Finding]:
        """Look at the server, its streams, every plan, and every key."""
        for check in server.CHECKS:
            yield from self._allowed(check.__name__.replace("_", " "), check(self.site))
        self.breakers = open_breakers.read_all(self.site.client, self.site.partitions)
        for number in range(self.site.partitions):
            part = Partition(number)
            ids: Any = self.site.client.zscan_iter(part.plans, count=PAGE)  # such as come and go may be met or not
            while found := [plan_id.decode() for plan_id, _ in islice(ids, PAGE)]:
                page = list(dict.fromkeys(found))
                yield from orphans.find_gone(self.site, part, page)
                at_home = [each for each in page if partition_of(each, self.site.partitions) == number]
                if len(at_home) < len(page):
                    self._elsewhere.add(number)  # nobody here can find those that are left
                yield from self.some(at_home)
        met = orphans.Walk(self._elsewhere)
        yield from self._allowed("keys", orphans.walk(self.site, met, self.step))
        yield from self.some(sorted(met.unlisted))
        for queue in sorted(met.queues):
            self.queues += 1
            yield from self._allowed(queue, server.queue(self.site, queue))

    def some(self, plan_ids: Sequence[str]) -> Iterator[Finding]:
        """Look at these plans; yields what is found of a plan twice, in the words of the second look."""
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
            sentence = f"What is stored of the plan cannot be read: {type(error).__name__}: {error}."
            do = f"Look at {key} and the keys that begin like it; no worker can decide about the plan."
            return [Finding("plan.unreadable", plan_id, sentence, do)]
        return []

    def _allowed(self, what: str, findings: Iterator[Finding]) -> Iterator[Finding]:
        """Go on where this user may not ask, or the server does not know the question, and say so."""
        try:
            yield from findings
        except ResponseError as error:
            if isinstance(error, NoPermissionError) or any(word in str(error) for word in REFUSED):
                self.notes.append(f"{what} could not be looked at: {error}")
            else:
                do = "Look at the key: somebody has put something else in its place."
                yield Finding("server.refused", what, f"It cannot be looked at: {error}.", do)
