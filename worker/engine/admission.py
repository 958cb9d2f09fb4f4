"""Admission of new plans: whether there is room, and what stands from the first moment."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from redis import Redis

from schemas import codec
from schemas.base import name_unknown_fields
from schemas.envelope import Problem
from schemas.goal import Goal
from schemas.times import DAY_MS
from tasks.base.log_chain import find_head
from tasks.handlers.bulk_commands import find_paused_queues, find_standing
from tasks.handlers.goals import PlanSeed
from tasks.rules.budget import ANSWER_WAIT
from worker.engine.quota import Quota
from worker.host.code_version import CODE_VERSION
from worker.store.keys import Partition, bucket
from worker.store.memory import ServerMemory


@dataclass(frozen=True, slots=True)
class Admission:
    """Lets plans in; a tenant has at most `max_plans` that have not ended."""

    client: Redis
    memory: ServerMemory
    quota: Quota
    max_plans: int
    requires_receipts: bool = False
    delivery_wait_s: int = DAY_MS // 1000
    answer_wait_s: int = ANSWER_WAIT

    def refusal(self, goal: Goal) -> Problem | None:
        """Say why no plan is made of `goal` now; it may be sent again later."""
        if not self.memory.takes_goals:
            return self.out_of_memory()
        pipeline = self.client.pipeline(transaction=False)
        for number in range(self.quota.partitions):
            pipeline.hget(Partition(number).tenants, goal.tenant)
        live = sum(int(count or 0) for count in pipeline.execute())
        if live < self.max_plans:
            return None
        detail = f"The tenant {goal.tenant} has {live} plans that have not ended; the limit is {self.max_plans}."
        return Problem.of("tenant_full", detail, status=429)

    def out_of_memory(self) -> Problem:
        """Say that the server has no room for a plan."""
        detail = f"The server's memory is {self.memory.share:.0%} full; replay the goal once there is room."
        return Problem.of("out_of_memory", detail, status=507)

    def plan_seed(
        self, partition: Partition, goal: Goal, goal_id: str, plan_id: str, traceparent: str | None = None
    ) -> PlanSeed:
        """Gather who the plan will be, and what stands for its tenant and repository."""
        tenant, repo = goal.tenant, goal.context.repo
        scopes = self.quota.of(tenant, repo)
        pipeline: Any = self.client.pipeline(transaction=False)
        pipeline.time()
        pipeline.hmget(partition.plan(plan_id).plan, "version", "live")
        pipeline.hgetall(partition.scopes)
        pipeline.hget(partition.sweep, "down")
        if scopes:
            pipeline.hmget(partition.grants, scopes)
        (seconds, microseconds), (version, live), commands, down, *grants = pipeline.execute()
        now = seconds * 1000 + microseconds // 1000
        version, known = int(version or 0), codec.loads(live) if live else None
        created = known["times"]["created"] if known else now
        return PlanSeed(
            plan_id=plan_id,
            goal_id=goal_id,
            now=now,
            created=created,
            seed=os.urandom(12).hex(),  # from which the leases of the plan are derived
            reply_to=partition.outcomes,
            lease_prefix=partition.lease_prefix(plan_id),
            version=version,
            log_head=find_head(known["halting"], version) if known else None,
            code=CODE_VERSION,
            down=int(down or 0),
            standing=find_standing(commands, tenant, repo, created, now),
            paused_queues=find_paused_queues(commands, now),
            requires_receipts=self.requires_receipts,
            delivery_wait_s=self.delivery_wait_s,
            answer_wait_s=self.answer_wait_s,
            unknown=name_unknown_fields(goal),
            grants=self.quota.grants(scopes, grants[0], now) if scopes else {},
            traceparent=traceparent,
        )


def fresh_plan_id(repo: str | None) -> str:
    """Make a plan id, in the bucket of its repository.

    A plan without a repository has a bucket of its own. The rest is a UUIDv7 as 32 hex digits, which sorts by its
    millisecond (RFC 9562 section 5.7).
    """
    ms, noise = time.time_ns() // 1_000_000, int.from_bytes(os.urandom(10))
    unique = f"{ms << 80 | 0x7 << 76 | (noise >> 68) << 64 | 0b10 << 62 | noise & (1 << 62) - 1:032x}"
    return f"plan_{bucket(repo or unique)}-{unique}"
