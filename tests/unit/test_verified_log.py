"""A log of which a line was changed, dropped, added or moved says so, and where."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from schemas import codec
from tasks.base.log_chain import digest_line
from tasks.record import chain
from tasks.record.chain import MAX_LINE_BYTES, Anchor, Fault, check
from worker.record import log_file

END = ["", "EXECUTING", "COMPLETED"]


def line(version: int, prev: bytes | None = None, moves: Sequence[Any] = (), **more: Any) -> bytes:
    link = {"prev": digest_line(prev)} if prev else {}
    return codec.dumps({"version": version, "now": 1000 + version, **link, **more, "in": [], "moves": moves})


def order(version: int, prev: bytes) -> bytes:
    """The line of a command that an ended plan has refused."""
    said = [["command", {"command": "pause"}, "the plan has ended"]]
    return codec.dumps(codec.loads(line(version, prev)) | {"in": said})


def log(count: int, plan: str = "a", *, versions: Sequence[int] | None = None) -> list[bytes]:
    """The log of a plan that has ended."""
    lines: list[bytes] = []
    for number, version in enumerate(versions or range(1, count + 1), 1):
        moves = [END] if number == count else [[f"{plan}-{number}", "PENDING", "ACTIVE"]]
        lines.append(line(version, lines[-1] if lines else None, moves))
    return lines


def anchor(lines: Sequence[bytes]) -> Anchor:
    return Anchor(digest_line(lines[-1]))


def fault(lines: Sequence[bytes], end: Anchor | None = None) -> tuple[int, str] | None:
    found = check(lines, end).fault
    return (found.line, found.what) if found else None


LOGS = st.builds(
    lambda gaps: log(len(gaps), versions=[sum(gaps[: at + 1]) - gaps[0] + 1 for at in range(len(gaps))]),
    st.lists(st.sampled_from([1, 1, 1, 1, 2]), min_size=3, max_size=12),
)


def change_byte(draw: st.DrawFn, lines: list[bytes]) -> list[bytes]:
    text = bytearray(b"\n".join(lines))
    text[draw(st.integers(0, len(text) - 1))] ^= draw(st.integers(1, 255))
    return bytes(text).split(b"\n")


def drop(draw: st.DrawFn, lines: list[bytes]) -> list[bytes]:
    first = draw(st.integers(0, len(lines) - 2))
    return lines[:first] + lines[draw(st.integers(first + 1, len(lines) - 1)) :]


def add(draw: st.DrawFn, lines: list[bytes]) -> list[bytes]:
    at, other = draw(st.integers(0, len(lines))), log(len(lines) + 1, "b")
    forged = line(draw(st.integers(1, 20)), draw(st.sampled_from([None, *lines])), by="1.0")
    new = draw(st.sampled_from([*lines, *other, forged, b"", b"{}", b"[]", b"\xff"]))
    return [*lines[:at], new, *lines[at:]]


def move(draw: st.DrawFn, lines: list[bytes]) -> list[bytes]:
    lines.insert(draw(st.integers(0, len(lines) - 1)), lines.pop(draw(st.integers(0, len(lines) - 1))))
    return lines


def swap(draw: st.DrawFn, lines: list[bytes]) -> list[bytes]:
    one, other = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
    lines[one], lines[other] = lines[other], lines[one]
    return lines


def truncate(draw: st.DrawFn, lines: list[bytes]) -> list[bytes]:
    text = b"\n".join(lines)
    return text[: draw(st.integers(0, len(text) - 1))].split(b"\n")


def splice(draw: st.DrawFn, lines: list[bytes]) -> list[bytes]:
    at = draw(st.integers(1, len(lines) - 1))
    return lines[:at] + log(len(lines), "b")[at:]


def replace_all(draw: st.DrawFn, lines: list[bytes]) -> list[bytes]:
    at = draw(st.integers(0, len(lines) - 1))
    made: list[bytes] = lines[:at]
    for raw in lines[at:]:
        said = codec.loads(raw) | {"now": 5, **({"prev": digest_line(made[-1])} if made else {})}
        made.append(codec.dumps(said))
    return made


WAYS = [change_byte, drop, add, move, swap, truncate, splice, replace_all]


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_is_done_to_a_log_is_found_with_the_head_of_its_end(way: Any, data: st.DataObject) -> None:
    lines = data.draw(LOGS)
    end = anchor(lines)
    changed = way(data.draw, [*lines])
    assume(changed != lines)

    assert check(lines, end).result == "unchanged"
    assert check(changed, end).result == "tampered"


@pytest.mark.parametrize("way", [change_byte, drop, add, move, swap, splice])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_without_a_head_all_is_found_but_what_only_the_last_line_tells(way: Any, data: st.DataObject) -> None:
    lines = data.draw(LOGS)
    changed = way(data.draw, [*lines])
    assume(changed != lines)
    assume(changed[: len(lines) - 1] != lines[:-1])  # the last line was changed, or a line written behind it

    assert check(lines).result == "consistent"
    assert check(changed).result == "tampered"


@settings(max_examples=60, deadline=None)
@given(st.integers(3, 12).flatmap(lambda count: st.tuples(st.just(count), st.integers(1, count - 1))), st.data())
def test_a_changed_line_is_named(size: tuple[int, int], data: st.DataObject) -> None:
    lines, place = log(size[0]), size[1]
    raw = bytearray(lines[place - 1])
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    assume(b"\n" not in raw)
    lines[place - 1] = bytes(raw)

    assert fault(lines) == (place, "changed")


@pytest.mark.parametrize("count", [4, 9])
def test_the_first_line_out_of_its_place_is_named(count: int) -> None:
    lines = log(count)
    foreign = log(count, "b")
    for at in range(count - 1):
        assert fault(lines[:at] + lines[at + 1 :]) == (at + 1, "dropped")
        assert fault([*lines[:at], foreign[-1], *lines[at:]]) == (at + 1, "added")
        for later in range(at + 1, count):
            one, other = lines[at], lines[later]
            rest = lines[:at] + lines[at + 1 :]
            assert fault([*rest[:later], one, *rest[later:]]) == (at + 1, "moved")
            rest = lines[:later] + lines[later + 1 :]
            assert fault([*rest[:at], other, *rest[at:]]) == (at + 1, "moved")
            swapped = [*lines[:at], other, *lines[at + 1 : later], one, *lines[later + 1 :]]
            assert fault(swapped) == (at + 1, "moved")
            assert fault([*lines[:at], lines[later], *lines[at:]]) == (at + 1, "added")
            assert fault([*lines[: later + 1], lines[at], *lines[later + 1 :]]) == (later + 2, "added")


def test_a_line_that_claims_to_begin_a_chain_is_found_by_the_one_that_does_not_continue_it() -> None:
    lines = log(6)

    assert fault([*lines[:3], line(4, by="0.1"), *lines[3:]]) == (4, "added")
    assert fault([*lines[:3], line(4, by="0.1")]) == (4, "changed")


def test_a_log_that_was_cut_is_found_with_its_head() -> None:
    lines = log(6)

    assert check(lines[:4]).result == "consistent"
    assert fault(lines[:4], anchor(lines)) == (5, "dropped")
    assert fault(lines[:4], Anchor(digest_line(lines[-1]), 6)) == (5, "dropped")
    assert fault([*lines[:5], lines[5][:-9]]) == (6, "changed")
    assert fault([]) == (1, "dropped")


def test_nothing_may_follow_the_end_of_a_plan_but_a_plan_that_goes_on_grows() -> None:
    lines = log(6)
    forged = line(9, lines[-1])

    assert fault([*lines, forged], anchor(lines)) == (7, "added")
    assert check(lines, anchor(lines[:4])).tied == 4
    assert check(lines, anchor(lines[:4])).result == "consistent"


def test_commands_that_an_ended_plan_refuses_follow_its_end_and_nothing_else_does() -> None:
    lines = log(6)
    refused = order(9, lines[-1])
    honest = [*lines, refused, order(10, refused)]
    outcome = codec.dumps(codec.loads(order(11, honest[-1])) | {"in": [["outcome", 1, None, {}]]})
    moved = codec.dumps(codec.loads(order(11, honest[-1])) | {"moves": [["a", "DONE", "FAILED"]]})

    found = check(honest, anchor(lines))
    assert (found.fault, found.result, found.tied) == (None, "consistent", 6)
    assert check(honest, anchor(honest)).result == "unchanged"
    for forged in (outcome, moved):
        assert fault([*honest, forged], anchor(lines)) == (9, "added")


def test_another_log_is_told_from_this_one_by_its_head() -> None:
    found = check(log(5, "b"), anchor(log(5)))

    assert found.fault == Fault(
        5,
        "changed",
        "No line has the head as its digest: a line was changed and the later digests were rewritten, or this is the "
        "log of another plan.",
    )


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"null", b"7", b"\xff\xfe", b"[" * 5000, b'{"version":true,"moves":[]}'),
        *(b'{"version":1,"moves":[7,[1],["",1,[]]]}', b'{"version":1,"prev":7,"moves":[]}'),
        b'{"version":99999999999999999999,"moves":[]}',
    ],
)
def test_a_line_of_any_shape_is_read(raw: bytes) -> None:
    check([raw, raw], Anchor("x"))


def test_a_line_that_is_too_long_is_none() -> None:
    lines = log(3)
    lines[1] = line(2, lines[0], [["x" * MAX_LINE_BYTES]])

    assert fault(lines) == (2, "changed")


def test_lines_that_nobody_wrote_are_no_copies_and_all_lines_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain, "BEHIND", 5)
    lines = log(4)

    found = check([*lines[:2], *[b""] * 20])

    assert found.fault is not None
    assert (found.fault.line, found.fault.what, found.lines) == (3, "changed", 22)
    assert fault([*lines[:2], b"", b"", *lines[2:]]) == (3, "added")


def test_a_line_beyond_all_measure_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "MAX_LINE_BYTES", 1000)
    file = tmp_path / "log"
    file.write_bytes(b"x" * 5000 + b"\nsecond\n" + b"y" * 1001 + b"\n" + b"z" * 3006)

    found = [*log_file.read_lines(str(file))]

    assert [each[:6] for each in found] == [b"xxxxxx", b"second", b"yyyyyy", b"zzzzzz"]
    assert [len(each) > 1000 for each in found] == [True, False, True, True]
