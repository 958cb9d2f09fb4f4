"""The parts of a planner's memory, each of which can be switched on and off.

`Part` says what one may do; a new one is a class and its row in `PARTS`. `tried` has those that the planner lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from schemas import codec
from schemas.goal import Goal
from tasks.features import failed_changes, outcome_memory
from tasks.features.failed_changes import FAILED_DIFFS
from tasks.features.flaky_tests import MEMORY
from tasks.handlers import plan_cache
from tasks.memory.flaky_tests import counters_of, recall
from tasks.memory.order import LIKELY
from tasks.memory.outcomes import MOST_READ
from tasks.plan.cached_draft import may_keep, read_draft
from tasks.policy.plan_seed import PlanSeed
from tasks.rules.strategy import Consult, Drafted, Setting
from tasks.strategies.drafting.recipes import Milestone
from tasks.toolchain.catalogue import CATALOGUE
from tests.simulation.agent import Spec
from tests.simulation.habits.history import Incoming
from tests.simulation.host import Bench
from tests.support.memory_store import MemoryStore
from tests.support.plans import PARTITION

if TYPE_CHECKING:
    from tests.simulation.habits.course import HabitCourse


KEPT_S = 7 * 86_400  # as PLANNER_PLAN_CACHE_DAYS has it


@runtime_checkable
class Drafting(Protocol):
    """A plan of which it is known what its drafter said."""

    heard: list[Drafted]


class Part:
    """What carries over from a plan to those after it. One object lives through a run, for all repositories."""

    def send(self, goal: dict[str, Any], incoming: Incoming) -> dict[str, Any]:
        """Return the goal as it is sent."""
        del incoming
        return goal

    def surround(self, goal: Goal, setting: Setting) -> Setting:
        """Return what surrounds the planning of `goal` (`setting.now` is when): give it what is remembered."""
        del goal
        return setting

    def begin(self, goal: Goal, plan_seed: PlanSeed, store: MemoryStore) -> PlanSeed:
        """Return what the plan of `goal` begins as, in a `store` that has what earlier plans of its repository left."""
        del goal, store
        return plan_seed

    def draft(self, goal: Goal, setting: Setting, question: Consult) -> Drafted | None:
        """Answer in the place of the drafter, before it is asked the first time; None to have it asked."""
        del goal, setting, question
        return None

    def tell(self, spec: Spec) -> Spec:
        """Return the spec of a step as the agent of an attempt reads it."""
        return spec

    def equip(self, bench: Bench) -> Bench:
        """Return what the hosts work with."""
        return bench

    def learn(self, goal: Goal, course: HabitCourse) -> None:
        """Remember how a plan went: `course.player` has its log, steps and store, `course.player.now` is its end."""
        del goal, course


class FailedChanges(Part):
    """The regression firewall: attempts are told of changes that failed on their tree, and a repeat counts at once."""

    def begin(self, goal: Goal, plan_seed: PlanSeed, store: MemoryStore) -> PlanSeed:
        base = goal.context.base_sha or ""
        name = failed_changes.name_of(goal.tenant, goal.context.repo, base)
        known = failed_changes.read_kept(store.hash(PARTITION.kept(name)), base) if name else ()
        return replace(plan_seed, switches={}, recalled={**plan_seed.recalled, FAILED_DIFFS: known})


class PlanCache(Part):
    """Drafts of completed plans, which answer the same goal again without a drafter."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, bytes]] = {}  # by repository
        self.asked: tuple[str, Drafted | None] = "", None  # for the plan that is made: its place, what was found

    def draft(self, goal: Goal, setting: Setting, question: Consult) -> Drafted | None:
        asked = plan_cache.question(goal, CATALOGUE, setting, question, setting.drafter)
        if asked is None:
            self.asked = "", None
            return None
        known = self.kept.setdefault(goal.context.repo or "", {})
        field = self.place(asked.field, goal.goal, known)
        found = read_draft(known.get(field, b""))
        is_new = found is not None and found.at >= setting.now - KEPT_S * 1000
        said = Drafted(found.output) if found and is_new else None
        self.asked = field, said
        return said

    def place(self, field: str, sentence: str, known: Mapping[str, bytes]) -> str:
        """Name the place among those `known` at which the draft of a goal stands, or would."""
        del sentence, known
        return field

    def learn(self, goal: Goal, course: HabitCourse) -> None:
        (field, said), self.asked = self.asked, ("", None)
        player = course.player
        if not field or player.nothing is not None or not isinstance(player, Drafting):
            return
        known, completed = self.kept[goal.context.repo or ""], player.state == "COMPLETED"
        if said:
            if not completed:
                known.pop(field, None)
        elif completed and player.heard and may_keep(player.heard[-1].output):
            entry = {"goal": goal.goal, "plan_id": player.plan_id, "drafter": "http", "at": player.store.now}
            whose = {"tenant": goal.tenant, "repo": goal.context.repo}
            known[field] = codec.dumps({**entry, **whose, "output": player.heard[-1].output})


class FlakyTests(Part):
    """Which tests were flaky in earlier plans of the repository, counted in the store by their own commits."""

    def begin(self, goal: Goal, plan_seed: PlanSeed, store: MemoryStore) -> PlanSeed:
        name, own = counters_of(goal.tenant, goal.context.repo or ""), goal.context.failing_tests
        known = recall(store.hash(PARTITION.recall(name)), plan_seed.now, own)._asdict()
        return replace(plan_seed, recalled={**plan_seed.recalled, MEMORY: known})


class Outcomes(Part):
    """What attempts of earlier plans of the repository came to, which changes the order of steps, or their checks."""

    def __init__(self, order: int, *, checks: bool = False) -> None:
        self.switches = {outcome_memory.ORDER: order, **({outcome_memory.CHECKS: 1} if checks else {})}

    def begin(self, goal: Goal, plan_seed: PlanSeed, store: MemoryStore) -> PlanSeed:
        records = store.items(PARTITION.memory(outcome_memory.where(goal) or ""))[:MOST_READ]
        known = {**plan_seed.recalled, outcome_memory.OUTCOMES: outcome_memory.read(records, goal, plan_seed.now)}
        return replace(plan_seed, switches={**plan_seed.switches, **self.switches}, recalled=known)


class Recipes(Part):
    """Supplied steps verified by the recipe `focused`, and a last step by `full`, in place of all tests each time.

    Steps that the planner makes itself are verified in this way already.
    """

    def send(self, goal: dict[str, Any], incoming: Incoming) -> dict[str, Any]:
        del incoming
        if not (given := goal.get("steps")):
            return goal
        steps = [{**step, "verify": Milestone.FOCUSED.value} for step in given]
        last = {"step_id": "all-of-it", "title": "Verify all", "intent": "See that nothing broke", "mode": "test"}
        after = [step["step_id"] for step in given]
        return {**goal, "steps": [*steps, {**last, "depends_on": after, "verify": Milestone.FULL.value}]}


PARTS: Mapping[str, Callable[[], Part]] = {
    "failed_diffs": FailedChanges,
    "plan_cache": PlanCache,
    "flaky_tests": FlakyTests,
    "recipes": Recipes,
    "memory_order": lambda: Outcomes(LIKELY),
    "memory_checks": lambda: Outcomes(0, checks=True),
}
