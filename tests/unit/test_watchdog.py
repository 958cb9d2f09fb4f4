"""When the watchdog bites, and when it must not; the rest is shown with real processes in test_stuck.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import pytest

from worker.process.watchdog import Beat, Judge, Sight, WorkerPool, has_in_hand
from worker.store import keys
from worker.store.keys import Partition

LIMIT_S = 60.0
CLAIM_IDLE_S = 30.0
OUTCOMES = Partition(0).outcomes
DRAIN, DECOMPOSE, UPKEEP, OBEY = "planner.outcomes", "planner.decompose", "planner.upkeep", "planner.commands"

IDLE = Sight(unread={}, pending={}, at_work=frozenset(), lag_s=0.0)
WAITING = IDLE._replace(unread={OUTCOMES: b"1-0"})
GOAL_IN_HAND = IDLE._replace(at_work=frozenset({keys.GOALS, DECOMPOSE}))
ORDERS_OBEYED = IDLE._replace(at_work=frozenset({keys.COMMANDS, OBEY}))


class Life:
    """A worker's life as the judge sees it, a second at a time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slots = 2
        self.streams = [keys.GOALS, OUTCOMES]
        self.others: set[str] = set()  # streams of partitions that another worker owns
        self._judge = Judge(LIMIT_S, CLAIM_IDLE_S)

    def goes_on(
        self, seconds: int, sight: Sight | None, *tasks: str, hung: Sequence[str] = (), alive: bool = True
    ) -> str:
        """Let time pass while nothing changes; returns the first verdict that is not empty."""
        beat = 1000.0
        for _ in range(seconds):
            self.now += 1
            beats = [
                Beat(stream, beat if stream in hung else self.now, alive, stream not in self.others)
                for stream in self.streams
            ]
            pool = WorkerPool(self.slots, frozenset({1}), {task: task.split("#")[0] for task in tasks})
            if verdict := self._judge.verdict(sight, beats, pool, self.now):
                return verdict
        return ""


@pytest.fixture
def life() -> Life:
    return Life()


@pytest.fixture
def numbers() -> Iterator[int]:
    """Numbers for what is always another one."""
    return count()


def test_an_idle_worker_is_not_stuck(life: Life) -> None:
    assert life.goes_on(1000, IDLE) == ""


def test_entries_that_wait_while_none_is_begun_mean_that_it_is_stuck(life: Life) -> None:
    assert life.goes_on(60, WAITING) == ""
    assert life.goes_on(1, WAITING) == f"entries of {OUTCOMES} wait and none is begun"


def test_entries_of_a_partition_that_another_worker_owns_are_that_ones_to_begin(life: Life) -> None:
    life.others = {OUTCOMES}

    assert life.goes_on(1000, WAITING) == ""
    assert life.goes_on(61, WAITING, hung=[OUTCOMES]) == f"the watch of {OUTCOMES} hangs"


def test_whoever_begins_entries_is_not_stuck_however_many_wait(life: Life) -> None:
    for number in range(100):
        assert life.goes_on(30, IDLE._replace(unread={OUTCOMES: b"%d-0" % number})) == ""


def test_waiting_counts_from_when_something_waits(life: Life) -> None:
    assert life.goes_on(500, IDLE) == ""
    assert life.goes_on(60, WAITING) == ""


def test_one_stream_that_nobody_reads_is_seen_while_others_are(life: Life, numbers: Iterator[int]) -> None:
    said = (
        life.goes_on(1, GOAL_IN_HAND._replace(unread={keys.GOALS: b"%d-0" % number, OUTCOMES: b"1-0"}))
        for number in numbers
    )

    assert next(filter(None, said)) == f"entries of {OUTCOMES} wait and none is begun"
    assert life.now == 1061


def test_a_stream_has_its_turn_after_all_the_others_where_there_are_very_many(life: Life) -> None:
    life.streams = [Partition(number).outcomes for number in range(100)]

    assert life.goes_on(100, WAITING) == ""
    assert life.goes_on(1, WAITING) != ""


