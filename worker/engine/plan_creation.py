"""Creates the plan of a goal in the store, and finishes an interrupted creation."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redis import Redis

from schemas import codec
from schemas.base import GoalKind, GoalVerdict, PlanState
from schemas.envelope import FieldError, Problem
from schemas.goal import Goal
from schemas.stored import HOT, PlanRecord, decode_plan
from tasks.base.batches import batches
from tasks.base.errors import Overtaken
from tasks.features import duplicates, outcome_memory, overlaps
from tasks.handlers import goals, plan_cache
from tasks.handlers.goals import CHUNK
from tasks.handlers.plan_cache import CacheQuestion
from tasks.plan.cached_draft import CACHE
from tasks.plan.changeset import Changeset, kept_name, plan_history
from tasks.plan.file_claims import FileClaims, asked_for, claimed_by
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.policy.plan_seed import PlanSeed
from tasks.rules import budget
from tasks.rules.goal_cleaning import clean_goal
from tasks.rules.strategy import Answer, Consult, Draft, Drafted, NothingToDo, Rejected, Setting
from tasks.rules.validation import reject
from tasks.toolchain.catalogue import CATALOGUE, Catalogue
from worker.drafters.base import estimate
from worker.drafters.consulting import NONE, QUEUE, Consulting
from worker.engine import beginnings, chunk_summaries
from worker.engine.admission import Admission
from worker.engine.commit_results import note_sends
from worker.engine.engine import Engine
from worker.engine.goal_result import GoalResult, source_of
from worker.engine.router import Router
from worker.store import endpoints, file_claims, functions, goal_record, keys
from worker.store.commits import Commits
from worker.store.file_claims import ClaimsAsk
from worker.store.keys import Partition
from worker.store.plans import PlanStore, Reconnected, RolledBack, Write, full_queue
from worker.store.policies import Policies
from worker.streams.internal_error import is_passing, problem_of
from worker.telemetry import metrics, tracing
from worker.telemetry.commit_counts import count_first_steps, lines_of, log_status
from worker.telemetry.metrics import HERE

log = logging.getLogger("planner.decompose")

COMMITS_AT_ONCE = 16  # chunks of a large plan in one round trip
MOST_QUESTIONS = 10  # to a drafter about one goal, for any strategy


@dataclass(frozen=True, slots=True)
class PartitionContext:
    """The objects that one thread of a worker uses for one partition."""

    partition: Partition
    store: PlanStore
    commits: Commits
    router: Router
    engine: Engine


@dataclass(eq=False, repr=False)
class PlanCreation:
    """Creates plans of goals. One per process; not for several threads at once."""

    client: Redis
    context_of: Callable[[str], PartitionContext]
    admission: Admission
    consulting: Consulting
    policies: Policies
    cache_kept_s: int  # seconds for which the plan cache answers; 0: it does not
    catalogue: Catalogue = CATALOGUE

    def find(self, plan_id: str) -> GoalResult | None:
        """Return the result of the plan in the store; None if it still has to be created."""
        context = self.context_of(plan_id)
        record = self._read(context.partition, plan_id)
        if record is None:
            return None
        beside: list[tuple[Any, ...]] = []
        if record.state in PLAN_ENDS:
            now, retention_s = time.time_ns() // 1_000_000, context.store.retention_s
            beside = goal_record.conclude(context.partition, plan_id, record, now, retention_s)
        if record.state == PlanState.REJECTED:
            return GoalResult(GoalVerdict.REJECTED, record.cause, beside, problem_of(record.halt))
        if record.state != PlanState.CREATED:
            return GoalResult(GoalVerdict.PLANNED, "", beside)
        asked = record.question
        return GoalResult(GoalVerdict.NEEDS_INPUT, asked["kind"]) if asked and asked["kind"] != "draft" else None

    def _read(self, partition: Partition, plan_id: str) -> PlanRecord | None:
        """Return a plan without its strategy state, which may be large; None if it still has to be created."""
        found: Any = self.client.hmget(partition.plan(plan_id).plan, *HOT[:4], "halt")
        *hot, halt = found
        if hot[0] is None:
            return None
        record = decode_plan([*hot, None])
        record.halt = codec.loads(halt or b"null")
        return record

    def asks_drafter(self, goal: Goal, plan_id: str) -> bool:
        """Return whether the plan of `goal` needs a drafter, which may take minutes.

        Raises PolicyUnreadable as `create` does.
        """
        if not self.consulting.may_ask(goal):
            return False
        setting = self._setting(self.context_of(plan_id).partition, goal, time.time_ns() // 1_000_000)
        if isinstance(setting, Rejected):
            return False
        setting = replace(setting, policy=self.policies.current(goal.tenant))
        try:
            return isinstance(goals.plan(goal, self.catalogue, setting), Consult)
        except Exception:  # `create` meets it again, and reports it
            return False

    def create(self, goal: Goal, goal_id: str, plan_id: str, traceparent: str | None = None) -> GoalResult:
        """Create the plan unless it exists, as part of the given trace.

        Raises Overtaken if records that it depends on have changed meanwhile. Raises PolicyUnreadable if this worker
        cannot read the policy in force.
        """
        context = self.context_of(plan_id)
        plan_seed = self.admission.plan_seed(context.partition, goal, goal_id, plan_id, traceparent)
        if made := self.find(plan_id):  # after the version was read: a later creation has another one
            return made
        policy = self.policies.current(goal.tenant)
        plan_seed = replace(plan_seed, policy=policy)
        if same := self._same(context, plan_seed, goal):
            return same
        going_on = beginnings.go_on(self.client, goal, self.admission.quota.partitions)
        goal = goal if isinstance(going_on, Rejected) else going_on
        setting = going_on if isinstance(going_on, Rejected) else self._setting(context.partition, goal, plan_seed.now)
        if isinstance(setting, Rejected):
            return self._keep(context, plan_seed, goal, setting)
        setting = self._recalled(context, plan_seed, goal, replace(setting, policy=policy, learned=plan_seed.learned))
        answer = goals.plan(goal, self.catalogue, setting)
        asked = self._asked_of_cache(goal, setting, answer)
        cached = self._cached(context.partition, asked, plan_seed.now) if asked and plan_seed.version == 0 else None
        answer, drafted = cached or answer, tuple[Drafted, ...]()
        if isinstance(answer, Consult):
            answer, drafted = self._consult(context, plan_seed, goal, setting, answer)
            tokens = sum(said.tokens for said in drafted)
            plan_seed = self.admission.plan_seed(  # time has passed
                context.partition, goal, goal_id, plan_id, traceparent
            )
            plan_seed = replace(plan_seed, policy=policy)
            if made := self.find(plan_id):  # it was ended meanwhile, or made by another worker
                if made.verdict is GoalVerdict.REJECTED:
                    limit = budget.limits_of(goal, policy)["tokens"]
                    paid = tokens if limit is None else min(tokens, limit)
                    self.admission.quota.charge(context.partition, plan_seed.grants, paid, plan_seed.now)
                return made
        if asked and not cached and isinstance(answer, Draft):
            answer = asked.keep(answer, drafted, self.cache_kept_s)
        made = self._keep(context, plan_seed, goal, answer)
        if made.planned:
            self._count_source(goal, "cache" if cached else None)
        return made

    def _recalled(self, context: PartitionContext, plan_seed: PlanSeed, goal: Goal, setting: Setting) -> Setting:
        """Give drafters and campaigns the memory of earlier plans, and a drafting controller the kept summaries."""
        if setting.drafter != NONE or goal.kind in (GoalKind.CAMPAIGN, GoalKind.REVIEWED_PLAN):
            setting = replace(setting, memory=outcome_memory.similar_to(plan_seed, goal))
        if setting.drafter == QUEUE:
            setting, _ = chunk_summaries.recall(self.client, context.partition, goal, setting)
        return setting

    def _asked_of_cache(self, goal: Goal, setting: Setting, answer: Answer) -> CacheQuestion | None:
        drafter = self.consulting.identity(setting.drafter)
        return plan_cache.question(goal, self.catalogue, setting, answer, drafter) if self.cache_kept_s else None

    def _cached(self, partition: Partition, asked: CacheQuestion, now: int) -> Draft | None:
        name = kept_name(CACHE, asked.goal.tenant, asked.goal.context.repo)
        raw: Any = self.client.hget(partition.kept(name or ""), asked.field)
        return asked.answer(raw, now, self.cache_kept_s)

    def reject(self, goal: Goal, goal_id: str, plan_id: str, problem: Problem) -> GoalResult:
        """Store a REJECTED plan for a goal that an internal error prevents from being planned, unless a plan exists."""
        context = self.context_of(plan_id)
        plan_seed = self.admission.plan_seed(context.partition, goal, goal_id, plan_id)
        rejected = GoalResult(GoalVerdict.REJECTED, problem.code, problem=problem)
        try:
            if not self.find(plan_id):
                answer = reject(problem.code, problem.errors)
                self._write(context, [goals.refuse(plan_seed, clean_goal(goal).goal, answer)])
            return self.find(plan_id) or rejected
        except Exception as error:
            if is_passing(error):
                raise
            log.warning("rejected plan not kept", extra={"plan_id": plan_id}, exc_info=error)
            return rejected

    def prepare(self, plan_seed: PlanSeed, goal: Goal) -> Changeset | None:
        """Return the changeset of a small plan, without reading or writing; None if `create` has to make the plan.

        `create` is for all but tasks that need no drafter, no other plan, and only one commit.
        """
        is_same = duplicates.is_settled(goal, plan_seed.policy, plan_seed.claims)
        if goal.kind is not GoalKind.TASK or goal.callback or is_same:
            return None
        setting = self.consulting.setting(goal)
        if isinstance(setting, Rejected):
            return None
        setting = replace(setting, now=plan_seed.now, policy=plan_seed.policy, learned=plan_seed.learned)
        answer = goals.plan(goal, self.catalogue, setting)
        if not isinstance(answer, Draft) or answer.question or len(answer.steps) > CHUNK:
            return None
        if self._asked_of_cache(goal, setting, answer):
            return None
        (changeset,) = goals.accept(plan_seed, goal, answer)
        is_whole = not (changeset.ends or changeset.more or changeset.short)
        return changeset if is_whole else None

    def commit(self, prepared: Sequence[tuple[Goal, Changeset]]) -> set[str]:
        """Write prepared plans, those of a partition in one round trip. Returns the ids of the written ones."""
        written: set[str] = set()
        of_partition: dict[int, list[tuple[Goal, Changeset]]] = {}
        for goal, changeset in prepared:
            number = self.context_of(changeset.plan_id).partition.number
            of_partition.setdefault(number, []).append((goal, changeset))
        for some in of_partition.values():
            context = self.context_of(some[0][1].plan_id)
            try:
                verdicts = context.store.commit([Write(changeset) for _, changeset in some])
            except (RolledBack, Reconnected):
                context.engine.catch_up()
                continue
            for (goal, changeset), verdict in zip(some, verdicts, strict=True):
                if verdict == "ok":
                    written.add(changeset.plan_id)
                    count_first_steps([changeset], goal.kind)
                    self._count_source(goal)
                    self._log(context.partition, changeset)
        return written

    def _count_source(self, goal: Goal, source: str | None = None) -> None:
        setting = self.consulting.setting(goal)
        if isinstance(setting, Setting):
            HERE.count(metrics.PLANS, source or source_of(goal, setting.drafter))

    def _keep(self, context: PartitionContext, plan_seed: PlanSeed, goal: Goal, answer: Answer) -> GoalResult:
        if isinstance(answer, NothingToDo):
            return GoalResult(GoalVerdict.NOTHING_TO_DO, answer.reason)
        if isinstance(answer, Rejected):
            self._write(context, [goals.refuse(plan_seed, goal, answer)])
            return self.find(plan_seed.plan_id) or GoalResult(GoalVerdict.REJECTED, answer.reason)
        assert isinstance(answer, Draft)  # noqa: S101 (no strategy asks more than MOST_QUESTIONS)
        plan_seed = self._with_claims(context.partition, plan_seed, goal, answer)
        changesets = list(goals.accept(plan_seed, goal, answer))
        while full := self._write(context, changesets):
            plan_seed = replace(plan_seed, full=plan_seed.full | {full})
            changesets = list(goals.accept(plan_seed, goal, answer))
        count_first_steps(changesets, goal.kind)
        if changesets[-1].ends and (made := self.find(plan_seed.plan_id)):  # by standing commands
            return made
        if answer.question:
            return GoalResult(GoalVerdict.NEEDS_INPUT, answer.question.kind)
        return GoalResult(GoalVerdict.PLANNED)

    def _with_claims(self, partition: Partition, plan_seed: PlanSeed, goal: Goal, draft: Draft) -> PlanSeed:
        """Return the seed with the existing claims on the files that the steps of a draft may change."""
        wide = overlaps.claims_folders(goal, overlaps.asked_of(goal, plan_seed.policy))
        files, repo = claimed_by(draft.steps, wide=wide), goal.context.repo
        marks = duplicates.asked_for(goal)
        if not (files or marks) or not repo:
            return plan_seed
        return replace(
            plan_seed, claims=self._claims(partition, goal, [*(asked_for(files) if wide else files), *marks])
        )

    def _claims(self, partition: Partition, goal: Goal, files: Sequence[str]) -> FileClaims:
        asked = ClaimsAsk(goal.tenant, goal.context.repo or "", files)
        return file_claims.decode(functions.call(self.client, *file_claims.read_call(partition, asked)))

    def _same(self, context: PartitionContext, plan_seed: PlanSeed, goal: Goal) -> GoalResult | None:
        """Return the result for a goal that duplicates another one or adopts a plan; None for any other goal."""
        marks = duplicates.compared(goal)
        claims = self._claims(context.partition, goal, marks) if marks and plan_seed.version == 0 else None
        if refused := duplicates.refuse(goal, plan_seed.policy, claims):
            return self._keep(context, plan_seed, goal, refused)
        if not (adopted := duplicates.adopt(goal, plan_seed.policy, claims)):
            return None
        why, same_as = adopted
        key, kept_s = keys.goal_id(plan_seed.goal_id, goal.tenant), context.store.retention_s
        about = ("FCALL", functions.CONCLUDE, 1, key, plan_seed.plan_id, kept_s, "same_as", same_as)
        return GoalResult(GoalVerdict.NOTHING_TO_DO, why, (about,))

    def _setting(self, partition: Partition, goal: Goal, now: int) -> Setting | Rejected:
        """Return the setting of a goal with the history of its kind (none for `task`), or reject a wrong `callback`."""
        if goal.callback and not self._may_name(goal.callback, goal.tenant):
            message = f"There is no endpoint {goal.callback} of the tenant {goal.tenant}: see planner endpoints list."
            return reject(
                "unknown_callback", (FieldError(pointer="/callback", code="unknown_callback", message=message),)
            )
        setting = self.consulting.setting(goal)
        if isinstance(setting, Rejected):
            return setting
        setting = replace(setting, now=now)
        name = plan_history(goal.kind, goal.tenant, goal.context.repo)
        if name is None or goal.kind is GoalKind.TASK:
            return setting
        found: Any = self.client.hgetall(partition.recall(name))
        return replace(setting, history={field.decode(): int(count) for field, count in found.items()})

    def _may_name(self, endpoint_id: str, tenant: str) -> bool:
        found = endpoints.read(self.client, endpoint_id)
        return found is not None and found.tenant in (None, tenant)

    def _consult(
        self, context: PartitionContext, plan_seed: PlanSeed, goal: Goal, setting: Setting, question: Answer
    ) -> tuple[Answer, tuple[Drafted, ...]]:
        """Ask the goal's drafter until its strategy has a plan; meanwhile the plan is visible and can be cancelled.

        Returns the strategy's result and the drafter's answers.
        """
        for scope, grant in plan_seed.grants.items():
            if grant.exhausted and grant.left <= 0:  # nothing is left to pay a drafter with today
                message = f"The day budget of {scope} is used up, so no drafter is asked: "
                message += "top it up, or send the goal again tomorrow."
                error = FieldError(pointer="/drafter", code="day_budget_exhausted", message=message)
                return reject(error.code, (error,)), ()
        if plan_seed.version == 0:
            self._write(context, [goals.await_draft(plan_seed, goal, self.consulting.patience_ms)])
        key = context.partition.plan(plan_seed.plan_id).plan
        limit = budget.limits_of(goal, plan_seed.policy)["tokens"]
        base = goal.context.base_sha or (goal.evolution.base.commit_hash if goal.evolution else None)

        def stop() -> bool:
            return self.client.hget(key, "state") != PlanState.CREATED.value.encode()

        def ask(number: int, asked: Consult, paid: Sequence[Drafted]) -> Drafted:
            about = (setting.drafter, context.partition, plan_seed.plan_id, number)
            said = _unaffordable(limit, paid, asked)
            return said or self.consulting.ask(*about, replace(asked, base=base), stop)

        def ask_summary(asked: Consult, paid: Sequence[Drafted]) -> Drafted | None:
            return None if stop() else ask(MOST_QUESTIONS + len(paid) + 1, asked, paid)

        model = self.consulting.model(setting.drafter)
        setting, paid = chunk_summaries.ask(self.client, context.partition, goal, setting, model, ask_summary)
        if setting.summaries:
            question = goals.plan(goal, self.catalogue, setting)
        while isinstance(question, Consult) and len(setting.drafted) < MOST_QUESTIONS and not stop():
            said = ask(len(setting.drafted) + 1, question, (*paid, *setting.drafted))
            setting = replace(setting, drafted=(*setting.drafted, said))
            question = goals.plan(goal, self.catalogue, setting)
        if paid and isinstance(question, Draft | Rejected):
            question = replace(question, tokens=question.tokens + sum(said.tokens for said in paid))
        return question, (*paid, *setting.drafted)

    def _write(self, context: PartitionContext, changesets: list[Changeset]) -> str | None:
        """Write the commits of a new plan, several at a time. Raises Overtaken if another worker has written the plan.

        If a queue has no capacity for the first steps of a plan of one commit, writes nothing and returns that queue.
        """
        began_ns = time.time_ns()
        for chunk in batches(changesets, COMMITS_AT_ONCE):
            try:
                verdicts = context.store.commit([Write(changeset) for changeset in chunk])
            except (RolledBack, Reconnected) as error:
                context.engine.catch_up()
                raise Overtaken from error
            if full := full_queue(verdicts[0]):
                return full
            if any(verdict != "ok" for verdict in verdicts):
                raise Overtaken(f"creating {changesets[0].plan_id}: {verdicts}")
        if tracing.is_on():
            note_sends(context.partition, changesets, tracing.traceparent(), began_ns)
        last = changesets[-1]
        self._log(context.partition, last)
        if last.more or last.short:
            context.engine.carry_on(last.plan_id)
        return None

    def _log(self, partition: Partition, change: Changeset) -> None:
        """Log the reason for which a plan waits, or its end."""
        if (lines := lines_of(change)) and (record := self._read(partition, change.plan_id)):
            log_status(change.plan_id, record, lines, change.now, ends=change.ends)


def _unaffordable(limit: int | None, drafted: Sequence[Drafted], question: Consult) -> Drafted | None:
    """Return an answer with an error if the plan's tokens do not suffice for a question to the drafter; else None."""
    left = math.inf if limit is None else limit - sum(said.tokens for said in drafted)
    if (wanted := estimate(question.prompt)) <= left:
        return None
    return Drafted(
        error=f"it was not asked: of the plan's {limit} tokens {max(0, left)} are left, a question takes {wanted}"
    )
