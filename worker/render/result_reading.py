"""Reads the result of a plan: its log, the facts of its steps, and the stored data of its diffs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from threading import Lock
from types import MappingProxyType
from typing import NamedTuple

from redis import Redis

from schemas.plan import PlanView
from schemas.result import PlanResult
from worker.render.result import digests_of, result_of
from worker.render.time_line import AttemptTimes, attempts_of
from worker.store import attachments, history
from worker.store.attachments import KeptDiff
from worker.store.keys import Partition, partition_of
from worker.store.named_digests import digest_of

MOST_READ = 50_000  # lines of a log
MOST_KEPT = 200  # results of one process
ALL_DIFFS = MOST_READ
TOO_LONG = "The log has more than {:,} lines, so its attempts are not read here: `planner export` has them."


class ReadResult(NamedTuple):
    """A plan's result, the diffs of its steps by step and attempt, their digests, and their known data."""

    result: PlanResult
    diffs: dict[tuple[str, int], bytes]
    digests: tuple[str, ...] = ()
    known: Mapping[str, KeptDiff] = MappingProxyType({})


class Results:
    """Keeps the results of the last MOST_KEPT ended plans, so that polling reads no log.

    A result is found by the head of its plan's log. It is made again when more is known of the plan's diffs.
    """

    def __init__(self, client: Redis, partitions: int) -> None:
        self._client, self._partitions = client, partitions
        self._kept: dict[tuple[str, str], ReadResult] = {}
        self._lock = Lock()

    def read(self, view: PlanView) -> PlanResult:
        """Return the result of a plan."""
        if not (view.ended_at and view.log):
            return read_result(self._client, self._partitions, view).result
        key = (view.plan_id, view.log.head)
        with self._lock:
            found = self._kept.pop(key, None)
        if found is None or found.known != self._known(view, found.digests):
            found = read_result(self._client, self._partitions, view)
        with self._lock:
            self._kept[key] = found
            if len(self._kept) > MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        return found.result

    def _known(self, view: PlanView, digests: Sequence[str]) -> Mapping[str, KeptDiff]:
        return attachments.read(self._client, self._partitions, view.plan_id, view.tenant, digests)

    def with_result(self, view: PlanView) -> PlanView:
        """Return an ended plan with its result."""
        return view.model_copy(update={"result": self.read(view)}) if view.ended_at else view


def read_result(client: Redis, partitions: int, view: PlanView, *, diffs: int = 0) -> ReadResult:
    """Return the result of a plan, with the texts of its first `diffs` diffs."""
    keys = Partition(partition_of(view.plan_id, partitions)).plan(view.plan_id)
    if client.lrange(keys.log, MOST_READ, MOST_READ):
        return ReadResult(result_of(view, (), {}, {}, datetime.now(UTC), TOO_LONG.format(MOST_READ)), {})
    lines = [*history.read_log(client, keys)]
    attempts = attempts_of(lines, history.story_in(client, keys, lines), view.steps, {})
    return result_from(client, partitions, view, attempts, diffs=diffs)


def result_from(
    client: Redis, partitions: int, view: PlanView, attempts: Sequence[AttemptTimes], *, diffs: int = 0
) -> ReadResult:
    """Return the result of a plan from its attempts, with the texts of its first `diffs` diffs."""
    keys = Partition(partition_of(view.plan_id, partitions)).plan(view.plan_id)
    facts = history.read_facts(client, keys, sorted({each.step_id for each in attempts}))
    digests = digests_of(attempts)
    found = attachments.read(client, partitions, view.plan_id, view.tenant, digests, texts=diffs)
    texts = {
        (each.step_id, each.attempt): diff.text
        for each in attempts
        if each.result == "DONE" and (diff := found.get(digest_of(each.told.get("diff_hash")))) and diff.text
    }
    return ReadResult(result_of(view, attempts, facts, found, datetime.now(UTC)), texts, tuple(digests), found)
