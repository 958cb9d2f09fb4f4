"""The parts of a memory that were tried: each does what its figure in docs/results.md says that it does."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from schemas.goal import Goal
from tests.simulation.agent import Spec
from tests.simulation.habits import command
from tests.simulation.habits.course import HabitCourse, play_history
from tests.simulation.habits.history import Incoming, make_history
from tests.simulation.habits.parts import Part
from tests.simulation.habits.tried import TRIED, AlikeDrafts
from tests.simulation.habits.world import make_world
from tests.simulation.host import Bench, passes
from tests.simulation.repository import Fault, Tree, Wrong

BATCH = "supplied, independent"


def batches(count: int = 200) -> list[Incoming]:
    """The goals with independent steps."""
    return [each for each in make_history(make_world(1), 1, count) if each.mission.template == BATCH]


def sent(part: str, incoming: Incoming) -> tuple[dict[str, Any], dict[str, Any]]:
    """A goal as it is without a part, and with it."""
    goal = incoming.mission.scene["goal"]
    return goal, TRIED[part]().send(goal, incoming)


class Reading(Part):
    """Notes what attempts are told."""

    def __init__(self) -> None:
        self.specs: list[Spec] = []
        self.seen: list[tuple[str, list[Spec], list[str]]] = []

    def tell(self, spec: Spec) -> Spec:
        self.specs.append(spec)
        return spec

    def learn(self, goal: Goal, course: HabitCourse) -> None:
        done = sorted({item.file for item in course.repository.items if item.name in course.tree.done})
        self.seen.append((goal.goal, self.specs, done))
        self.specs = []


@pytest.mark.outages
def test_recall_tells_each_step_of_the_goals_that_were_alike_and_what_they_changed() -> None:
    reading = Reading()
    play_history([TRIED["recall"](), reading], 1, 60)
    changed: dict[str, list[list[str]]] = {}
    told = 0
    for goal, specs, done in reading.seen:
        alike = [each for spec in specs[:1] for each in spec["context"].get("memory", {}).get("alike", ())]
        assert all(spec["context"].get("memory", {}).get("alike", []) == alike for spec in specs)
        assert all(each["files"] in changed[each["goal"]] for each in alike)
        assert len(alike) <= 5
        told += len(alike)
        changed.setdefault(goal, []).append(done)
    assert told > 10


@pytest.mark.parametrize(
    ("sentence", "is_answered"),
    [
        ("Add a gift note to the cart, the parcels, the labels and the refunds of the shop", True),
        ("Add a gift note to the cart, the parcels, the labels and the refunds of a shop", False),  # 0.77 alike
        ("Please add a gift note to the cart, the parcels, the labels and the refunds of the shop", True),
    ],
)
def test_drafts_of_goals_that_are_nearly_the_same_are_found(sentence: str, is_answered: bool) -> None:
    kept = "Add a gift note to the cart, the parcels, the labels and the refunds of the shop"
    part = AlikeDrafts()
    entry = {"goal": kept, "plan_id": "p", "tenant": "t", "repo": "r", "drafter": "http", "at": 1, "output": {}}
    known = {"context 1": codec.dumps(entry)}

    assert (part.place("context 2", sentence, known) in known) is is_answered
    assert part.place("another 2", sentence, known) not in known


@pytest.mark.parametrize(("part", "sign"), [("order", -1), ("order_easiest", 1)])
def test_order_puts_independent_steps_by_how_hard_their_files_are(part: str, sign: int) -> None:
    moved = 0
    for each in batches():
        before, after = sent(part, each)
        hard = [sign * each.habits.hard[step["allowed_files"][0]] for step in after["steps"]]
        assert hard == sorted(hard)
        assert sorted(map(str, before["steps"])) == sorted(map(str, after["steps"]))
        moved += before["steps"] != after["steps"]
    assert moved


def test_verification_runs_what_will_fail_first() -> None:
    habits = make_world(1).repositories[0]
    repository = habits.repository
    bench = TRIED["verification"]().equip(Bench(repository, lambda *_: None, 0.0))
    all_tests = {"tool": "all", "argv": ["pytest", "-q"], "pass_codes": [0]}
    syntax = {"tool": "syntax", "argv": ["python", "-m", "py_compile", repository.sources[0]], "pass_codes": [0]}
    fault = Fault(Wrong.TEST, repository.sources[0], 1, frozenset({repository.tests[0].name}))
    broken = Tree(faults=frozenset({fault}))

    arranged = bench.arrange([syntax, all_tests], broken)

    assert [tool["tool"] for tool in arranged] == ["all", "syntax"]
    assert not passes(all_tests, repository, broken)


def test_what_changed_stands_with_its_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--plans", "150", "--parts", "recipes", "--template", BATCH])
    lines = capsys.readouterr().out.splitlines()
    without, with_it, change = (line.strip("| ").split(" | ") for line in lines[2:5])

    assert change[0] == "recipes - without"
    assert int(without[1]) == int(with_it[1]) == int(change[1]) < 20
    attempts = float(with_it[5]) - float(without[5])
    found, _, error = change[5].partition(" ± ")
    assert abs(float(found) - attempts) < 0.02
    assert float(error) > 0


def test_a_part_that_was_tried_is_played_by_its_name_alone(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--plans", "1"])

    assert not any(name in capsys.readouterr().out for name in TRIED)
