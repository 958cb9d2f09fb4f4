"""What a real server answers when it is asked for what the next outcomes of a plan can touch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tasks.handlers import outcomes
from tasks.plan.hot_plan import HotPlan
from tasks.plan.snapshot import Snapshot
from tests.support.plain import check_part, held_on, part_of, state_of
from tests.support.plans import PARTITION, PLAN, a_plan, a_step, some_steps
from tests.support.real_store import Real
from worker.store import clients, functions
from worker.store.commit_calls import read_ahead
from worker.store.plans import Ask, Write

KEYS = PARTITION.plan(PLAN)


@pytest.fixture
def real(redis_url: str) -> Iterator[Real]:
    with clients.connect(redis_url) as client:
        yield Real(client)


def create(real: Real, *steps: Any, **limits: Any) -> None:
    changes = a_plan(*steps, **limits)
    assert real.commit([Write(change) for change in changes]) == ["ok"] * len(changes)
    if changes[-1].more:
        (view,) = real.begin([Ask(PLAN)])
        assert isinstance(view, Snapshot)
        real.commit([Write(outcomes.apply(view, ()))])


def prefetch(real: Real, ahead: int) -> HotPlan | None:
    """Ask for so many steps ahead; None where the server declines."""
    reply = functions.call(real.client, "FCALL", functions.PREFETCH, 6, *KEYS[:6], ahead)
    return None if reply is None else read_ahead(PARTITION, PLAN, reply, ahead)


def chains(count: int, length: int) -> list[Any]:
    return [
        a_step(f"s-{place}", *([f"s-{place - count}"] if place >= count else ())) for place in range(count * length)
    ]


def tree(count: int, fan: int) -> list[Any]:
    return [a_step(f"s-{place}", *([f"s-{(place - 1) // fan}"] if place else ())) for place in range(count)]


SHAPES = {
    "a chain": (chains(1, 30), {}),
    "chains": (chains(4, 12), {"max_parallel": 4}),
    "more chains than may run at a time": (chains(8, 6), {"max_parallel": 2}),
    "steps that are free, and one that waits for all": (
        [*some_steps(50), a_step("end", *[f"s-{place}" for place in range(50)])],
        {"max_parallel": 3},
    ),
    "a tree": (tree(40, 3), {"max_parallel": 2}),
    "one that frees more than fit into a window": (tree(80, 70), {}),
}


@pytest.mark.parametrize("ahead", [1, 4, 16, 100])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_next_steps_are_read_as_far_as_was_asked(real: Real, shape: str, ahead: int) -> None:
    steps, limits = SHAPES[shape]
    create(real, *steps, **limits)
    held = held_on(real.client, PARTITION, PLAN)

    part, expected = prefetch(real, ahead), part_of(held, ahead)

    assert part is not None
    assert expected is not None
    assert state_of(part) == state_of(expected)
    assert (part.ahead, part.horizon) == (ahead, expected.horizon)
    check_part(part, held)


def test_nothing_is_answered_of_a_plan_that_has_gone(real: Real) -> None:
    assert prefetch(real, 8) is None


def test_nothing_is_answered_of_what_no_copy_can_be_kept_of(real: Real) -> None:
    create(real, *chains(1, 5))
    for key, name in ((KEYS.plan, "quota"), (KEYS.todo, ""), (KEYS.active, "")):
        kept = real.client.dump(key)
        if name:
            real.client.hset(key, name, "tenant:acme")  # a day budget
        elif key == KEYS.todo:
            real.client.rpush(key, "s-0 1")  # ends of which dependents have not heard yet
        else:
            real.client.delete(key)  # nothing is in flight

        assert prefetch(real, 8) is None

        real.client.delete(key)
        if kept:
            real.client.restore(key, 0, kept)
    assert prefetch(real, 8) is not None


def test_a_plan_whose_ends_touch_too_much_is_not_kept(real: Real) -> None:
    starts = some_steps(4)
    fans = [a_step(f"{start.step_id}-{place}", start.step_id) for start in starts for place in range(60)]
    create(real, *starts, *fans, max_parallel=4)

    assert prefetch(real, 64) is None
