"""Makes the decisions about a batch of plans, in groups: the server writes a group while the next is decided."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from tasks.base.batches import batches
from tasks.base.errors import EVERY_STEP, LEASES, NeedsClaims, NeedsSteps
from tasks.base.policy import BUILT_IN
from tasks.base.policy_version import is_newer
from tasks.plan.changeset import Changeset, PlainChange
from tasks.plan.hot_plan import HotPlan
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.plan.snapshot import Snapshot
from tasks.policy import plain_success
from worker.engine.commit_results import CommitResults, Decided, describe
from worker.engine.router import Router, Work
from worker.host.code_version import CODE_VERSION
from worker.store.file_claims import ClaimsAsk
from worker.store.functions import FunctionsMissing
from worker.store.plans import Begun, NoSnapshot, PlanTalk, UnreadablePlan, Write
from worker.store.policies import Policies
from worker.streams.inbox import RedisCommand
from worker.telemetry import tracing

log = logging.getLogger("planner.engine")

READ_AT_ONCE = 32  # plans with snapshots that are read together
DECIDE_AT_ONCE = 16  # plans, or plain outcomes, while the server writes those before; more cost its allocator time


@dataclass(frozen=True, slots=True)
class Decisions:
    """Makes the decisions of one engine, and sends their commits."""

    router: Router
    policies: Policies
    results: CommitResults

    def make(
        self, talk: PlanTalk, works: Sequence[tuple[str, Work]], question: Sequence[RedisCommand], *, tight: bool
    ) -> list[Decided]:
        """Decide about each plan that exists and that no other worker has locked. Return the decisions.

        `question` is sent before the first commit; its replies arrive after the replies of `begin`. If the server's
        memory is `tight`, no step starts.
        """
        decided: list[Decided] = []
        known: list[tuple[str, Work, Begun]] = []
        others: list[tuple[str, Work]] = []
        lends = not tight and talk.hot.is_usable
        for plan_id, work in works:
            if lends and work.needs_no_reading and (plan := talk.lend(plan_id, work.ask)):
                known.append((plan_id, work, plan))
            else:
                others.append((plan_id, work))
        asks = [work.ask(plan_id) for plan_id, work in others] if others else []
        if asks:
            talk.begin(asks)
        if question:
            talk.send(question)
        for start in range(0, len(known), DECIDE_AT_ONCE):
            decided += self._decide_all(talk, known[start : start + DECIDE_AT_ONCE], tight=tight, lent=True)
        for start in range(0, len(others), READ_AT_ONCE):
            some, part_asks = others[start : start + READ_AT_ONCE], asks[start : start + READ_AT_ONCE]
            begun = zip(some, talk.snapshots(part_asks), strict=True)
            read = [(plan_id, work, plan) for (plan_id, work), plan in begun]
            for part in batches(read, DECIDE_AT_ONCE):
                decided += self._decide_all(talk, part, tight=tight)
        return decided

    def _decide_all(
        self, talk: PlanTalk, works: Sequence[tuple[str, Work, Begun]], *, tight: bool, lent: bool = False
    ) -> list[Decided]:
        """Decide about some plans, and send their commits. If the plans are `lent`, all their messages are outcomes."""
        since = time.perf_counter()
        now = 0 if tight or tracing.spans_module else talk.now()  # 0: nothing counts as plain
        decided: list[Decided] = []
        calls: list[list[Write | PlainChange]] = [[]]  # what is committed together; all of one plan has to be
        for plan_id, work, plan in works:
            made: Sequence[Decided] = ()
            if isinstance(plan, HotPlan):
                if now and (lent or work.needs_no_reading):
                    made = self._decide_plain(plan_id, work, plan, now)
                plan = plan if made else talk.view(plan, work.ask(plan_id))
            if not made and (one := self._decide(plan_id, work, plan, tight=tight)):
                made = (one,)
            if len(calls[-1]) + len(made) > DECIDE_AT_ONCE:
                calls.append([])
            decided += made
            for each in made:
                if write := each.plain or each.write:
                    calls[-1].append(write)
        self.results.batch.decide_s += time.perf_counter() - since
        for writes in calls:
            talk.commit(writes)
        return decided

    def _leave_to_reading(self, plan_id: str, work: Work, plan: HotPlan, version: int, now: int) -> Decided:
        """Return a decision without changes, so that the plan is read and decided in the general way next.

        A plain decision about it failed. So all plain decisions of this round and the hot plan, which may be half
        changed, are dropped. The commit for the earlier `version` only releases the lock.
        """
        log.exception("plain decision failed", extra=describe(plan_id, plan.record))
        work.is_general = True
        return Decided(plan_id, None, Write(Changeset(plan_id, version, now)))

    def _decide_plain(self, plan_id: str, work: Work, plan: HotPlan, now: int) -> list[Decided]:
        """Return the plain decisions about one plan's reports, in order.

        The first report that is not plain, and all later ones, wait for the next round. Without a decision, the caller
        decides in the general way.
        """
        made: list[Decided] = []
        version = plan.record.version
        try:
            reports = work.plain[:DECIDE_AT_ONCE]
            if reports and plan.policy is None:
                plan.policy = self.policies.find(plan.record.head.policy)
            if plan.policy is None:  # this worker does not know it
                return made
            for report in reports:
                change = plain_success.decide(plan, report, now, CODE_VERSION)
                if change is None:
                    break
                made.append(Decided(plan_id, work, None, None, change.booked, change, plan))
        except (FunctionsMissing, RedisConnectionError, RedisTimeoutError):  # not the plan's fault
            raise
        except Exception:
            return [self._leave_to_reading(plan_id, work, plan, version, now)]
        return made

    def _decide(self, plan_id: str, work: Work, plan: Begun, *, tight: bool) -> Decided | None:
        """Decide about one plan; None if another worker has it, or there is nothing to decide.

        If the decision fails, the commit writes nothing and only releases the lock.
        """
        if plan is NoSnapshot.GONE:
            self.router.answer_gone(plan_id, work)
        elif isinstance(plan, UnreadablePlan):
            log.error("plan unreadable", extra={"plan_id": plan_id, "error": str(plan)})
            self.router.isolate_failure(plan_id, work, time.time_ns() // 1_000_000)
        if not isinstance(plan, Snapshot):
            return None
        plan.short_of_memory = tight
        policy = self.policies.find(plan.record.head.policy)
        if (policy is None or is_newer(plan.record)) and not work.only_pauses:
            self.router.leave_to_newer(plan_id, work, plan.now)
        else:
            plan.policy = policy or BUILT_IN
            try:
                had_ended, spent = plan.record.state in PLAN_ENDS, plan.record.spent["tokens"]
                changeset = work.decide(plan)
                if changeset.settles:
                    self.results.answer_goal(plan, changeset.settles)
                if had_ended and work.due:
                    self.results.conclude_again(plan)
                acks = [(entry.stream, entry.entry_id) for entry, _ in work.messages if entry]
                return Decided(plan_id, work, Write(changeset, acks), plan, plan.record.spent["tokens"] - spent)
            except (NeedsSteps, NeedsClaims) as missing:
                self._ask_more(work, plan, missing)
            except (FunctionsMissing, RedisConnectionError, RedisTimeoutError):  # not the plan's fault
                raise
            except Exception:
                log.exception("decision failed", extra=describe(plan_id, plan.record))
                self.router.isolate_failure(plan_id, work, plan.now)
        return Decided(plan_id, None, Write(Changeset(plan_id, plan.record.version, plan.now)))

    def _ask_more(self, work: Work, plan: Snapshot, missing: NeedsSteps | NeedsClaims) -> None:
        """Extend a plan's next snapshot by the steps, leases or claims that a decision lacked."""
        if isinstance(missing, NeedsSteps):
            work.leases |= LEASES in missing.step_ids
            work.extra |= self._named(plan.plan_id, missing.step_ids - {LEASES})
        else:
            head = plan.record.head
            ask = ClaimsAsk(head.tenant, head.repo or "", sorted(missing.files), missing.deep)
            work.claims = ask.more(work.claims)

    def _named(self, plan_id: str, names: frozenset[str]) -> frozenset[str]:
        """Return the names with EVERY_STEP replaced by the ids of the plan's steps."""
        if EVERY_STEP not in names:
            return names
        ids: Any = self.results.store.client.hkeys(self.results.store.partition.plan(plan_id).status)
        return names - {EVERY_STEP} | {step_id.decode() for step_id in ids}
