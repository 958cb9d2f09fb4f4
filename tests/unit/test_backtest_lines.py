"""How much of what was pasted as a backtest is read: errors that are not told cost no time."""

from __future__ import annotations

from schemas import codec
from tests.support.page import EARLIER
from worker.gateway.page import backtest_lines
from worker.gateway.page.backtest_lines import MOST_ERRORS, MOST_READ

GOOD = codec.dumps(EARLIER).decode()
MORE = f"There are more lines with errors. Nothing behind line {MOST_ERRORS + 2} was read."


def test_nothing_is_read_where_more_errors_are_certain_than_are_told() -> None:
    found = backtest_lines.read("\n".join([GOOD, *["{}"] * (MOST_ERRORS + 1), GOOD, *["{}"] * 50_000]))

    assert found.tally.plans == 1
    assert [each.partition(" is no line")[0] for each in found.errors] == [
        *(f"Line {number}" for number in range(2, MOST_ERRORS + 2)), MORE
    ]  # fmt: skip


def test_as_many_errors_as_are_told_keep_no_line_from_the_table() -> None:
    found = backtest_lines.read("\n".join([*["{}"] * MOST_ERRORS, GOOD]))

    assert (found.tally.plans, len(found.errors)) == (1, MOST_ERRORS)
    assert MORE not in found.errors


def test_no_more_lines_are_read_than_a_form_takes_of_a_backtest() -> None:
    found = backtest_lines.read('{"why": "no log"}\n\n' * (MOST_READ + 2))

    assert len(found.unread) == MOST_READ
    assert found.errors == [f"Line {2 * MOST_READ + 1} and those behind it were not read: at most {MOST_READ:,} are."]


def test_so_many_lines_and_no_more_are_all_read() -> None:
    assert backtest_lines.read('{"why": "no log"}\n' * MOST_READ).errors == []
