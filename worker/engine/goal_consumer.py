"""Makes plans of goals in three idempotent commits, because goal and plan are in different slots."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError
from redis.exceptions import TimeoutError as RedisTimeoutError

from schemas.base import GoalVerdict
from schemas.envelope import Problem
from schemas.goal import Goal
from schemas.stored import PlanHead
from schemas.traceparent import read_traceparent
from tasks.base.errors import Overtaken
from worker.engine.admission import Admission, reachable_plan_id
from worker.engine.engine import DRAIN_S
from worker.engine.goal_batch import GoalAnswer, GoalBatch, count_calls
from worker.engine.plan_creation import PlanCreation
from worker.store import clients, functions, goal_record, keys
from worker.store.functions import FunctionsMissing
from worker.store.keys import Partition, partition_of
from worker.store.policies import PolicyUnreadable
from worker.streams.decode import GOAL_ID, read_goal, read_goal_name
from worker.streams.fair_inbox import FairInbox
from worker.streams.inbox import LeftTooOften, StreamEntry, short
from worker.streams.internal_error import is_passing, report_failure
from worker.telemetry import metrics, tracing
from worker.telemetry.metrics import HERE
from worker.telemetry.tracing import SpanKind

log = logging.getLogger("planner.decompose")

RENEW_S = 10.0  # maximum interval, so that no worker takes over our goal
AGENT = "planner"  # the agent's name in GenAI conventions
AT_ONCE = 16  # goals that are taken together
AT_ONCE_BYTES = 256 * 1024  # total size after which no more are taken
TRIES = 5  # at a goal whose plan depends on records that others change


@dataclass(eq=False, repr=False)
class GoalConsumer:
    """Processes goals, tenants in turn: usual goals in small groups, all others one by one.

    One per process; not for several threads at once.
    """

    client: Redis
    inbox: FairInbox
    creation: PlanCreation
    admission: Admission
    max_bytes: int
    max_failures: int
    retention_s: int
    claim_idle_s: float
    put_aside: Callable[[StreamEntry], None] | None = None  # for goals with a drafter; None: it is asked at once
    _reread: bool = field(default=False, init=False)
    _batch: GoalBatch = field(init=False)

    def __post_init__(self) -> None:
        shared = (self.client, self.inbox, self.creation, self.admission)
        self._batch = GoalBatch(*shared, self.max_bytes, self.retention_s)

    def drain(self, share: float = 1.0) -> bool:
        """Process goals until none is left, or for `share` of DRAIN_S. Returns whether some may be left."""
        end = time.monotonic() + DRAIN_S * share
        while time.monotonic() < end:
            if not self.take():
                return False
        return True

    def take(self) -> bool:
        """Process some goals whose turns are next. Return whether there were any."""
        try:
            if self._reread:
                self._reread = False
                self.take_pending()
            entries = self.inbox.take(AT_ONCE, AT_ONCE_BYTES)
            left = self._batch.plan(entries)
            for number in range(len(left)):
                self._try(*left[number:])
            return bool(entries)
        except (RedisConnectionError, RedisTimeoutError):  # reads and writes are unknown: begin again
            self._reread = True
            raise

    def recover(self, idle_ms: int) -> int:
        """Take over the goals that a dead worker had read, and plan them. Returns their number."""
        taken = self.inbox.take_over(idle_ms)
        if taken:
            HERE.count(metrics.TAKEN_OVER, by=taken)
            self.take_pending(are_left=True)
        return taken

    def take_pending(self, *, are_left: bool = False) -> None:
        """Process the goals that are pending with this worker; with `are_left`, another worker left them.

        They are processed one by one: during a long wait, another worker may take over a goal.
        """
        last = "0"
        while entries := self.inbox.read(count=1, after=last):
            last = entries[0].entry_id.decode()
            self._try(entries[0], is_left=are_left)

    def _try(self, entry: StreamEntry, *waiting: StreamEntry, is_left: bool = False) -> None:
        """Process one goal. Count an internal error against the goal; after too many, dead-letter it as poison.

        With `is_left`, another worker may have died of this goal, so the try itself counts until it ends. Meanwhile the
        claims on this goal and on the `waiting` goals are renewed.
        """
        bound = (entry, keys.GOALS_FAILURES, self.max_failures)
        renewed = self.inbox.renewal((entry, *waiting), min(RENEW_S, self.claim_idle_s / 3))
        try:
            with renewed, self.inbox.counted_try(*bound) if is_left else nullcontext():
                self._keep_at(entry)
        except FunctionsMissing:  # the server was emptied or replaced; nothing of the call happened
            functions.load(self.client)
            self._try(entry, *waiting, is_left=is_left)
        except LeftTooOften as error:
            self._dead_letter(entry, Problem.of("poison", str(error), status=500))
        except (RedisConnectionError, RedisTimeoutError) as error:  # not the goal's fault
            if not self._is_elsewhere():
                raise
            self._reread = True
            log.warning("goal waits for a server", extra={"entry": entry.entry_id.decode(), "error": str(error)})
        except OutOfMemoryError:  # it became full since admission was asked
            self._dead_letter(entry, self.admission.out_of_memory())
        except PolicyUnreadable as error:  # it may be replayed to a worker that can read the policy
            self._dead_letter(entry, Problem.of("policy_unreadable", str(error), status=503))
        except Exception:
            log.exception("goal not planned yet", extra={"entry": entry.entry_id.decode()})
            functions.call_each(self.client, self.inbox.count_failure(*bound))

    def _is_elsewhere(self) -> bool:
        """Return whether the server that is away is not the one with the goals' stream.

        Raises a connection error if the server of the goals is away.
        """
        return clients.has_several(self.client) and self.client.exists(keys.GOALS) is not None

    def _keep_at(self, entry: StreamEntry) -> None:
        """Process one goal; try again if another write came first, such as a write to the same day budget."""
        with ExitStack() as traced:
            for _ in range(TRIES - 1):
                with suppress(Overtaken):
                    return self._take(entry, traced)
            return self._take(entry, traced)

    def _take(self, entry: StreamEntry, traced: ExitStack) -> None:
        if not entry.fields:  # deleted while it was pending
            functions.call_each(self.client, self.inbox.drop((entry,)))
            return
        found = self._read(entry)
        if isinstance(found, Problem):
            self._refuse(entry, found)
            return
        goal, digest = found
        beside = entry.field("id")
        if beside and not GOAL_ID.fullmatch(beside):
            detail = "The entry's field `id` cannot be the id of a goal."
            self._dead_letter(entry, Problem.of("invalid_message", detail))
            return
        goal_id = goal.goal_id or beside or entry.entry_id.decode()
        key = keys.goal_id(goal_id, goal.tenant)
        if self._is_new(key) and (refusal := self.admission.refusal(goal)):  # it may be sent again
            self._dead_letter(entry, refusal)
            return
        fresh = reachable_plan_id(self.client, goal.context.repo, self.admission.quota.partitions)
        plan_id, verdict, known = goal_record.claim(self.client, key, fresh, digest, self.retention_s)
        if known != digest:
            detail = f"The goal id {goal_id} was used before, for {plan_id}, with another body."
            self._dead_letter(entry, Problem.of("goal_conflict", detail, status=409))
            return
        is_open = verdict == GoalVerdict.PENDING
        if is_open and self.put_aside and self.creation.asks_drafter(goal, plan_id):
            # Else another entry of the same goal waits for its drafter, or for the answer.
            is_open = goal_record.hold(self.client, key, self.inbox.stream, entry.entry_id)
            if is_open and self.creation.find(plan_id) is None:  # a plan that is made only lacks its verdict here
                self.put_aside(entry)
                return
        if is_open:
            self._plan(entry, traced, goal, goal_id, plan_id)
        else:
            functions.call_each(self.client, [*count_calls([{"duplicate": 1}]), *self.inbox.drop((entry,))])

    def _read(self, entry: StreamEntry) -> tuple[Goal, str] | Problem:
        """Read a goal as `read_goal` does; an internal error becomes a problem of this goal alone."""
        try:
            return read_goal(entry, self.max_bytes)
        except Exception as error:
            return report_failure(error, entry.entry_id.decode())

    def _plan(self, entry: StreamEntry, traced: ExitStack, goal: Goal, goal_id: str, plan_id: str) -> None:
        """Create the plan and write the verdict. If an internal error prevents the plan, the entry is dead-lettered."""
        began = time.monotonic()
        given = read_traceparent(entry.field("traceparent")) or goal.traceparent
        if tracing.is_on() and not tracing.traceparent():  # at the first try
            self._trace(traced, entry, goal, goal_id, plan_id, given)
        try:
            made = self.creation.create(goal, goal_id, plan_id, tracing.traceparent(given))
        except Exception as error:
            if is_passing(error):
                raise
            problem = report_failure(error, entry.entry_id.decode(), goal_id, plan_id)
            made = self.creation.reject(goal, goal_id, plan_id, problem)
        tracing.add({"planner.verdict": made.verdict.value})
        answer = GoalAnswer(goal, goal_id, plan_id, made.verdict, made.reason, made.planned)
        if goal.retry_of and made.verdict is not GoalVerdict.NOTHING_TO_DO:  # before the verdict: so readers see it
            self._link(goal.retry_of, goal.tenant, plan_id)
        answer.note(time.monotonic() - began, tracing.traceparent(given))
        # If there is another verdict, the plan was answered by an earlier try.
        place = (goal_id, goal.tenant)
        if made.problem:
            key = keys.goal_id(goal_id, goal.tenant)
            goal_record.refuse(self.client, key, made.problem, self.retention_s, plan_id)
        else:
            answered = (self.client, place, plan_id, made.verdict, made.reason, self.retention_s)
            goal_record.settle(*answered, GoalVerdict.PENDING)
        counted = count_calls([answer.counts()])
        functions.call_each(self.client, [*made.beside, answer.event_call(self.admission.quota.partitions), *counted])
        if made.problem:
            self._dead_letter(entry, made.problem)
        else:
            functions.call_each(self.client, self.inbox.drop((entry,)))

    def _trace(
        self, traced: ExitStack, entry: StreamEntry, goal: Goal, goal_id: str, plan_id: str, given: str | None
    ) -> None:
        """Open the spans of a goal, as children of the span `given`, or in a new trace without it."""
        received = {"messaging.message.id": entry.entry_id.decode(), "messaging.consumer.group.name": keys.GROUP}
        told = tracing.messaging("process", keys.GOALS, received)
        about = {"gen_ai.operation.name": "plan", "gen_ai.agent.name": AGENT, "planner.plan_id": plan_id}
        about |= {"planner.goal_id": goal_id, "planner.tenant": goal.tenant, "planner.kind": goal.kind.value}
        traced.enter_context(tracing.span(f"process {keys.GOALS}", SpanKind.CONSUMER, given, told))
        traced.enter_context(tracing.span(f"plan {AGENT}", attributes=about))

    def _is_new(self, key: str) -> bool:
        """Return whether the goal has no plan yet; its record may already contain the id that the plan will have."""
        known = goal_record.read(self.client, key)
        if known is None or known[1] != GoalVerdict.PENDING:
            return known is None
        part = Partition(partition_of(known[0], self.admission.quota.partitions))
        return not self.client.exists(part.plan(known[0]).plan)

    def _link(self, retried: str, tenant: str, plan_id: str) -> None:
        """Record with the tenant's plan `retried` that another plan retries it; they may be in two partitions."""
        part = Partition(partition_of(retried, self.admission.quota.partitions))
        key = part.plan(retried).plan
        head: Any = self.client.hget(key, "head")
        if head and PlanHead.decode(head).tenant == tenant:
            functions.call(self.client, "FCALL", functions.RETRIED, 1, key, plan_id)

    def _refuse(self, entry: StreamEntry, problem: Problem) -> None:
        """Write the verdict of an unreadable goal, if its owner can be read; the entry is dead-lettered in any case."""
        if named := read_goal_name(entry, self.max_bytes):
            with suppress(OutOfMemoryError):  # the dead entry has the same problem
                goal_record.refuse(self.client, keys.goal_id(*named), short(problem), self.retention_s)
        self._dead_letter(entry, problem)

    def _dead_letter(self, entry: StreamEntry, problem: Problem) -> None:
        log.warning("goal dead", extra={"entry": entry.entry_id.decode(), "code": problem.code})
        HERE.count(metrics.DEAD, problem.code)
        counted = ("FCALL", functions.COUNT, 1, keys.GOALS_STATS, "dead", 1, f"dead:{problem.code}", 1)
        functions.call_each(self.client, [*self.inbox.dead_letter(entry, problem), counted])
