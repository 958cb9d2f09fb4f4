"""Reads the shared state of all workers from Redis, for Prometheus: queues, plans, waiting and dead entries.

It is read at most every FRESH_S, for any number of readers, from counts that the server keeps; no plan is read.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from prometheus_client.metrics_core import Metric as Family
from redis import Redis
from redis.exceptions import RedisError, ResponseError

from schemas.base import GoalKind, PlanState
from schemas.fleet import QueueView
from schemas.times import DAY_MS
from tasks.plan import lifecycle
from tasks.plan.lifecycle import PLAN_ENDS
from worker.store import fleet, keys
from worker.store.clients import now_ms
from worker.store.dead import places
from worker.store.keys import Partition
from worker.store.memory import share_of
from worker.telemetry import metrics
from worker.telemetry.metrics import MOST_NAMES, NAME, OTHER, Metric

FRESH_S = 5.0
MOST_QUEUES = 500  # that are read, the most used first
MOST_BUDGETS = 5000  # of a partition's scopes; beyond it exhausted day budgets are not counted
LIVE = tuple(state.value for state in PlanState if state.value not in PLAN_ENDS)
KINDS = tuple(kind.value for kind in GoalKind)
INBOX, INBOX_AGE = metrics.INBOX_LENGTH, metrics.INBOX_AGE
INBOXES = ("goals", "commands", "webhooks", "outcomes")

Values = dict[tuple[Metric, tuple[str, ...]], float]


class SharedState:
    """The state of the server, kept for FRESH_S; for several threads."""

    def __init__(self, client: Redis, partitions: int) -> None:
        self._client = client
        self._parts = [Partition(number) for number in range(partitions)]
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._values: Values = {}

    def collect(self) -> Iterator[Family]:
        """Yield the metrics of the shared state; if the server does not answer, only the metric that shows this."""
        with self._lock:
            if time.monotonic() - self._read_at >= FRESH_S:
                try:
                    self._values = {**self._read(), (metrics.STATE_UP, ()): 1}
                except RedisError:
                    self._values = {(metrics.STATE_UP, ()): 0}
                self._read_at = time.monotonic()
            values = self._values
        yield from _families(values)

    def _read(self) -> Values:
        now = now_ms(self._client)
        return {
            **self._plans(),
            **self._queues(),
            **self._inboxes(now),
            **self._dead(),
            **self._clocks(now),
            **self._budgets(now),
        }

    def _ask(self, asked: Iterable[Sequence[Any]]) -> list[Any]:
        """Return the results of these methods of the client, in one round trip; a key of another type counts as 0."""
        pipeline = self._client.pipeline(transaction=False)
        for name, *arguments in asked:
            getattr(pipeline, name)(*arguments)
        found = pipeline.execute(raise_on_error=False)
        for each in found:
            if isinstance(each, Exception) and not (isinstance(each, ResponseError) and "WRONGTYPE" in str(each)):
                raise each
        return [0 if isinstance(each, Exception) else each for each in found]

    def _plans(self) -> Values:
        names = [(state, kind, lifecycle.of_live(state, kind)) for state in LIVE for kind in KINDS]
        names += [(state, OTHER, lifecycle.of_state(state)) for state in LIVE]
        asked = [("zcard", part.list_of(name)) for _, _, name in names for part in self._parts]
        asked += [("zcard", part.list_of(lifecycle.WAITING)) for part in self._parts]
        counts, size = self._ask(asked), len(self._parts)
        values: Values = {}
        for place, (state, kind, _) in enumerate(names):
            values[metrics.PLANS_NOW, (state, kind)] = sum(counts[place * size : (place + 1) * size])
        for state in LIVE:  # plans of a kind that a newer version has added are in no list of ours
            known = sum(values[metrics.PLANS_NOW, (state, kind)] for kind in KINDS)
            values[metrics.PLANS_NOW, (state, OTHER)] = max(0, values[metrics.PLANS_NOW, (state, OTHER)] - known)
        values[metrics.PLANS_WAITING, ()] = sum(counts[len(names) * size :])
        return values

    def _queues(self) -> Values:
        named = fleet.read_queue_names(self._client, len(self._parts))[:MOST_QUEUES]
        views = fleet.queues(self._client, named, len(self._parts))
        shown = {queue for queue in named[:MOST_NAMES] if NAME.fullmatch(queue)}
        sums: defaultdict[tuple[Metric, tuple[str, ...]], float] = defaultdict(float)
        for view in views:
            label = (view.queue if view.queue in shown else OTHER,)
            for metric, value in _figures(view):
                sums[metric, label] += value
            age = (metrics.QUEUE_AGE, label)
            sums[age] = max(sums[age], (view.oldest_ms or 0) / 1000)
        return dict(sums)

    def _inboxes(self, now_ms: int) -> Values:
        streams = {"goals": [keys.GOALS], "webhooks": [keys.WEBHOOK_JOBS], "commands": [keys.COMMANDS], "outcomes": []}
        for part in self._parts:
            streams["outcomes"].append(part.outcomes)
            streams["commands"].append(part.commands)
        flat = [(name, key) for name in INBOXES for key in streams[name]]
        lengths = self._ask(("xlen", key) for _, key in flat)
        firsts = self._ask(("xrange", key, "-", "+", 1) for _, key in flat)
        values: Values = {(metric, (name,)): 0 for name in INBOXES for metric in (INBOX, INBOX_AGE)}
        for (name, _), length, first in zip(flat, lengths, firsts, strict=True):
            values[INBOX, (name,)] += length
            if first:
                age = (now_ms - int(first[0][0].partition(b"-")[0])) / 1000
                values[INBOX_AGE, (name,)] = max(values[INBOX_AGE, (name,)], age)
        return values

    def _dead(self) -> Values:
        streams = places(len(self._parts))
        values: Values = {(metrics.DLQ_LENGTH, (name,)): 0 for name in ("goals", "commands", "outcomes")}
        for place, length in zip(streams, self._ask(("xlen", each.key) for each in streams), strict=True):
            name = "outcomes" if place.name.isdigit() else place.name
            values[metrics.DLQ_LENGTH, (name,)] += length
        values[metrics.OUTBOX_LENGTH, ()] = sum(self._ask(("xlen", part.outbox) for part in self._parts))
        return values

    def _clocks(self, now_ms: int) -> Values:
        firsts = self._ask(("zrange", part.timers, 0, 0, False, True) for part in self._parts)
        due = [float(first[0][1]) for first in firsts if first]
        memory = self._client.info("memory")
        values: Values = {(metrics.SWEEP_LAG, ()): max(0.0, (now_ms - min(due, default=now_ms)) / 1000)}
        if int(memory.get("maxmemory", 0)):
            values[metrics.MEMORY, ()] = share_of(memory)
        return values

    def _budgets(self, now_ms: int) -> Values:
        """Return the number of tenants and of repositories with an exhausted day budget; empty if too many to read."""
        if max(self._ask(("hlen", part.grants) for part in self._parts)) > MOST_BUDGETS:
            return {}
        pipeline = self._client.pipeline(transaction=False)
        for part in self._parts:
            pipeline.hgetall(part.grants)
        today, gone = now_ms // DAY_MS, set()
        for found in pipeline.execute():
            for scope, raw in found.items():
                day, left, over = (*raw.split(), b"", b"", b"")[:3]
                if day.isdigit() and int(day) == today and over == b"1" and int(left or 0) <= 0:
                    gone.add(scope)
        return {
            (metrics.DAY_BUDGETS_GONE, (of,)): sum(scope.startswith(of.encode() + b":") for scope in gone)
            for of in ("tenant", "repository")
        }


def _figures(view: QueueView) -> Iterator[tuple[Metric, float]]:
    yield metrics.QUEUE_LENGTH, view.length
    yield metrics.QUEUE_WAITING, view.waiting
    yield metrics.IN_FLIGHT, view.claimed
    yield metrics.QUEUE_READERS, view.readers
    yield metrics.QUEUE_PAUSED, int(view.paused_by is not None)


def _families(values: Values) -> Iterator[Family]:
    families: dict[Metric, Family] = {}
    for (metric, labels), value in values.items():
        family = families.setdefault(metric, Family(metric.name, metric.help, metric.kind.value))
        family.add_sample(metric.name, dict(zip(metric.labels, labels, strict=True)), value)
    yield from families.values()
