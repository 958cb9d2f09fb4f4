"""Counts earlier attempts at a gap, from the records of a goal and the plan history.

Failures in a row are counted for each gap. Only another end of the same gap ends the row; other gaps do not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

from schemas.kinds.gap_report import Gap, IterationOutcome, IterationRecord
from tasks.strategies.gap_report.analysis import MAX_DESCRIPTION, category_of
from tasks.text.fields import as_written, fit

RECENT = 5  # records that count failures of a gap; more if an operator's limit is higher
MAX_FAILURES = 3  # failures of one gap in a row, by default; then another gap comes first
MAX_CATEGORY = 200
COUNTER = "iterations"
IN_A_ROW = "failed"  # a counter of iterations with any gap

_NUMBER = re.compile(r"iter-(\d{4,18})-\d{8}-\d{6}")
_FAILED = (IterationOutcome.FAILURE, IterationOutcome.ROLLBACK)


@dataclass(frozen=True, slots=True)
class Past:
    """The history of one gap: its failures in a row, whether it ever failed, and the reason of the last failure."""

    streak: int = 0  # failures in a row
    failed: bool = False  # in the recent records, or in an earlier plan
    lesson: str = ""  # explanation of the last failure
    limit: int = MAX_FAILURES

    @property
    def exhausted(self) -> bool:
        """Return whether the gap failed so often in a row that another gap comes first."""
        return self.streak >= self.limit


@dataclass(frozen=True)
class GapHistory:
    """The records of a gap report's iterations, the oldest first, and the counters that earlier plans left."""

    records: tuple[IterationRecord, ...]
    counters: Mapping[str, int]  # of earlier plans
    limit: int = MAX_FAILURES

    @classmethod
    def of(
        cls, records: Sequence[IterationRecord], counters: Mapping[str, int], limit: int = MAX_FAILURES
    ) -> GapHistory:
        """Return the history, with records in the order of time, and only the newest record of each iteration.

        If records have the same time, the first in the list is the newest.
        """
        newest: dict[str, IterationRecord] = {}
        for record in sorted(records, key=lambda record: record.timestamp, reverse=True):
            newest.setdefault(record.iteration_id, record)
        return cls(tuple(newest.values())[::-1], counters, limit)

    def of_gap(self, gap: Gap) -> Past:
        """Return the history of `gap` by its last five records.

        A success or a PARTIAL iteration ends a row of failures. There are two counts of these failures: by the records
        and by the planner. The larger one counts.
        """
        streak, failed, lesson = 0, False, ""
        remembered = own = self.counters.get(field_of(gap), 0)
        for record in self._by_gap.get(key(gap), ()):
            if record.outcome in _FAILED:
                streak, failed, lesson = streak + 1, True, _lesson(record)
            else:
                streak = 0
                if number := _NUMBER.fullmatch(record.iteration_id):  # only iterations after it can have failed since
                    own = min(remembered, max(self.counted - int(number[1]), 0))
        return Past(max(streak, own), failed or remembered > 0, lesson, self.limit)

    @cached_property
    def failed_in_a_row(self) -> int:
        """The number of failed iterations in a row, of any gaps: by the records or by the planner, the larger one."""
        streak, own = 0, self.counters.get(IN_A_ROW, 0)
        for record in self.records:
            streak = streak + 1 if record.outcome in _FAILED else 0
            if not streak and (number := _NUMBER.fullmatch(record.iteration_id)):
                own = min(own, max(self.counted - int(number[1]), 0))
        return max(streak, own)

    @property
    def counted(self) -> int:
        """The number of iterations that the planner has planned for this repository."""
        return self.counters.get(COUNTER, 0)

    @property
    def next_number(self) -> int:
        """The number of the next iteration; it is right even if old records are missing."""
        return max(self.counted, len(self.records)) + 1

    @cached_property
    def _by_gap(self) -> Mapping[tuple[str, str], list[IterationRecord]]:
        index: dict[tuple[str, str], list[IterationRecord]] = {}
        for record in self.records[-max(RECENT, self.limit) :]:
            index.setdefault(key(record.gap_addressed), []).append(record)
        return index


def key(gap: Gap) -> tuple[str, str]:
    """Return the identity of a gap: its category and its description, both as the document of an iteration has them."""
    return fit(category_of(gap), MAX_CATEGORY).casefold(), fit(gap.description, MAX_DESCRIPTION, as_written)


def field_of(gap: Gap) -> str:
    """Return the name of the counter in the plan history that counts the failures of this gap."""
    words = "\0".join(key(gap)).encode(errors="surrogatepass")
    return f"gap:{blake2b(words, digest_size=8).hexdigest()}"


def _lesson(record: IterationRecord) -> str:
    """Return why an iteration failed, as its record states: the error, the verification or the notes. Untrusted."""
    error = record.execution and record.execution.error_message
    summary = record.verification and record.verification.summary
    return next((text for text in (error, summary, record.notes) if text and text.strip()), "")
