"""Which wake-ups of a process are under way: never two for the same work, and a lost one is sent again."""

from __future__ import annotations

import itertools
import math
from collections import deque
from dataclasses import dataclass
from random import Random

import pytest

from worker.process.wakeup_ledger import DEAF_S, LOST_S, MOST_PASSED, Key, Ledger, WakeupState

KEY = Key("planner.outcomes", (0,))
OTHER = Key("planner.outcomes", (1,))


@dataclass(frozen=True)
class Request:
    """A wake-up in hand."""

    id: str
    name: str
    args: list[int]


def in_hand(*wakeups: tuple[str, Key]) -> dict[str, Request]:
    """What a worker has in hand, as Celery lists it."""
    return {each: Request(each, key.task, list(key.args)) for each, key in wakeups}


def look(ledger: Ledger, key: Key, now: float, *wakeups: tuple[str, Key], stuck_s: float = math.inf) -> WakeupState:
    return ledger.look(key, in_hand(*wakeups), now, stuck_s)


def test_a_wakeup_that_waits_while_every_slot_is_busy_is_not_lost() -> None:
    ledger = Ledger(slots=1)
    ledger.send(KEY, "a", 0.0)

    assert {look(ledger, KEY, float(now), ("x", OTHER)) for now in range(60)} == {WakeupState.BUSY}


def test_a_wakeup_that_a_free_worker_is_not_given_is_lost() -> None:
    ledger = Ledger(slots=2)
    ledger.send(KEY, "a", 0.0)

    assert look(ledger, KEY, LOST_S / 2, ("x", OTHER)) is WakeupState.BUSY
    assert look(ledger, KEY, LOST_S, ("x", OTHER)) is WakeupState.FREE


def test_a_wakeup_is_lost_that_does_not_come_while_a_busy_worker_is_given_many_of_other_queues() -> None:
    goals = Key("planner.decompose")
    ledger = Ledger(slots=1)
    ledger.send(goals, "a", 0.0)
    seen = []
    for number in range(MOST_PASSED):
        ledger.send(KEY, f"b{number}", 0.1 * number)
        seen.append(look(ledger, goals, 0.1 * number, ("x", OTHER)))  # the one slot is always busy when one looks
        ledger.note_received(f"b{number}")
        look(ledger, KEY, 0.1 * number)

    assert set(seen) == {WakeupState.BUSY}
    assert look(ledger, goals, 0.1 * MOST_PASSED, ("x", OTHER)) is WakeupState.FREE


@pytest.mark.parametrize("of_its_queue", [True, False])
def test_a_wakeup_waits_behind_those_of_other_workers(of_its_queue: bool) -> None:
    goals = Key("planner.decompose")
    ledger = Ledger(slots=1)
    ledger.send(goals, "a", 0.0)
    for number in range(3 * MOST_PASSED):
        ledger.send(KEY, f"b{number}", 0.0)
        ledger.note_received(f"b{number}")
        look(ledger, KEY, 0.0)
        if of_its_queue and number % 9 == 0:
            ledger.note_received("of another worker")

    assert (look(ledger, goals, 0.0, ("x", OTHER)) is WakeupState.BUSY) is of_its_queue


def test_a_wakeup_has_gone_when_a_later_one_of_its_queue_was_received() -> None:
    ledger = Ledger(slots=1)
    ledger.send(KEY, "a", 0.0)
    ledger.send(OTHER, "b", 0.0)
    ledger.note_received("b")

    assert look(ledger, KEY, 0.01, ("b", OTHER)) is WakeupState.FREE


def test_a_wakeup_is_under_way_until_it_was_received_and_has_ended() -> None:
    ledger = Ledger(slots=2)
    ledger.send(KEY, "a", 0.0)
    ledger.note_received("a")

    assert look(ledger, KEY, 5.0, ("a", KEY)) is WakeupState.BUSY
    assert look(ledger, KEY, 5.1) is WakeupState.FREE


def test_two_threads_do_not_send_the_same() -> None:
    ledger = Ledger(slots=1)

    assert ledger.send(KEY, "a", 0.0) == 1.0
    assert ledger.send(KEY, "b", 0.0) is None


def test_a_wakeup_that_is_stuck_does_not_keep_the_next_one_back() -> None:
    ledger = Ledger(slots=2)
    ledger.send(KEY, "a", 0.0)
    ledger.note_received("a")

    assert look(ledger, KEY, 0.0, ("a", KEY), stuck_s=10.0) is WakeupState.BUSY
    assert look(ledger, KEY, 10.0, ("a", KEY), stuck_s=10.0) is WakeupState.FREE


def test_a_worker_that_hears_nothing_from_its_broker_works_by_itself_and_sends_no_second_wakeup() -> None:
    ledger = Ledger(slots=1)
    ledger.send(KEY, "a", 0.0)

    assert ledger.look(KEY, None, DEAF_S / 2, math.inf) is WakeupState.BUSY
    assert ledger.look(KEY, None, DEAF_S, math.inf) is WakeupState.DEAF
    assert look(ledger, KEY, DEAF_S + 0.1) is WakeupState.BUSY  # it is heard again, and may be given the wake-up


def test_whatever_is_under_way_has_its_turn_within_a_drain() -> None:
    ledger = Ledger(slots=2)
    shares = [ledger.send(Key("planner.outcomes", (number,)), str(number), 0.0) for number in range(16)]

    assert shares[:2] == [1.0, 1.0]
    assert shares[-1] == 2 / 16
    assert ledger.send(Key("planner.decompose"), "goals", 0.0) == 2 / 32  # taken in turn with the others


@pytest.mark.parametrize("seed", range(20))
def test_no_more_wakeups_wait_than_there_is_work_of_a_kind_whatever_happens(seed: int) -> None:
    """One worker, more kinds of work than slots, each always with more to do; now and then the broker loses all."""
    rng, now, names = Random(seed), 0.0, map(str, itertools.count())
    slots, keys = rng.randint(1, 4), [Key("planner.outcomes", (number,)) for number in range(rng.randint(2, 16))]
    ledger, broker, hand, done = Ledger(slots), deque[tuple[str, Key]](), dict[str, Key](), dict.fromkeys(keys, 0)

    for _ in range(5000):
        now += rng.uniform(0.001, 0.02)
        for key in rng.sample(keys, len(keys)):
            if look(ledger, key, now, *hand.items()) is WakeupState.FREE:
                name = next(names)
                assert ledger.send(key, name, now) is not None
                broker.append((name, key))
        assert len({key for _, key in broker} | set(hand.values())) == len(broker) + len(hand)
        if rng.random() < 0.001:
            broker.clear()
        while broker and len(hand) < slots:
            name, key = broker.popleft()
            hand[name] = key
            ledger.note_received(name)
        for name in [name for name in hand if rng.random() < 0.3]:
            done[hand.pop(name)] += 1

    assert min(done.values()) * 2 > max(done.values()) > 0
