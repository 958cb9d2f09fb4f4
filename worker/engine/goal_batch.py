"""Plans several goals together, in a few round trips for all of them.

Each goal has the three commits of `goal_consumer`: claim the record, write the plan, store the verdict. If one of them
fails, `goal_consumer` finishes the goal by itself. Only usual goals are planned here: new goals of tenants with
capacity, whose plans need one commit and no drafter.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import filterfalse
from typing import Any, NamedTuple

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from schemas import codec
from schemas.base import GoalVerdict, Overlap, unknown_fields
from schemas.envelope import Problem
from schemas.event import event_type
from schemas.goal import Goal
from schemas.times import rfc3339
from schemas.traceparent import read_traceparent, trace_id_of
from tasks.features import duplicates
from tasks.plan.changeset import Changeset, claims_name
from tasks.plan.file_claims import asked_for, claims_of
from tasks.plan.snapshot import Grant
from tasks.policy.plan_seed import PlanSeed
from tasks.text.paths import is_glob
from worker.engine.admission import Admission, reachable_plan_id
from worker.engine.plan_creation import PlanCreation
from worker.store import file_claims, fleet, functions, goal_record, keys, policies
from worker.store.file_claims import ClaimsAsk
from worker.store.functions import Talk
from worker.store.keys import Partition, goal_id, partition_of
from worker.store.plans import EVENTS_CAP
from worker.store.policies import PolicyUnreadable
from worker.streams.decode import GOAL_ID, read_goal
from worker.streams.inbox import Inbox, RedisCommand, StreamEntry
from worker.telemetry import metrics, tracing
from worker.telemetry.metrics import HERE

WEBHOOK = "webhook-"  # prefix of ids that worker/webhooks/intake.py makes


class GoalAnswer(NamedTuple):
    """A goal, its plan and the verdict."""

    goal: Goal
    goal_id: str
    plan_id: str
    verdict: GoalVerdict
    reason: str = ""
    is_planned: bool = True  # it has steps to hand out, or will have

    def note(self, seconds: float, trace: str | None) -> None:
        """Count the goal and log its verdict; `seconds` is the planning time."""
        HERE.count(metrics.GOALS_RECEIVED, _source(self.goal, self.goal_id))
        HERE.count(metrics.GOALS_DECIDED, self.goal.kind, self.verdict)
        HERE.observe(metrics.DECOMPOSE_SECONDS, seconds, self.goal.kind)
        said = {"goal_id": self.goal_id, "plan_id": self.plan_id, "verdict": self.verdict}
        if trace:
            said["trace_id"] = trace_id_of(trace)
        log.info("goal decided", extra=said)

    def event_call(self, partitions: int) -> RedisCommand:
        """Return the command that publishes the verdict as an event; it runs after the verdict is stored."""
        goal = self.goal
        said = {"plan_id": self.plan_id, "goal_id": self.goal_id, "tenant": goal.tenant, "repo": goal.context.repo}
        said |= {"kind": goal.kind.value, "verdict": self.verdict.value, "reason": self.reason}
        data = {name: value for name, value in said.items() if value}
        data["at"] = rfc3339(time.time_ns() // 1_000_000)
        stream = Partition(partition_of(self.plan_id, partitions)).events
        call = ("FCALL", functions.ADD, 1, stream, EVENTS_CAP)
        return (*call, "type", event_type("goal.decided"), "data", codec.dumps(data))

    def counts(self) -> dict[str, int]:
        """Return the counters to raise on the server for this goal.

        They include the queues that the goal names only if it has a plan: otherwise unused names would be recorded for
        ever.
        """
        named = {self.goal.queue, *(step.queue for step in self.goal.steps or () if step.queue)}
        queues = fleet.count_named(named if self.is_planned else ())
        return {self.verdict.value: 1, "unknown_fields": unknown_fields(self.goal), **queues}


def count_calls(counts: Iterable[Mapping[str, int]]) -> list[RedisCommand]:
    """Return the one command that counts goals on the server; empty if there are none."""
    total = Counter[str]()
    for each in counts:
        total.update(each)
    flat = [part for pair in total.items() for part in pair]
    return [("FCALL", functions.COUNT, 1, keys.GOALS_STATS, *flat)] if flat else []


def _source(goal: Goal, goal_id: str) -> str:
    """Return how a goal arrived: `retry`, `webhook` (its id has a prefix) or `direct`."""
    if goal.retry_of:
        return "retry"
    return "webhook" if goal_id.startswith(WEBHOOK) else "direct"


log = logging.getLogger("planner.decompose")

LARGE = 64 * 1024  # a goal with more bytes is planned alone: it may take long


@dataclass(slots=True)
class NewGoal:
    """A goal without a record, and the plan to be made."""

    entry: StreamEntry
    goal: Goal
    goal_id: str
    digest: str
    plan_id: str
    partition: Partition
    given: str | None  # the trace that it belongs to

    @property
    def is_small(self) -> bool:
        """Whether the goal is small and continues or retries no plan, so that its plan is made quickly."""
        return self.entry.size <= LARGE and not (self.goal.retry_of or self.goal.from_)

    @property
    def record(self) -> str:
        """The key of the goal's record."""
        return goal_id(self.goal_id, self.goal.tenant)

    @property
    def claims_calls(self) -> list[RedisCommand]:
        """The call that reads the claims on the files that the goal names; empty without a repository.

        A file that is not read counts as free; the commit detects a conflict.
        """
        repo = self.goal.context.repo
        named: Sequence[str] = self.goal.allowed_files
        if not repo:
            return []
        if self.goal.overlap in (Overlap.WAIT, Overlap.REFUSE):
            named = asked_for(claims_of(filterfalse(is_glob, named), (), filter(is_glob, named)))
        named = (*named, *duplicates.asked_for(self.goal))
        return [file_claims.read_call(self.partition, ClaimsAsk(self.goal.tenant, repo, named))]

    @property
    def answer(self) -> GoalAnswer:
        """The goal's answer once its plan is written."""
        return GoalAnswer(self.goal, self.goal_id, self.plan_id, GoalVerdict.PLANNED)


