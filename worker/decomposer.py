"""Goals into plans: three idempotent commits, since goal and plan lie in different slots (DESIGN.md section 3)."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from redis import Redis

from schemas import codec
from schemas.base import GoalVerdict, PlanState, unknown_fields
from schemas.envelope import Problem
from schemas.goal import Goal
from tasks import creation, goals
from tasks.batches import batches
from tasks.change import Change
from tasks.creation import Birth
from tasks.errors import Overtaken
from tasks.planning.catalogue import CATALOGUE, Catalogue
from tasks.planning.draft import NothingToDo, Rejected
from worker import ids
from worker.engine import DRAIN_S, Engine
from worker.inbox import Entry, Inbox
from worker.reading import read_goal
from worker.store import functions, keys
from worker.store.functions import FunctionsMissing
from worker.store.keys import Partition
from worker.store.plans import PlanStore, Write

log = logging.getLogger("planner.decompose")

GOAL_ID = re.compile(r"[^\s\x00-\x1f\x7f]{1,200}")  # as schemas.base.GoalId
RENEW_S = 10.0
COMMITS_AT_ONCE = 16  # chunks of a large plan in one round trip


@dataclass(frozen=True, slots=True)
class Home:
    """Where plans of one partition are kept and decided about."""

    partition: Partition
    store: PlanStore
    engine: Engine


class Decomposer:
    """Takes goals one by one. One per process; not for several threads at once."""

    def __init__(
        self,
        client: Redis,
        inbox: Inbox,
        home: Callable[[str], Home],
        *,
        max_bytes: int,
        max_failures: int,
        retention_s: int,
        catalogue: Catalogue = CATALOGUE,
    ) -> None:
        self._client = client
        self._inbox = inbox
        self._home = home
        self._max_bytes = max_bytes
        self._max_failures = max_failures
        self._retention_s = retention_s
        self._catalogue = catalogue

    def drain(self) -> bool:
        """Take goals until none is left or DRAIN_S are over; returns whether some may be left."""
        end = time.monotonic() + DRAIN_S
        while time.monotonic() < end:
            entries = self._inbox.read(count=1)
            if not entries:
                return False
            self._try(entries[0])
        return True

    def recover(self, idle_ms: int) -> int:
        """Take over and decompose what a dead worker had read; returns how many goals that were."""
        taken = self._inbox.take_over(idle_ms)
        for entry in self._inbox.read(after="0") if taken else ():
            self._try(entry)
        return taken

    def _try(self, entry: Entry) -> None:
        """Take one goal; a failure of ours is counted against it, and who fails too often is poison."""
        try:
            with self._renewing(entry):
                self._take(entry)
        except FunctionsMissing:  # the server was emptied or replaced; nothing of the call happened
            functions.load(self._client)
            self._try(entry)
        except Exception:
            log.exception("goal failed", extra={"entry": entry.entry_id.decode()})
            if self._client.hincrby(keys.GOALS_FAILURES, entry.entry_id, 1) >= self._max_failures:
                detail = "Planning it failed too often; the worker's log says how."
                self._bury(entry, Problem.of("poison", detail, status=500))
                self._client.hdel(keys.GOALS_FAILURES, entry.entry_id)

    def _take(self, entry: Entry) -> None:
        found = read_goal(entry, self._max_bytes) if entry.fields else None
        if isinstance(found, Problem):
            self._bury(entry, found)
        elif found is None:  # deleted while it was pending
            self._run(self._inbox.drop((entry,)))
        else:
            self._plan(entry, *found)

    def _plan(self, entry: Entry, goal: Goal, digest: str) -> None:
        beside = entry.field("id")
        if beside and not GOAL_ID.fullmatch(beside):
            self._bury(entry, Problem.of("invalid_message", "The entry's field `id` cannot be the id of a goal."))
            return
        goal_id = goal.goal_id or beside or entry.entry_id.decode()
        plan_id, verdict, known = self._claim(goal_id, ids.plan_id(goal.context.repo), digest)
        if known != digest:
            detail = f"The goal id {goal_id} was used before, for {plan_id}, with another body."
            self._bury(entry, Problem.of("goal_conflict", detail, status=409))
        elif verdict != GoalVerdict.PENDING:
            self._client.hincrby(keys.GOALS_STATS, "duplicate", 1)
            self._run(self._inbox.drop((entry,)))
        else:
            verdict, reason = self._decide(goal, goal_id, plan_id)
            log.info("goal decided", extra={"goal_id": goal_id, "plan_id": plan_id, "verdict": verdict})
            self._answer(entry, goal, goal_id, verdict, reason)

    def _claim(self, goal_id: str, plan_id: str, digest: str) -> tuple[str, str, str]:
        """Make the goal's record unless it exists; returns the plan, verdict and digest that stand there."""
        key = keys.goal_id(goal_id)
        pipeline = self._client.pipeline(transaction=True)
        pipeline.hsetnx(key, "digest", digest)
        pipeline.hsetnx(key, "plan_id", plan_id)
        pipeline.hsetnx(key, "verdict", GoalVerdict.PENDING.value)
        pipeline.hsetnx(key, "reason", "")
        pipeline.hmget(key, "plan_id", "verdict", "digest")
        plan, verdict, known = pipeline.execute()[-1]
        return plan.decode(), verdict.decode(), known.decode()

    def _decide(self, goal: Goal, goal_id: str, plan_id: str) -> tuple[GoalVerdict, str]:
        """Make the plan unless it is there already; returns what became of the goal."""
        home = self._home(plan_id)
        pipeline = self._client.pipeline(transaction=False)
        pipeline.hmget(home.partition.plan(plan_id).plan, "version", "state", "halt")
        pipeline.time()
        (version, state, halt), (seconds, microseconds) = pipeline.execute()
        if state == PlanState.REJECTED.value.encode():
            return GoalVerdict.REJECTED, codec.loads(halt)["reason"]
        if state and state != PlanState.CREATED.value.encode():
            return GoalVerdict.PLANNED, ""
        birth = Birth(
            plan_id=plan_id,
            goal_id=goal_id,
            now=seconds * 1000 + microseconds // 1000,
            seed=ids.seed(),
            reply_to=home.partition.outcomes,
            lease_prefix=home.partition.lease_prefix(plan_id),
            version=int(version or 0),
        )
        answer = goals.plan(goal, self._catalogue)
        if isinstance(answer, NothingToDo):
            return GoalVerdict.NOTHING_TO_DO, answer.reason
        if isinstance(answer, Rejected):
            self._create(home, [creation.refused(birth, goal, answer)])
            return GoalVerdict.REJECTED, answer.reason
        self._create(home, list(creation.accepted(birth, goal, answer)))
        return GoalVerdict.PLANNED, ""

    def _create(self, home: Home, changes: list[Change]) -> None:
        """Write the plan, several commits at a time since their versions are known; raises when another was faster."""
        for chunk in batches(changes, COMMITS_AT_ONCE):
            verdicts = home.store.commit([Write(change) for change in chunk])
            if any(verdict != "ok" for verdict in verdicts):
                raise Overtaken(f"creating {changes[0].plan_id}: {verdicts}")
        if changes[-1].more:
            home.engine.carry_on(changes[0].plan_id)

    def _answer(self, entry: Entry, goal: Goal, goal_id: str, verdict: GoalVerdict, reason: str) -> None:
        key = keys.goal_id(goal_id)
        self._run(
            [
                ("HSET", key, "verdict", verdict.value, "reason", reason),
                ("EXPIRE", key, self._retention_s),
                ("HINCRBY", keys.GOALS_STATS, verdict.value, 1),
                ("HINCRBY", keys.GOALS_STATS, "unknown_fields", unknown_fields(goal)),
                *self._inbox.drop((entry,)),
            ]
        )

    def _bury(self, entry: Entry, problem: Problem) -> None:
        log.warning("goal dead", extra={"entry": entry.entry_id.decode(), "code": problem.code})
        self._run(self._inbox.bury(entry, problem, time.time_ns() // 1_000_000))

    def _run(self, commands: list[tuple[object, ...]]) -> None:
        """Send commands as one transaction: all keys of goals lie in one slot."""
        pipeline = self._client.pipeline(transaction=True)
        for command in commands:
            pipeline.execute_command(*command)
        pipeline.execute()

    @contextmanager
    def _renewing(self, entry: Entry) -> Iterator[None]:
        """Keep the goal ours while it is worked on, which may take minutes."""
        done = threading.Event()

        def renew() -> None:
            while not done.wait(RENEW_S):
                self._inbox.renew(entry)

        thread = threading.Thread(target=renew, name="renew-goal", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
