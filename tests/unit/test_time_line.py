"""Attempts over time, as the log of a plan tells them, and the bars that are drawn of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.plan import StepActivity, StepView
from worker.gateway.page import gantt
from worker.render.time_line import AttemptTimes, attempts_of

MINUTE, DAY = 60_000, 86_400_000


def step(name: str, *depends_on: str, **more: Any) -> StepView:
    known = {"allowed_files": (), "verify": "", "risk_level": "LOW", "mode": "patch", "type": "PATCH"}
    return StepView(
        step_id=name, state="DONE", attempt=1, depends_on=depends_on, queue="default", title=name, **{**known, **more}
    )


def line(now: int, *came_in: list[Any], moves: tuple[tuple[str, str, str], ...] = (), **more: Any) -> dict[str, Any]:
    return {"version": now, "now": now, "in": list(came_in), "moves": list(moves), **more}


def outcome(name: str, number: int | None = 1, **said: Any) -> list[Any]:
    return ["outcome", number, "lease", {"step_id": name, "success": True, **said}]


def told(lines: list[dict[str, Any]], *steps: StepView, **doing: StepActivity) -> dict[tuple[str, int], AttemptTimes]:
    return {(each.step_id, each.attempt): each for each in attempts_of(lines, {}, steps, doing)}


STARTED = ("PENDING", "ACTIVE")
DONE = ("ACTIVE", "DONE")


def test_a_step_waits_for_those_before_it_then_lies_in_its_queue_then_runs() -> None:
    found = told(
        [
            line(0, moves=(("", "READY", "EXECUTING"), ("a", *STARTED))),
            line(100, outcome("a", controller="ctl-1", metrics={"duration_ms": 60}), moves=(("a", *DONE),)),
            line(130, moves=(("b", *STARTED),)),
            line(200, outcome("b", metrics={"duration_ms": 1e9}), moves=(("b", *DONE),)),
        ],
        step("a"),
        step("b", "a"),
    )

    first, second = found["a", 1], found["b", 1]
    assert (first.controller, first.free, first.queued, first.began, first.ended) == ("ctl-1", 0, 0, 40, 100)
    assert (second.free, second.queued, second.began, second.ended) == (
        100,
        130,
        130,
        200,
    )  # it ran no longer than that


def test_a_later_attempt_is_queued_when_its_pause_or_its_pre_step_is_over() -> None:
    failed = ("a", "ACTIVE", "ACTIVE")
    found = told(
        [
            line(0, moves=(("", "READY", "EXECUTING"), ("a", *STARTED))),
            line(10, outcome("a"), moves=(failed,)),
            line(50, ["backoff over", ["a"]]),
            line(60, outcome("a", None), moves=(failed,), revisions=[{"diff": {"inserted": "a-mend"}}]),
            line(70, moves=(("a-mend", *STARTED),)),
            line(90, outcome("a-mend"), moves=(("a-mend", *DONE),)),
            line(99, outcome("a", 3), moves=(("a", *DONE),)),
        ],
        step("a"),
        step("a-mend", inserted_by="a"),
    )

    assert [(each.free, each.queued, each.ended) for each in found.values() if each.step_id == "a"] == [
        (0, 0, 10), (10, 50, 60), (60, 90, 99)
    ]  # fmt: skip
    assert found["a-mend", 1].free == 60


def test_an_attempt_that_no_outcome_ended_is_told_by_its_lease_or_by_the_end_of_its_step() -> None:
    found = told(
        [
            line(0, moves=(("a", *STARTED), ("b", *STARTED), ("c", *STARTED))),
            line(40, ["expired", "a", 1, True, "silent"], around={"leases": {"a": [1, 7, 20, "ctl-9", 0]}}),
            line(50, outcome("b", released={"reason": "full"}), ["handed back", "b", 1, "ctl-2", 5]),
            line(60, moves=(("c", "ACTIVE", "FAILED"), ("c", "FAILED", "HALTED"), ("", "EXECUTING", "HALTED"))),
        ],
        *map(step, "abc"),
    )

    assert [(each.controller, each.began, each.ended) for each in found.values()] == [
        ("ctl-9", 7, 40), ("ctl-2", 5, 50), ("", None, 60)
    ]  # fmt: skip
    assert found["c", 1].result == "HALTED"


def test_what_is_in_flight_goes_on_until_now() -> None:
    at = "1970-01-01T00:00:00.050Z"
    (found,) = told(
        [line(0, moves=(("a", *STARTED),))], step("a"), a=StepActivity(kind="running", since=at, controller="c")
    ).values()

    assert (found.queued, found.began, found.ended, found.ran_ms(90)) == (0, 50, None, 40)


def test_days_in_which_nothing_happens_take_no_room_and_are_marked() -> None:
    attempts = [spent("a", 0, MINUTE), spent("b", 3 * DAY, 3 * DAY + MINUTE)]

    drawn = gantt.lay_out(attempts, 3 * DAY + MINUTE)

    assert drawn is not None
    ((pause, length),) = drawn.pauses
    assert (length, pause.width < 10) == ("2 d 23 h", True)
    assert [lane.bars[-1].width > 40 for lane in drawn.groups[0].lanes] == [True, True]


def spent(name: str, begin: int, end: int | None, controller: str = "c", wait: int = 0) -> AttemptTimes:
    return AttemptTimes(name, 1, controller, begin, begin + wait, begin + wait, end, "DONE", "", {})


TIMES = st.integers(0, 10 * DAY)


@given(st.lists(st.tuples(TIMES, TIMES, TIMES, st.booleans()), min_size=1, max_size=30), st.booleans())
def test_every_bar_is_on_the_line_and_none_is_out_of_order(
    found: list[tuple[int, int, int, bool]], together: bool
) -> None:
    now = 30 * DAY + 1
    attempts = [
        spent(f"s{number}", begin, begin + wait + ran if over else None, f"c{number % 3}", wait)
        for number, (begin, wait, ran, over) in enumerate(found)
    ]

    drawn = gantt.lay_out(attempts, now, together=together)

    assert drawn is not None
    bars = [lane.bars for group in drawn.groups for lane in group.lanes]
    for bar in [*(bar for some in bars for bar in some), *(bar for group in drawn.groups for bar in group.together)]:
        assert 0 <= bar.x <= 100
        assert 0 < bar.width <= 100
        assert bar.x + bar.width <= 100.02
    for lane in bars:
        assert [bar.x for bar in lane] == sorted(bar.x for bar in lane)
    assert sum(group.count for group in drawn.groups) == len(attempts)
    assert [place for place, _ in drawn.ticks] == [0, 25, 50, 75, 100]


def of_two(count: int) -> list[AttemptTimes]:
    """Attempts one after the other, of two controllers in turn."""
    return [spent(f"s{number}", number * MINUTE, (number + 1) * MINUTE, f"c{number % 2}") for number in range(count)]


def test_a_page_has_some_lanes_and_the_figures_of_all_attempts() -> None:
    drawn = gantt.lay_out(of_two(500), DAY, first=100, most=200)

    assert drawn is not None
    assert [(group.controller, group.count, group.ran) for group in drawn.groups] == [
        ("c0", 250, "4 h 10 min"), ("c1", 250, "4 h 10 min")
    ]  # fmt: skip
    assert [group.results for group in drawn.groups] == [(("DONE", 250),)] * 2
    assert [len(group.lanes) for group in drawn.groups] == [100, 100]
    assert drawn.groups[0].lanes[0].attempt.step_id == "s100"
    assert (drawn.first, drawn.last, drawn.count) == (100, 300, 500)


def test_a_controller_without_a_lane_on_a_page_is_not_on_it() -> None:
    drawn = gantt.lay_out([*of_two(2), spent("late", DAY, DAY + MINUTE, "c7")], DAY + MINUTE, first=2, most=2)

    assert drawn is not None
    assert [group.controller for group in drawn.groups] == ["c7"]


@pytest.mark.parametrize(
    ("first", "shown"), [(0, (0, 200)), (450, (450, 500)), (499, (499, 500)), (500, (400, 500)), (10**6, (400, 500))]
)
def test_beyond_the_last_attempt_stands_the_last_page(first: int, shown: tuple[int, int]) -> None:
    drawn = gantt.lay_out(of_two(500), DAY, first=first, most=200)

    assert drawn is not None
    assert (drawn.first, drawn.last) == shown
    assert sum(len(group.lanes) for group in drawn.groups) == shown[1] - shown[0]


def test_lengths_are_told_in_their_two_largest_units() -> None:
    told_lengths = {ms: gantt.length(ms) for ms in (0, 12, 1500, 59_999, 61_000, 3_600_000, 90_000_000)}

    assert list(told_lengths.values()) == ["0 s", "12 ms", "1.5 s", "59 s", "1 min 1 s", "1 h", "1 d 1 h"]


def test_of_an_attempt_that_nobody_said_began_no_time_in_the_queue_is_told() -> None:
    lines = [line(0, moves=(("a", *STARTED),)), line(95, outcome("a"), moves=(("a", *DONE),))]

    drawn = gantt.lay_out(list(told(lines, step("a")).values()), 95)

    assert drawn is not None
    (lane,) = drawn.groups[0].lanes
    assert lane.is_unclear
    assert lane.label == "waited 0 s, in its queue or at work 95 ms: the start was not reported"