@dataclass(eq=False, repr=False)
class GoalBatch:
    """Plans the usual goals among those of one worker. Not for several threads at once."""

    client: Redis
    inbox: Inbox
    creation: PlanCreation
    admission: Admission
    max_bytes: int
    retention_s: int

    def plan(self, entries: Sequence[StreamEntry]) -> list[StreamEntry]:
        """Plan the usual goals among `entries`. Returns the others unchanged and in order."""
        done: set[bytes] = set()
        began = time.monotonic()
        try:
            # With tracing each goal needs separate spans around all of its work.
            found = [] if tracing.is_on() else list(self._read(entries))
            for new in self._settle(self._claim_and_write(self._admit(found))):
                new.answer.note(time.monotonic() - began, new.given)
                done.add(new.entry.entry_id)
        except (RedisConnectionError, RedisTimeoutError):
            raise
        except Exception as error:  # the goal that caused it fails alone, too
            log.warning("goals are tried alone", extra={"error": f"{type(error).__name__}: {error}"})
        return [entry for entry in entries if entry.entry_id not in done]

    def _read(self, entries: Sequence[StreamEntry]) -> Iterator[NewGoal]:
        """Yield the goals that can be read."""
        for entry in entries:
            found = read_goal(entry, self.max_bytes) if entry.fields else None
            beside = entry.field("id")
            if found is None or isinstance(found, Problem) or (beside and not GOAL_ID.fullmatch(beside)):
                continue
            goal, digest = found
            plan_id = reachable_plan_id(self.client, goal.context.repo, self.admission.quota.partitions)
            partition = self.creation.context_of(plan_id).partition
            given = read_traceparent(entry.field("traceparent")) or goal.traceparent
            goal_id = goal.goal_id or beside or entry.entry_id.decode()
            yield NewGoal(entry, goal, goal_id, digest, plan_id, partition, given)

    def _admit(self, found: Sequence[NewGoal]) -> list[tuple[NewGoal, PlanSeed]]:
        """Return the small goals of tenants with capacity, each with the seed of its plan.

        Goals with an unreadable context are left out.
        """
        first = {new.record: new for new in reversed(found)}  # another one of the same id comes after it
        asked = [new for new in found if first[new.record] is new and new.is_small]
        if not asked or not self.admission.memory.takes_goals:
            return []
        admission, calls, seeds = self.admission, list[RedisCommand](), list[list[RedisCommand]]()
        for new in asked:
            current = policies.current_call(new.goal.tenant)
            seeds.append([*admission.seed_calls(new.partition, new.goal), current, *new.claims_calls])
            calls += [*seeds[-1], *admission.live_calls(new.goal.tenant)]
        replies = functions.ask(self.client, calls, bears=True)
        asked = [
            new for new, its in zip(asked, seeds, strict=True) if not any(_is_error(replies[call]) for call in its)
        ]
        admitted: list[tuple[NewGoal, PlanSeed]] = []
        for tenant, count in Counter(new.goal.tenant for new in found).items():
            theirs = [new for new in asked if new.goal.tenant == tenant]
            if not theirs or admission.live_plans(tenant, replies) + count > admission.max_plans:
                continue
            with suppress(PolicyUnreadable):
                policy = self.creation.policies.in_force(replies[policies.current_call(tenant)])
                for new in theirs:
                    about = (new.partition, new.goal, new.goal_id, new.plan_id, replies, new.given)
                    claims = next((file_claims.decode(replies[call]) for call in new.claims_calls), None)
                    admitted.append((new, replace(admission.fresh_seed(*about), policy=policy, claims=claims)))
        return admitted

    def _claim_and_write(self, admitted: Sequence[tuple[NewGoal, PlanSeed]]) -> list[NewGoal]:
        """Claim the records of goals and write their plans. Returns the goals whose plans are written.

        The plans are decided while the server claims.
        """
        if not admitted:
            return []
        kept_s, record = self.retention_s, goal_record.claim_call
        with Talk(self.client) as talk:
            talk.send([record(new.record, new.plan_id, new.digest, kept_s) for new, _ in admitted])
            prepared = self._prepare(admitted)
            claimed = talk.receive(len(admitted))
        ours = [
            (new, changeset)
            for (new, _), changeset, reply in zip(admitted, prepared, claimed, strict=True)
            if changeset and not isinstance(reply, Exception) and reply[0].decode() == new.plan_id
        ]
        written = self.creation.commit([(new.goal, changeset) for new, changeset in ours])
        return [new for new, _ in ours if new.plan_id in written]

    def _prepare(self, admitted: Sequence[tuple[NewGoal, PlanSeed]]) -> list[Changeset | None]:
        """Return the changeset of each goal's plan, None if it is not planned here.

        A later goal sees the day budget and the files that earlier goals take.
        """
        prepared: list[Changeset | None] = []
        left: dict[tuple[int, str], Grant] = {}
        claimed: dict[tuple[int, str], dict[str, tuple[str, str]]] = {}  # file -> its claims, and their mark
        for new, seed in admitted:
            place = new.partition.number
            grants = {scope: left.get((place, scope), grant) for scope, grant in seed.grants.items()}
            repository = (place, claims_name(new.goal.tenant, new.goal.context.repo or ""))
            claims = seed.claims and seed.claims.updated(claimed.get(repository, {}))
            changeset = None
            with suppress(Exception):  # it is tried alone, and a failure there is reported and counted
                changeset = self.creation.prepare(replace(seed, grants=grants, claims=claims), new.goal)
            for scope, used in changeset.taken.items() if changeset else ():
                left[place, scope] = grants[scope]._replace(left=grants[scope].left - used)
            if changeset and claims:
                joined = {one.file: claims.joined(one.file, one.claim) for one in changeset.claims}
                claimed.setdefault(repository, {}).update(joined)
            prepared.append(changeset)
            if threading.current_thread() is not threading.main_thread():
                time.sleep(0)  # with a pool of one slot, another thread applies outcomes
        return prepared

    def _settle(self, written: Sequence[NewGoal]) -> list[NewGoal]:
        """Write the verdicts of goals, and then drop their entries. Returns the goals that are finished."""
        if not written:
            return []
        pending, partitions, calls = GoalVerdict.PENDING, self.admission.quota.partitions, list[RedisCommand]()
        for new in written:
            about = ((new.goal_id, new.goal.tenant), new.plan_id, GoalVerdict.PLANNED, "", self.retention_s, pending)
            calls += (goal_record.settle_call(*about), new.answer.event_call(partitions))
        with Talk(self.client) as talk:
            talk.send(calls)
            told = [talk.receive(2) for _ in written]
            done = [new for new, replies in zip(written, told, strict=True) if not any(map(_is_error, replies))]
            last = [*count_calls(new.answer.counts() for new in done), *self.inbox.drop([new.entry for new in done])]
            talk.send(last)
            refused = next(filter(_is_error, talk.receive(len(last))), None)
        if refused:
            raise refused
        return done


def _is_error(reply: Any) -> bool:
    return isinstance(reply, Exception)
