"""Where two logs begin to tell something else."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from worker.render.comparison import Happening, happenings_of, part


def line(now: int, *outcomes: str) -> dict[str, Any]:
    came_in = [["outcome", 1, "l", {"step_id": name, "success": True}] for name in outcomes]
    return {"now": now, "in": came_in, "moves": [[name, "ACTIVE", "DONE"] for name in outcomes]}


def test_times_and_ids_make_no_difference() -> None:
    one = [{"now": 1000, "in": [["wall clock over", 1800001800000]], "moves": []}]
    other = [{"now": 9000, "in": [["wall clock over", 1900001800000]], "moves": []}]

    assert part(happenings_of(one), happenings_of(other)) is None


def test_logs_part_where_the_first_of_them_tells_something_else() -> None:
    parting = part(happenings_of([line(1, "a"), line(2, "b")]), happenings_of([line(1, "a"), line(2, "c")]))

    assert parting is not None
    assert [each.text for each in parting.before] == ["outcome of a: success", "a ACTIVE > DONE"]
    assert (parting.one[0].text, parting.other[0].text) == ("outcome of b: success", "outcome of c: success")


TOLD = st.lists(st.sampled_from("abc"), max_size=8)


@given(TOLD, TOLD)
def test_both_tell_the_same_up_to_where_they_part_and_not_there(one: list[str], other: list[str]) -> None:
    parting = part([Happening("", each) for each in one], [Happening("", each) for each in other])

    if parting is None:
        assert one == other
    else:
        number = parting.number
        assert one[:number] == other[:number]
        assert one[number : number + 1] != other[number : number + 1]