@pytest.mark.parametrize("seconds", [1, 61, 3600])
def test_an_outage_of_the_store_never_counts(life: Life, seconds: int) -> None:
    assert life.goes_on(59, WAITING, DRAIN) == ""
    assert life.goes_on(seconds, None, DRAIN, hung=[OUTCOMES]) == ""
    assert life.goes_on(59, WAITING, DRAIN, hung=[OUTCOMES]) == ""


def test_a_task_that_does_not_end_means_that_it_is_stuck(life: Life) -> None:
    assert life.goes_on(60, IDLE, DRAIN) == ""
    assert life.goes_on(1, IDLE, DRAIN) == "planner.outcomes does not end"


def test_a_stuck_task_is_seen_while_others_come_and_go(life: Life, numbers: Iterator[int]) -> None:
    said = (life.goes_on(5, IDLE, DRAIN, f"{UPKEEP}#{number}") for number in numbers)

    assert next(filter(None, said)) == "planner.outcomes does not end"
    assert life.now == 1061


def test_a_goal_that_is_worked_on_may_take_its_time(life: Life) -> None:
    sight = GOAL_IN_HAND._replace(unread={keys.GOALS: b"1-0"})

    assert life.goes_on(1000, sight, DECOMPOSE, hung=[keys.GOALS]) == ""
    assert life.goes_on(61, IDLE, DECOMPOSE) == "planner.decompose does not end"


def test_orders_that_are_obeyed_may_take_their_time(life: Life) -> None:
    assert life.goes_on(1000, ORDERS_OBEYED._replace(unread={keys.COMMANDS: b"1-0"}), OBEY) == ""
    assert life.goes_on(61, IDLE, OBEY) == "planner.commands does not end"


def test_a_goal_that_is_worked_on_excuses_nothing_else(life: Life) -> None:
    assert life.goes_on(61, GOAL_IN_HAND, hung=[OUTCOMES]) == f"the watch of {OUTCOMES} hangs"
    assert life.goes_on(61, GOAL_IN_HAND, DECOMPOSE, DRAIN) == "planner.outcomes does not end"


def test_while_goals_fill_the_whole_pool_other_streams_wait_with_reason(life: Life) -> None:
    sight = WAITING._replace(at_work=GOAL_IN_HAND.at_work)
    life.slots = 1

    assert life.goes_on(1000, sight, DECOMPOSE) == ""
    assert life.goes_on(61, sight) == f"entries of {OUTCOMES} wait and none is begun"


def test_an_entry_that_is_begun_and_never_applied_means_that_it_is_stuck(life: Life) -> None:
    sight = IDLE._replace(pending={OUTCOMES: b"1-0"})

    assert life.goes_on(90, sight) == ""  # it may have to be taken over first
    assert life.goes_on(1, sight) == f"entries of {OUTCOMES} are begun and not applied"


def test_whoever_applies_what_was_begun_is_not_stuck(life: Life) -> None:
    for number in range(100):
        assert life.goes_on(30, IDLE._replace(pending={OUTCOMES: b"%d-0" % number})) == ""


def test_a_watch_that_hangs_is_named(life: Life) -> None:
    assert life.goes_on(60, IDLE, hung=[OUTCOMES]) == ""
    assert life.goes_on(1, IDLE, hung=[OUTCOMES]) == f"the watch of {OUTCOMES} hangs"


@pytest.mark.parametrize("sight", [IDLE, None])
def test_a_watch_that_has_ended_counts_at_once(life: Life, sight: Sight | None) -> None:
    assert life.goes_on(1, sight, alive=False) == f"the watch of {keys.GOALS}, {OUTCOMES} has ended"


@pytest.mark.parametrize(
    ("name", "pending", "idle", "counts"),
    [
        (b"host-7-0123abcd", 1, 5, True),
        (b"host-7-0123abcd", 0, 5, False),
        (b"host-7-0123abcd", 1, 60_000, False),
        (b"host-77-0123abcd", 1, 5, False),
        (b"host-7-0123abcd-drafts", 4, 5, False),
    ],
)
def test_goals_are_taken_by_who_has_one_in_hand_and_not_by_who_asks_a_drafter(
    name: bytes, pending: int, idle: int, counts: bool
) -> None:
    assert has_in_hand([{"name": name, "pending": pending, "idle": idle}], (b"host-7-",)) == counts
