"""Where a reader of events is: written, read, and nothing but what was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.gateway.event_position import LARGEST, NO_EPOCH, Position, WrongPosition, decode
from worker.gateway.event_streams import Ends, resume

NUMBER = st.integers(0, LARGEST)
POSITIONS = st.builds(
    Position,
    st.binary(min_size=len(NO_EPOCH), max_size=len(NO_EPOCH)),
    st.lists(st.tuples(NUMBER, NUMBER), min_size=1, max_size=256).map(tuple),
)
NOW, LATER = b"epoch 01", b"epoch 02"


@given(POSITIONS)
def test_a_position_that_is_written_is_read(position: Position) -> None:
    assert decode(position.encode()) == position


@given(POSITIONS, st.data())
def test_a_position_that_is_changed_anywhere_is_none(position: Position, data: st.DataObject) -> None:
    text = position.encode()
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("ABCXYZabcxyz0189-_=+ \n").filter(lambda letter: letter != text[at]))

    with pytest.raises(WrongPosition):
        decode(text[:at] + other + text[at + 1 :])


@given(st.one_of(st.text(max_size=40), POSITIONS.map(lambda position: position.encode()[:-1])))
def test_any_other_text_is_no_position(text: str) -> None:
    with pytest.raises(WrongPosition):
        decode(text)


def test_a_text_that_is_too_long_is_not_looked_at() -> None:
    with pytest.raises(WrongPosition):
        decode("A" * 1_000_000)


@pytest.mark.parametrize(
    ("epoch", "ends", "goes_on", "reason"),
    [
        (NOW, [Ends((1, 0), (5, 0), is_cut=True)], (3, 0), None),
        (NOW, [Ends((3, 1), (5, 0), is_cut=True)], (3, 0), None),  # the very next one
        (NOW, [Ends((4, 0), (5, 0), is_cut=False)], (3, 0), None),  # there was none before it
        (NOW, [Ends((4, 2), (5, 0), is_cut=True)], (4, 1), "cut"),
        (NOW, [Ends((1, 0), (2, 7), is_cut=True)], (2, 7), "rolled_back"),
        (LATER, [Ends((1, 0), (5, 0), is_cut=True)], (3, 0), "rolled_back"),
        (NO_EPOCH, [Ends((1, 0), (5, 0), is_cut=True)], (3, 0), None),  # no worker has named the data
    ],
)
def test_a_reader_goes_on_where_it_was_and_hears_of_what_is_missing(
    epoch: bytes, ends: list[Ends], goes_on: tuple[int, int], reason: str | None
) -> None:
    assert resume(Position(NOW, ((3, 0),)), epoch, ends) == (Position(epoch, (goes_on,)), reason)


def test_a_reader_of_another_number_of_partitions_goes_on_at_the_ends() -> None:
    ends = [Ends((1, 0), (5, 0), is_cut=True), Ends((1, 0), (7, 0), is_cut=True)]

    assert resume(Position(NOW, ((3, 0),)), NOW, ends) == (Position(NOW, ((5, 0), (7, 0))), "partitions")
