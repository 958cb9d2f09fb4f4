"""Finds the lines that a change adds, in bounded time: the author of a change may make it expensive to compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from tasks.toolchain.integrity.finding import TextChange

MOST_PAIRS = 250_000  # pairs of different lines that are compared one by one
MOST_EQUAL = 30_000  # among these, pairs of equal lines: each may be compared again for each line


def added_lines(change: TextChange) -> frozenset[int]:
    """Return the numbers, from 1 on, of the lines that a change adds or rewrites.

    If too many lines differ for an exact comparison, only lines count that occur more often than before.
    """
    was, now = (change.before or "").splitlines(), (change.after or "").splitlines()
    shorter = min(len(was), len(now))
    first = next((at for at in range(shorter) if was[at] != now[at]), shorter)
    last = next((at for at in range(shorter - first) if was[-1 - at] != now[-1 - at]), shorter - first)
    was, now = was[first : len(was) - last], now[first : len(now) - last]
    often = Counter(now)
    if len(was) * len(now) > MOST_PAIRS or sum(often[line] for line in was) > MOST_EQUAL:
        return frozenset(first + number for number, _ in more_often(now, was))
    codes = SequenceMatcher(None, was, now, autojunk=False).get_opcodes()
    return frozenset(
        first + line
        for tag, _, __, start, end in codes
        if tag in ("insert", "replace")
        for line in range(start + 1, end + 1)
    )


def more_often(lines: Sequence[str], others: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines that occur in `lines` more often than in `others`, with their numbers from 1 on."""
    left = Counter(others)
    for number, line in enumerate(lines, 1):
        left[line] -= 1
        if left[line] < 0:
            yield number, line
