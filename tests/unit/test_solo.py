"""Wake-ups of a worker with one slot, while a goal has it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from celery.worker import state

from tasks import routes
from worker.process.solo_pool import Solo
from worker.process.wakeup_ledger import Key

GOALS, FIRST, SECOND = Key(routes.GOALS.task), Key("planner.outcomes", (0,)), Key("planner.outcomes", (1,))


def done_beside_a_goal(
    solo: Solo, wakeups: Callable[[], None], fails: frozenset[Key] = frozenset()
) -> list[tuple[Key, int]]:
    """Plan a goal during which `wakeups` come; returns what was done, in its order, and in which thread."""
    done: list[tuple[Key, int]] = []

    def do(key: Key, _: float) -> None:
        if key == GOALS:
            wakeups()
        done.append((key, threading.get_ident()))
        if key in fails:
            raise ZeroDivisionError

    solo.plan(do, GOALS, 1.0)
    return done


def asked(solo: Solo) -> None:
    assert solo.take(FIRST)


def test_what_is_asked_for_while_a_goal_has_the_slot_is_done_once_each_by_the_thread_of_the_worker() -> None:
    solo = Solo()

    def wakeups() -> None:
        assert [solo.is_busy(key) for key in (FIRST, SECOND, GOALS)] == [False, False, None]
        assert all(solo.take(key) for key in (FIRST, SECOND))
        assert solo.is_busy(SECOND)
        assert solo.take(SECOND)

    done = done_beside_a_goal(solo, wakeups)

    assert sorted(key for key, _ in done) == sorted([GOALS, FIRST, SECOND])
    assert {key for key, thread in done if thread == threading.get_ident()} == {FIRST, SECOND}


def test_goals_and_what_comes_without_a_goal_in_hand_are_left_to_the_broker() -> None:
    solo, taken = Solo(), []

    done_beside_a_goal(solo, lambda: taken.append(solo.take(GOALS)))

    assert taken == [False]
    assert not solo.take(FIRST)
    assert solo.is_busy(FIRST) is None


def test_a_wakeup_that_fails_does_not_end_the_goal_and_may_come_again() -> None:
    solo = Solo()

    assert len(done_beside_a_goal(solo, lambda: asked(solo), frozenset({FIRST}))) == 2

    assert solo.is_busy(FIRST) is None


def test_a_goal_that_fails_is_told_to_celery_once_all_else_is_done() -> None:
    solo = Solo()

    with pytest.raises(ZeroDivisionError):
        done_beside_a_goal(solo, lambda: asked(solo), frozenset({GOALS}))

    assert solo.is_busy(FIRST) is None
    assert done_beside_a_goal(solo, lambda: None)


def test_a_worker_that_is_asked_to_stop_begins_nothing_beside_its_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    solo = Solo()
    monkeypatch.setattr(state, "should_stop", 0)

    done = done_beside_a_goal(solo, lambda: asked(solo))

    assert [key for key, _ in done] == [GOALS]
    assert solo.is_busy(FIRST)  # nor is it asked for again
