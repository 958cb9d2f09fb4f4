"""Reads the result of a plan: its log, the facts of its steps, and what is known of its diffs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from redis import Redis

from schemas.plan import PlanView
from schemas.result import PlanResult
from worker.render.result import digests_of, result_of
from worker.render.time_line import AttemptTimes, attempts_of
from worker.store import attachments, history
from worker.store.attachments import digest_of
from worker.store.keys import Partition, partition_of

MOST_READ = 50_000  # lines of a log
ALL_DIFFS = MOST_READ
TOO_LONG = "The log has more than {:,} lines, so its attempts are not read here: `planner export` has them."


def with_result(client: Redis, partitions: int, view: PlanView) -> PlanView:
    """Add its result to a plan that has ended."""
    if not view.ended_at:
        return view
    return view.model_copy(update={"result": read_result(client, partitions, view).result})


class ReadResult(NamedTuple):
    """A result, and the diffs of its steps as far as they are kept."""

    result: PlanResult
    diffs: dict[str, bytes]


def read_result(client: Redis, partitions: int, view: PlanView, *, diffs: int = 0) -> ReadResult:
    """Read the result of a plan, with the first `diffs` of its steps."""
    keys = Partition(partition_of(view.plan_id, partitions)).plan(view.plan_id)
    if client.lrange(keys.log, MOST_READ, MOST_READ):
        return ReadResult(result_of(view, (), {}, {}, datetime.now(UTC), TOO_LONG.format(MOST_READ)), {})
    lines = [*history.read_log(client, keys)]
    attempts = attempts_of(lines, history.story_in(client, keys, lines), view.steps, {})
    return result_from(client, partitions, view, attempts, diffs=diffs)


def result_from(
    client: Redis, partitions: int, view: PlanView, attempts: Sequence[AttemptTimes], *, diffs: int = 0
) -> ReadResult:
    """Make the result of a plan whose attempts are known, with the first `diffs` of its steps."""
    keys = Partition(partition_of(view.plan_id, partitions)).plan(view.plan_id)
    facts = history.read_facts(client, keys, sorted({each.step_id for each in attempts}))
    digests = digests_of(attempts)
    found = attachments.read(client, partitions, view.plan_id, view.tenant, digests, texts=diffs)
    texts = {
        each.step_id: diff.text
        for each in attempts
        if each.result == "DONE" and (diff := found.get(digest_of(each.told.get("diff_hash")))) and diff.text
    }
    return ReadResult(result_of(view, attempts, facts, found, datetime.now(UTC)), texts)
