"""Reads the evidence against opening a repository's breaker: successes of its plans after the failures.

Successes are not recorded for this. So it reads the failed steps and the last log lines of plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from redis import Redis

from schemas import codec
from schemas.base import StepState
from schemas.stored import PlanHead, StepStatus
from schemas.stored.step import NO_MATTER, unpack_step
from tasks.base.batches import batches
from tasks.features.breakers.breaker import Evidence, Failure
from worker.store.keys import Partition, list_name

NEWEST_PLANS = 128  # newest plans of the repository whose successes count
LAST_LINES = 24  # of a plan's log
AT_ONCE = 64  # plans
ENDS = (StepState.ACTIVE.value, StepState.DONE.value)


def read_states(client: Redis, partition: Partition, failures: Iterable[Failure]) -> Evidence:
    """Return the states of the steps that failed."""
    steps = list(dict.fromkeys(each.step for each in failures))
    pipeline = client.pipeline(transaction=False)
    for plan_id, step_id in steps:
        pipeline.hget(partition.plan(plan_id).status, step_id)
    found = zip(steps, pipeline.execute(), strict=True)
    return Evidence({step: StepStatus.decode(raw).state for step, raw in found if raw})


def read_successes(
    client: Redis, partition: Partition, whose: tuple[str, str], failures: Iterable[Failure], since: int
) -> list[int]:
    """Return the times in ms after `since` when a tool verified a step, in order.

    Reads the plans with the failures and the newest other plans of the tenant's repository (`whose`). Only the end of
    each log is read.
    """
    tenant, repo = whose
    newest: Any = client.zrevrange(f"{partition.plans}:{list_name(f'repo:{repo}')}", 0, NEWEST_PLANS - 1)
    plans = dict.fromkeys([*(each.about.plan_id for each in failures), *(name.decode() for name in newest)])
    succeeded: list[int] = []
    for page in batches(list(plans), AT_ONCE):
        pipeline = client.pipeline(transaction=False)
        for plan_id in page:
            pipeline.hget(partition.plan(plan_id).plan, "head")
            pipeline.lrange(partition.plan(plan_id).log, -LAST_LINES, -1)
        replies = pipeline.execute()
        done = {
            plan_id: _ends(lines, since)
            for plan_id, head, lines in zip(page, replies[::2], replies[1::2], strict=True)
            if head and PlanHead.decode(head).tenant == tenant
        }
        succeeded += _verified(client, partition, done)
    return sorted(succeeded)


def _ends(lines: Sequence[bytes], since: int) -> dict[str, int]:
    """Return the steps of a plan that were done after the time `since`, with their times."""
    told = [codec.loads(line) for line in lines]
    return {
        step_id: line["now"]
        for line in told
        if line["now"] > since
        for step_id, *ends in line["moves"]
        if step_id and tuple(ends) == ENDS
    }


def _verified(client: Redis, partition: Partition, done: Mapping[str, Mapping[str, int]]) -> list[int]:
    """Return the times in ms of the steps in `done` that a tool verified on the tree of their plan."""
    asked = [(plan_id, ends) for plan_id, ends in done.items() if ends]
    pipeline = client.pipeline(transaction=False)
    for plan_id, ends in asked:
        pipeline.hmget(partition.plan(plan_id).steps, list(ends))
    return [
        at
        for (_, ends), specs in zip(asked, pipeline.execute(), strict=True)
        for at, spec in zip(ends.values(), specs, strict=True)
        if spec and _proves(unpack_step(spec, NO_MATTER))
    ]


def _proves(facts: Mapping[str, Any]) -> bool:
    return bool(facts["verify_tools"]) and not facts["at_base"]
