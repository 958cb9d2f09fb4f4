"""Parts of a memory that were tried and are not in the planner; docs/results.md says what they come to.

Where a planner could only guess, as of which files are hard or which tool will fail, a part is given the truth: its
figure is the most that there is to be had. Nothing of the planner is changed for them. What it would do is done to the
goal before it is sent, to the spec before an agent reads it, or to the bench on which hosts verify.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from schemas.goal import Goal
from tasks.memory.order import RISKY
from tasks.plan.cached_draft import read_draft
from tests.simulation.agent import Spec
from tests.simulation.habits.history import DAY_S, Incoming
from tests.simulation.habits.parts import Outcomes, Part, PlanCache
from tests.simulation.host import Bench, passes
from tests.simulation.repository import Tree

if TYPE_CHECKING:
    from tests.simulation.habits.course import HabitCourse

LEAST_ALIKE, MOST_TOLD = 0.25, 5
ALIKE_ENOUGH = 0.85  # to have the same draft
FADES, KEPT_DAYS = 0.95, 90  # what a day leaves of a goal's weight, and when it is forgotten


@dataclass(frozen=True, slots=True)
class _Past:
    """A goal that has been: when, its words, and what later ones are told of it."""

    day: float
    words: frozenset[tuple[str, ...]]
    told: dict[str, Any]


class Recall(Part):
    """The five goals most alike of the repository, with the files that they changed, in the context of every step."""

    def __init__(self) -> None:
        self.past: dict[str, list[_Past]] = {}  # by repository
        self.day = 0.0
        self.told: list[dict[str, Any]] = []  # to the attempts of the plan at hand

    def send(self, goal: dict[str, Any], incoming: Incoming) -> dict[str, Any]:
        self.day, words = incoming.second / DAY_S, _words_of(goal["goal"])
        recent = [past for past in self.past.get(incoming.habits.name, []) if self.day - past.day < KEPT_DAYS]
        alike = [(_likeness(words, past.words), past) for past in recent]
        weighed = [(share * FADES ** (self.day - past.day), past) for share, past in alike if share >= LEAST_ALIKE]
        first = sorted(weighed, key=lambda pair: -pair[0])[:MOST_TOLD]
        self.told = [past.told for _, past in first]
        return goal

    def tell(self, spec: Spec) -> Spec:
        if not self.told:
            return spec
        memory = {**(spec["context"].get("memory") or {}), "alike": self.told}
        return {**spec, "context": {**spec["context"], "memory": memory}}

    def learn(self, goal: Goal, course: HabitCourse) -> None:
        if files := sorted({item.file for item in course.repository.items if item.name in course.tree.done}):
            told = {"goal": goal.goal, "files": files, "state": course.player.state}
            past = self.past.setdefault(goal.context.repo or "", [])
            past.append(_Past(self.day, _words_of(goal.goal), told))


def _words_of(text: str) -> frozenset[tuple[str, ...]]:
    """Cut a sentence into its pairs and triples of words."""
    words = re.findall(r"\w+", text.lower())
    return frozenset(tuple(words[at : at + size]) for size in (2, 3) for at in range(len(words) - size + 1))


def _likeness(one: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> float:
    return len(one & other) / max(1, len(one | other))


class AlikeDrafts(PlanCache):
    """The plan cache, which also answers goals that are the same but for some of their words."""

    def place(self, field: str, sentence: str, known: Mapping[str, bytes]) -> str:
        if field in known:
            return field
        context, words = field.split()[0], _words_of(sentence)
        kept = ((other, read_draft(raw)) for other, raw in known.items() if other.startswith(f"{context} "))
        shares = [(_likeness(words, _words_of(draft.goal)), other) for other, draft in kept if draft]
        share, alike = max(shares, default=(0.0, field))
        return alike if share >= ALIKE_ENOUGH else field


class Order(Part):
    """Independent steps in the order of how hard their files are."""

    def __init__(self, *, hardest_first: bool) -> None:
        self.sign = -1 if hardest_first else 1

    def send(self, goal: dict[str, Any], incoming: Incoming) -> dict[str, Any]:
        hard = incoming.habits.hard
        steps = sorted(goal.get("steps", ()), key=lambda step: self.sign * hard[step["allowed_files"][0]])
        return {**goal, "steps": steps} if steps else goal


class Verification(Part):
    """Of the tools of a verification those first that will fail."""

    def equip(self, bench: Bench) -> Bench:
        def arrange(tools: Sequence[dict[str, Any]], tree: Tree) -> Sequence[dict[str, Any]]:
            return sorted(tools, key=lambda tool: passes(tool, bench.repository, tree))

        return replace(bench, arrange=arrange)


TRIED: Mapping[str, Callable[[], Part]] = {
    "recall": Recall,
    "plan_cache_alike": AlikeDrafts,
    "order": lambda: Order(hardest_first=True),
    "order_easiest": lambda: Order(hardest_first=False),
    "verification": Verification,
    "memory_order_risky": lambda: Outcomes(RISKY),
}
