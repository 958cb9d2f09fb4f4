"""What is told of a goal once its plan is made or refused: its event, its counters, its line in the log."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from schemas import codec
from schemas.base import GoalVerdict, unknown_fields
from schemas.event import event_type
from schemas.goal import Goal
from schemas.times import rfc3339
from schemas.traceparent import trace_id_of
from worker.store import functions, keys, known_queues
from worker.store.keys import Partition, partition_of
from worker.store.plans import EVENTS_CAP
from worker.streams.inbox import RedisCommand
from worker.telemetry import metrics
from worker.telemetry.counting import HERE

log = logging.getLogger("planner.decompose")

WEBHOOK = "webhook-"  # begins the ids that worker/webhooks/intake.py makes


class GoalAnswer(NamedTuple):
    """A goal, its plan and what became of it."""

    goal: Goal
    goal_id: str
    plan_id: str
    verdict: GoalVerdict
    reason: str = ""
    is_planned: bool = True  # there are steps to hand out, or will be

    def note(self, seconds: float, trace: str | None) -> None:
        """Count it here and say it in the log; planning took so many seconds."""
        HERE.count(metrics.GOALS_RECEIVED, _source(self.goal, self.goal_id))
        HERE.count(metrics.GOALS_DECIDED, self.goal.kind, self.verdict)
        HERE.observe(metrics.DECOMPOSE_SECONDS, seconds, self.goal.kind)
        said = {"goal_id": self.goal_id, "plan_id": self.plan_id, "verdict": self.verdict}
        if trace:
            said["trace_id"] = trace_id_of(trace)
        log.info("goal decided", extra=said)

    def event_call(self, partitions: int) -> RedisCommand:
        """Make the command that tells, behind the verdict, that there is one."""
        goal = self.goal
        said = {"plan_id": self.plan_id, "goal_id": self.goal_id, "tenant": goal.tenant, "repo": goal.context.repo}
        said |= {"kind": goal.kind.value, "verdict": self.verdict.value, "reason": self.reason}
        data = {name: value for name, value in said.items() if value}
        data["at"] = rfc3339(time.time_ns() // 1_000_000)
        stream = Partition(partition_of(self.plan_id, partitions)).events
        call = ("FCALL", functions.ADD, 1, stream, EVENTS_CAP)
        return (*call, "type", event_type("goal.decided"), "data", codec.dumps(data))

    def counts(self) -> dict[str, int]:
        """Tell what is counted of it on the server.

        The queues that it names are, but for those of one without a plan: they would be noted for ever, and never used.
        """
        named = {self.goal.queue, *(step.queue for step in self.goal.steps or () if step.queue)}
        queues = known_queues.count(named if self.is_planned else ())
        return {self.verdict.value: 1, "unknown_fields": unknown_fields(self.goal), **queues}


def count_calls(counts: Iterable[Mapping[str, int]]) -> list[RedisCommand]:
    """Make the one command that counts goals on the server; none where there are none."""
    total = Counter[str]()
    for each in counts:
        total.update(each)
    flat = [part for pair in total.items() for part in pair]
    return [("FCALL", functions.COUNT, 1, keys.GOALS_STATS, *flat)] if flat else []


def _source(goal: Goal, goal_id: str) -> str:
    """Say how a goal came: a webhook's has an id that begins so."""
    if goal.retry_of:
        return "retry"
    return "webhook" if goal_id.startswith(WEBHOOK) else "direct"
