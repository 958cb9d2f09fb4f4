"""One plan among others of its repository: it begins with what those before it left, and leaves something itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from schemas.base import GoalKind
from schemas.goal import Goal
from tasks.features.failed_changes import FAILED_DIFFS
from tasks.plan.changeset import plan_history
from tasks.policy.plan_seed import PlanSeed
from tasks.rules.strategy import Consult, Drafted, Setting
from tests.corpus.play import Player, Scene
from tests.simulation.agent import Spec
from tests.simulation.fleet import Conditions, Course, Result
from tests.simulation.habits.history import Incoming, make_history
from tests.simulation.habits.parts import Part
from tests.simulation.habits.world import World, make_world
from tests.simulation.host import Bench, Host
from tests.simulation.repository import Repository, Wrong
from tests.simulation.roles import answers_of
from tests.simulation.tools import Printed
from tests.support.memory_store import EPOCH_MS, MemoryStore
from tests.support.plans import PARTITION

MISTAKES = 0.3  # the share of the simulation of kinds, which the fleet has on average
REPEATS = 0.2  # of second attempts: the same model with nearly the same prompt
MARKS = PARTITION.recall(""), PARTITION.kept(""), PARTITION.memory("")  # of what plans leave to each other


class HabitPlayer(Player):
    """A plan whose drafter takes its time, and which is given what the parts remember."""

    def __init__(self, scene: Scene, store: MemoryStore, parts: Sequence[Part]) -> None:
        self.parts, self.asked = parts, 0
        self.heard: list[Drafted] = []  # of its drafter
        self.setting = Setting()
        super().__init__(scene, store)

    def surround(self, goal: Goal, setting: Setting) -> Setting:
        name = plan_history(goal.kind, goal.tenant, goal.context.repo)
        if name and goal.kind is not GoalKind.TASK:  # as the workers have it, with and without parts
            setting = replace(setting, history=dict(self.store.hash(PARTITION.recall(name))))
        for part in self.parts:
            setting = part.surround(goal, setting)
        self.setting = setting
        return setting

    def begin_as(self, goal: Goal, plan_seed: PlanSeed) -> PlanSeed:
        plan_seed = replace(plan_seed, switches={FAILED_DIFFS: 0})
        for part in self.parts:
            plan_seed = part.begin(goal, plan_seed, self.store)
        return plan_seed

    def ask(self, goal: Goal, question: Consult, said: tuple[Drafted, ...], left: list[Drafted]) -> Drafted | None:
        if not said:
            answers = (part.draft(goal, self.setting, question) for part in self.parts)
            if kept := next(filter(None, answers), None):
                return kept
        heard = super().ask(goal, question, said, left)
        if heard:
            self.asked += 1
            self.heard.append(heard)
            self.store.wait(heard.duration_ms)
        return heard


@dataclass
class HabitCourse(Course):
    """The course of one plan in its repository; the draws of each attempt are its own, whatever went before."""

    incoming: Incoming = field(kw_only=True)
    world: World = field(kw_only=True)
    parts: Sequence[Part] = field(kw_only=True)
    store: MemoryStore = field(kw_only=True)

    def surroundings(self) -> Repository:
        return self.mission.repository

    def make_hosts(self) -> list[Host]:
        return list(self.world.hosts)

    def make_bench(self) -> Bench:
        habits = self.incoming.habits

        def hard(files: Sequence[str]) -> float:
            known = [habits.hard[path] for path in files if path in habits.hard]
            return sum(known) / len(known) if known else 1.0

        def takes(tool: dict[str, Any], printed: Printed) -> int:
            return int(tool["timeout_s"]) if printed.timed_out else habits.takes(" ".join(tool["argv"]))

        usual = self.repository, answers_of(self.mission), self.conditions.mistakes
        bench = Bench(*usual, errors=habits.errors, repeats=REPEATS, hard=hard, takes=takes)
        for part in self.parts:
            bench = part.equip(bench)
        return bench

    def make_player(self) -> HabitPlayer:
        goal = self.mission.scene["goal"]
        for part in self.parts:
            goal = part.send(goal, self.incoming)
        return HabitPlayer({**self.mission.scene, "goal": goal}, self.store, self.parts)

    def told(self, spec: Spec) -> Spec:
        for part in self.parts:
            spec = part.tell(spec)
        return spec

    def chance(self, step: str, attempt: int) -> Random:
        return self._random(f"{step}:{attempt}")

    def run(self) -> Result:
        began = self.incoming.second
        result = super().run()
        goal = Goal.model_validate(self.mission.scene["goal"])
        for part in self.parts:
            part.learn(goal, self)
        ended = self.player.record.times.get("ended", self.now) if self.player.nothing is None else self.now
        return replace(result, seconds=(ended - EPOCH_MS) // 1000 - began, unclean=self._unclean())

    def _unclean(self) -> tuple[str, ...]:
        """Name the new mistakes that the linter or type checker of the project sees."""
        habits = self.incoming.habits
        seen = {Wrong.SYNTAX, Wrong.IMPORT} | ({Wrong.LINT} if habits.is_linted else set())
        seen |= {Wrong.TYPE} if habits.is_typed else set()
        found = self.tree.faults - self.repository.base.faults
        code = (each for each in found if each.wrong in seen and each.file.endswith((".py", ".ts", ".go")))
        return tuple(sorted(f"{each.wrong.value} in {each.file}" for each in code))


@dataclass(frozen=True, slots=True)
class Played:
    """A goal and what became of it; `asked` is how often a drafter was."""

    incoming: Incoming
    result: Result
    asked: int


def play_history(
    parts: Sequence[Part], seed: int, count: int, told: Any = lambda _: None, template: str | None = None
) -> list[Played]:
    """Play the goals of a seed, or those of a template, each repository with what its earlier plans left."""
    world = make_world(seed)
    kept: dict[str, dict[str, Any]] = {}
    played = []
    history = make_history(world, seed, count)
    for incoming in (each for each in history if template in (None, each.mission.template)):
        store = MemoryStore(PARTITION)
        store.now = EPOCH_MS + 1000 * incoming.second
        name = incoming.habits.name
        store.keys |= kept.get(name, {})
        course = HabitCourse(
            incoming.mission, Conditions(mistakes=MISTAKES), incoming.number, seed,
            incoming=incoming, world=world, parts=parts, store=store,
        )  # fmt: skip
        result = course.run()
        kept[name] = {key: value for key, value in store.keys.items() if key.startswith(MARKS)}
        played.append(Played(incoming, result, course.player.asked if isinstance(course.player, HabitPlayer) else 0))
        told(len(played))
    return played
