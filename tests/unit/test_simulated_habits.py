"""The simulation of repositories with habits: one seed gives one history, and a part is asked and told as promised."""

from __future__ import annotations

from functools import cache

import pytest

from schemas.goal import Goal
from tasks.rules.strategy import Consult, Drafted, Setting
from tests.simulation.habits import command, report
from tests.simulation.habits.course import HabitCourse, Played, play_history
from tests.simulation.habits.history import DAY_S, DAYS, RECENT_DAYS, make_history
from tests.simulation.habits.parts import Part
from tests.simulation.habits.world import make_world


@cache
def play(count: int = 25, seed: int = 1) -> list[Played]:
    return play_history([], seed, count)


def test_the_same_seed_gives_the_same_history_and_another_one_does_not() -> None:
    first, second = make_history(make_world(1), 1, 60), make_history(make_world(1), 1, 60)

    assert [each.mission.scene for each in first] == [each.mission.scene for each in second]
    assert make_world(2).repositories != make_world(1).repositories


def test_goals_come_in_order_and_some_have_been_before() -> None:
    history = make_history(make_world(1), 1, 200)
    times = [each.second for each in history]
    again = [at for at, each in enumerate(history) if each.relation == "again"]

    assert times == sorted(times)
    assert times[-1] <= DAYS * DAY_S
    assert {each.relation for each in history} == {"new", "nearly", "again"}
    for at in again:
        goal = _words(history[at].mission.scene)
        since = history[at].second - RECENT_DAYS * DAY_S
        before = [each for each in history[:at] if each.second > since]
        assert goal in [_words(each.mission.scene) for each in before]


def _words(scene: dict[str, dict[str, object]]) -> tuple[object, object]:
    context = scene["goal"]["context"]
    assert isinstance(context, dict)
    return context["repo"], scene["goal"]["goal"]


def test_every_goal_becomes_a_plan_that_ends() -> None:
    assert {each.result.state for each in play()} <= {"COMPLETED", "HALTED"}
    assert all(each.result.seconds > 0 and each.result.attempts > 0 for each in play())


class Noting(Part):
    """A part that answers in the place of drafters with something useless, and notes what it is told."""

    def __init__(self) -> None:
        self.surrounded: list[int] = []
        self.learned: list[tuple[int, str]] = []
        self.answered = 0

    def surround(self, _: Goal, setting: Setting) -> Setting:
        self.surrounded.append(setting.now)
        return setting

    def draft(self, _: Goal, __: Setting, ___: Consult) -> Drafted | None:
        self.answered += 1
        return Drafted(output="no plan")

    def learn(self, _: Goal, course: HabitCourse) -> None:
        self.learned.append((course.now, course.player.state))


def test_a_part_is_asked_before_each_plan_and_told_of_its_end() -> None:
    noting = Noting()
    played = play_history([noting], 1, 25)

    assert len(noting.surrounded) == len(noting.learned) == 25
    assert noting.surrounded == sorted(noting.surrounded)
    assert [state for _, state in noting.learned] == [each.result.state for each in played]
    assert noting.answered == sum(bool(each.incoming.mission.scene["setting"]) for each in played)


def test_a_part_that_does_nothing_changes_nothing() -> None:
    assert [each.result for each in play_history([Part()], 1, 25)] == [each.result for each in play()]


def test_the_table_has_a_row_for_each_choice_of_parts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "PARTS", {"noting": Noting})
    command.main(["--plans", "6"])
    lines = capsys.readouterr().out.splitlines()

    assert lines[:2] == report.HEAD.splitlines()
    assert [line.split(" | ")[0] for line in lines[2:4]] == ["| without", "| noting"]
    with pytest.raises(SystemExit):
        command.main(["--parts", "nonsense"])
