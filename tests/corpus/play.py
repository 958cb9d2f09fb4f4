"""One recorded plan: a goal, what surrounds it, and the inputs that are played to it through the memory store."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import Any

from schemas import codec
from schemas.command import Command
from schemas.goal import Goal
from schemas.outcome import Outcome
from tasks.handlers import goals
from tasks.handlers.upkeep import NO_CLOCKS
from tasks.plan.changeset import Changeset
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.plan.report import Report
from tasks.policy.plan_seed import PlanSeed
from tasks.rules.strategy import Answer, Consult, Draft, Drafted, NothingToDo, Rejected, Setting
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.memory_store import MemoryStore
from tests.support.plans import PARTITION, PLAN, Running, a_plan_seed
from tests.support.surroundings import TENANT, alter
from worker.store.plans import Write

DRAFTING_MS = 1000  # that a drafter takes
PATIENCE_MS = 600_000

Scene = dict[str, Any]  # as it stands in the corpus: name, goal, setting, budget
Input = list[Any]  # a verb, and what it is about


class Player(Running):
    """A plan made of a scene's goal as the worker makes it; `play` gives it one input."""

    def __init__(self, scene: Scene, store: MemoryStore | None = None) -> None:
        self.plan_id, self.keys = PLAN, PARTITION.plan(PLAN)
        self.clocks, self.short_of_memory = NO_CLOCKS, False
        self.store = store or MemoryStore(PARTITION)
        self.changes: list[Changeset] = []
        self.nothing: str | None = None  # why there is no plan, where the goal asks for nothing
        self._told = 0  # changes that were given as outputs
        self._number = 0
        if scene["budget"] is not None:
            self.store.budgets = {TENANT: scene["budget"]}
        self._make(Goal.model_validate(scene["goal"]), scene["setting"])

    def _make(self, goal: Goal, told: dict[str, Any]) -> None:
        drafted = tuple(Drafted(**said) for said in told.get("drafted", ()))
        about = {name: told[name] for name in ("drafter", "options") if name in told}
        setting = self.surround(goal, Setting(now=self.store.now, history=told.get("recall", {}), **about))
        version, self._born = 0, self.store.now
        answer = goals.plan(goal, CATALOGUE, setting)
        if isinstance(answer, Consult):
            self._commit([goals.await_draft(a_plan_seed(now=self.store.now), goal, PATIENCE_MS)])
            version, answer = 1, self._consult(goal, setting, drafted, answer)
        if isinstance(answer, NothingToDo):
            self.nothing = answer.reason
        elif not isinstance(answer, Consult):
            self._keep(goal, answer, version)

    def _consult(self, goal: Goal, setting: Setting, drafted: tuple[Drafted, ...], question: Consult) -> Answer:
        answer: Answer = question
        left, said = list(drafted), tuple[Drafted, ...]()
        while isinstance(answer, Consult) and (heard := self.ask(goal, answer, said, left)):
            said = (*said, heard)
            answer = goals.plan(goal, CATALOGUE, replace(setting, drafted=said))
        if not said or self._born == self.store.now:
            self.store.wait(DRAFTING_MS)
        return answer

    def surround(self, _: Goal, setting: Setting) -> Setting:
        """Return what surrounds the planning of a goal."""
        return setting

    def begin_as(self, _: Goal, plan_seed: PlanSeed) -> PlanSeed:
        """Return what the plan of a goal begins as."""
        return plan_seed

    def ask(self, _: Goal, __: Consult, ___: tuple[Drafted, ...], left: list[Drafted]) -> Drafted | None:
        """Ask the drafter, who has said something already perhaps; `left` is what the scene has it say."""
        return left.pop(0) if left else None

    def _keep(self, goal: Goal, answer: Draft | Rejected, version: int) -> None:
        standing = self.store.standing(goal.tenant, goal.context.repo, self.store.now)
        plan_seed = PlanSeed(
            plan_id=PLAN,
            goal_id="goal-1",
            now=self.store.now,
            seed="seed",
            reply_to=PARTITION.outcomes,
            lease_prefix=PARTITION.lease_prefix(PLAN),
            version=version,
            log_head=self.record.log if version else None,
            standing=standing,
            grants=self.store.grants([*self.store.budgets]),
            created=self._born,
        )
        plan_seed = self.begin_as(goal, plan_seed)
        if isinstance(answer, Rejected):
            self._commit([goals.refuse(plan_seed, goal, answer)])
            return
        self._commit(list(goals.accept(plan_seed, goal, answer)))
        if self.changes[-1].more or self.changes[-1].short:
            self.report()

    def _commit(self, changes: list[Changeset]) -> None:
        assert self.store.commit([Write(change) for change in changes]) == ["ok"] * len(changes)
        self.changes += changes
        self.store.refill(changes[-1].short)

    @property
    def is_over(self) -> bool:
        """Whether nothing can happen to the plan any more."""
        return self.nothing is not None or self.state in PLAN_ENDS

    def play(self, given: Input) -> list[str]:
        """Give the plan one input; returns the verdicts where these were outcomes."""
        self._number += 1
        verb, *about = given
        if verb == "report":
            return [verdict.value for verdict in self.report(*(_report(*one) for one in about[0]))]
        if verb == "claim":
            self.store.claim(PLAN, *about)
        elif verb == "command":
            self.obey(Command.model_validate(about[0]))
        elif verb == "wait":
            self.store.wait(about[0])
            self.sweep()
        else:
            alter(self, self._number, verb, about[0])
        return []

    def outputs(self) -> dict[str, Any]:
        """Tell what the commits since the last call wrote, and the digest of the whole state."""
        new, self._told = self.changes[self._told :], len(self.changes)
        told: dict[str, Any] = {
            "specs": [[one.attempt.queue, one.spec.decode()] for change in new for one in change.dispatches],
            "events": [[kind, data.decode()] for change in new for kind, data in change.events],
            "log": [change.log.decode() for change in new if change.log],
        }
        state = blake2b(codec.dumps(self.everything()), digest_size=9).hexdigest()
        return {**{name: value for name, value in told.items() if value}, "state": state}

    def everything(self) -> dict[str, Any]:
        """All that the store keeps of the plan, as text."""
        k = self.keys
        found: dict[str, Any] = {
            key: {name: _text(value) for name, value in sorted(self.store.hash(key).items())}
            for key in (k.plan, k.steps, k.status, k.ready, k.active)
        }
        found["todo"] = [_text(item) for item in self.store.items(k.todo)]
        found["wake"] = self.store.hash(PARTITION.timers).get(PLAN)
        return found


def play(scene: Scene, inputs: list[Input]) -> dict[str, Any]:
    """Play a whole scene; returns what the corpus keeps of what came out."""
    player = Player(scene)
    outputs = [player.outputs()]
    for given in inputs:
        verdicts = player.play(given)
        outputs.append(player.outputs() | ({"verdicts": verdicts} if verdicts else {}))
    return {"nothing": player.nothing, "outputs": outputs, "state": player.everything()}


def _report(step: str, attempt: int | None, lease: str | None, body: dict[str, Any]) -> Report:
    raw = codec.dumps({"step_id": step, **body})
    return Report(Outcome.model_validate_json(raw), attempt, lease, raw, blake2b(raw, digest_size=9).hexdigest())


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value
