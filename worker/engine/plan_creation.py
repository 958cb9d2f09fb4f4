"""A goal becomes its plan in the store; whatever was cut short is gone on with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from redis import Redis

from schemas import codec
from schemas.base import GoalKind, GoalVerdict, PlanState
from schemas.envelope import FieldError
from schemas.goal import Goal
from tasks.base.batches import batches
from tasks.base.errors import Overtaken
from tasks.handlers import creation, goals
from tasks.handlers.creation import PlanSeed
from tasks.plan import history
from tasks.plan.changeset import Changeset
from tasks.rules import budget
from tasks.rules.strategy import Answer, Consult, Draft, NothingToDo, Rejected, Setting
from tasks.rules.validation import reject
from tasks.toolchain.catalogue import CATALOGUE, Catalogue
from worker.drafters.consulting import Consulting
from worker.engine.admission import Door
from worker.engine.engine import Engine
from worker.store.keys import Partition
from worker.store.layout import Write
from worker.store.plans import PlanStore, Reconnected, RolledBack, full_queue

COMMITS_AT_ONCE = 16  # chunks of a large plan in one round trip
MOST_QUESTIONS = 10  # to a drafter about one goal, whatever its strategy wants


@dataclass(frozen=True, slots=True)
class Home:
    """Where plans of one partition are kept and decided about."""

    partition: Partition
    store: PlanStore
    engine: Engine


class Made(NamedTuple):
    """What became of a goal, and why."""

    verdict: GoalVerdict
    reason: str = ""


class Maker:
    """Makes plans of goals. One per process; not for several threads at once."""

    def __init__(
        self,
        client: Redis,
        home: Callable[[str], Home],
        door: Door,
        consulting: Consulting,
        catalogue: Catalogue = CATALOGUE,
    ) -> None:
        self._client = client
        self._home = home
        self._door = door
        self._consulting = consulting
        self._catalogue = catalogue

    def made(self, plan_id: str) -> Made | None:
        """Tell what the plan that is there says of its goal; None where it has yet to be made."""
        key = self._home(plan_id).partition.plan(plan_id).plan
        found: Any = self._client.hmget(key, "state", "halt", "live")
        state, halt, live = found
        if state == PlanState.REJECTED.value.encode():
            return Made(GoalVerdict.REJECTED, codec.loads(halt)["reason"])
        if state and state != PlanState.CREATED.value.encode():
            return Made(GoalVerdict.PLANNED)
        asked = codec.loads(live).get("question") if live else None
        return Made(GoalVerdict.NEEDS_INPUT, asked["kind"]) if asked and asked["kind"] != "draft" else None

    def make(self, goal: Goal, goal_id: str, plan_id: str) -> Made:
        """Make the plan unless it is there already; raises Overtaken where what it rests on has changed meanwhile."""
        home = self._home(plan_id)
        plan_seed = self._door.plan_seed(home.partition, goal, goal_id, plan_id)
        if made := self.made(plan_id):  # after the version was read: who makes it from now on has another one
            return made
        setting = self._setting(home.partition, goal, plan_seed.now)
        if isinstance(setting, Rejected):
            return self._keep(home, plan_seed, goal, setting)
        answer = goals.plan(goal, self._catalogue, setting)
        if isinstance(answer, Consult):
            answer, tokens = self._consult(home, plan_seed, goal, setting, answer)
            plan_seed = self._door.plan_seed(home.partition, goal, goal_id, plan_id)  # time has passed
            if made := self.made(plan_id):  # it was ended meanwhile, or another worker was faster
                if made.verdict is GoalVerdict.REJECTED:
                    limit = budget.limits_of(goal)["tokens"]
                    paid = tokens if limit is None else min(tokens, limit)
                    self._door.quota.charge(home.partition, plan_seed.grants, paid, plan_seed.now)
                return made
        return self._keep(home, plan_seed, goal, answer)

    def _keep(self, home: Home, plan_seed: PlanSeed, goal: Goal, answer: Answer) -> Made:
        if isinstance(answer, NothingToDo):
            return Made(GoalVerdict.NOTHING_TO_DO, answer.reason)
        if isinstance(answer, Rejected):
            self._create(home, [creation.refuse(plan_seed, goal, answer)])
            return Made(GoalVerdict.REJECTED, answer.reason)
        assert isinstance(answer, Draft)  # noqa: S101 (no strategy asks more than MOST_QUESTIONS)
        while full := self._create(home, list(creation.accept(plan_seed, goal, answer))):
            plan_seed = replace(plan_seed, full=plan_seed.full | {full})
        return Made(GoalVerdict.NEEDS_INPUT, answer.question.kind) if answer.question else Made(GoalVerdict.PLANNED)

    def _setting(self, home: Partition, goal: Goal, now: int) -> Setting | Rejected:
        """Gather what surrounds a goal; templates of tasks need nothing of what plans before it left."""
        setting = self._consulting.setting(goal)
        if isinstance(setting, Rejected):
            return setting
        setting = replace(setting, now=now)
        name = history.name(goal.kind, goal.tenant, goal.context.repo)
        if name is None or goal.kind is GoalKind.TASK:
            return setting
        found: Any = self._client.hgetall(home.recall(name))
        return replace(setting, recall={field.decode(): int(count) for field, count in found.items()})

    def _consult(
        self, home: Home, plan_seed: PlanSeed, goal: Goal, setting: Setting, question: Answer
    ) -> tuple[Answer, int]:
        """Ask the goal's drafter until its strategy has a plan; meanwhile the plan can be seen and cancelled.

        Returns what the strategy made of the answers, and the tokens that they took.
        """
        if error := _used_up(plan_seed):
            return reject(error.code, (error,)), 0
        if plan_seed.version == 0:
            self._create(home, [creation.await_draft(plan_seed, goal, self._consulting.patience_ms)])
        key = home.partition.plan(plan_seed.plan_id).plan

        def stop() -> bool:
            return self._client.hget(key, "state") != PlanState.CREATED.value.encode()

        while isinstance(question, Consult) and len(setting.drafted) < MOST_QUESTIONS and not stop():
            number = len(setting.drafted) + 1
            said = self._consulting.ask(setting.drafter, home.partition, plan_seed.plan_id, number, question, stop)
            setting = replace(setting, drafted=(*setting.drafted, said))
            question = goals.plan(goal, self._catalogue, setting)
        return question, sum(said.tokens for said in setting.drafted)

    def _create(self, home: Home, changes: list[Changeset]) -> str | None:
        """Write the plan, several commits at a time since their versions are known; raises when another was faster.

        Returns the queue that has no room for the first steps of a plan that fits one commit; nothing was written then.
        """
        for chunk in batches(changes, COMMITS_AT_ONCE):
            try:
                verdicts = home.store.commit([Write(change) for change in chunk])
            except (RolledBack, Reconnected) as error:
                home.engine.catch_up()
                raise Overtaken from error
            if full := full_queue(verdicts[0]):
                return full
            if any(verdict != "ok" for verdict in verdicts):
                raise Overtaken(f"creating {changes[0].plan_id}: {verdicts}")
        if changes[-1].more or changes[-1].short:
            home.engine.carry_on(changes[0].plan_id)
        return None


def _used_up(plan_seed: PlanSeed) -> FieldError | None:
    """Say that no drafter is asked for whom nothing is left to pay with today."""
    scope = next((name for name, grant in plan_seed.grants.items() if grant.exhausted and grant.left <= 0), None)
    if scope is None:
        return None
    message = (
        f"The day budget of {scope} is used up, so no drafter is asked: top it up, or send the goal again tomorrow."
    )
    return FieldError(pointer="/drafter", code="day_budget_exhausted", message=message)
