"""What the planner knows of earlier attempts at a gap: from the records of a goal, and from its own memory.

A streak belongs to one gap, and only that gap's success ends it: what runs in between does not (seed 000, step 2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from schemas.gap import Gap, IterationOutcome, IterationRecord

MAX_FAILURES = 3  # in a row, of one gap; then another gap comes first
COUNTER = "iterations"

_FAILED = (IterationOutcome.FAILURE, IterationOutcome.ROLLBACK)


@dataclass(frozen=True, slots=True)
class Past:
    """How it went with one gap so far: failures in a row, whether it ever failed, and what was said of the last."""

    streak: int = 0
    failed: bool = False
    lesson: str = ""

    @property
    def exhausted(self) -> bool:
        """Whether another gap goes first."""
        return self.streak >= MAX_FAILURES


@dataclass(frozen=True, slots=True)
class History:
    """The records in the order in which they happened, and the planner's own memory."""

    records: tuple[IterationRecord, ...]
    recall: Mapping[str, int]

    @classmethod
    def of(cls, records: Sequence[IterationRecord], recall: Mapping[str, int]) -> History:
        """Sort records by time; of those of one moment the one that is listed first is the newest."""
        oldest_first = records[::-1]
        return cls(tuple(sorted(oldest_first, key=lambda record: record.timestamp)), recall)

    def of_gap(self, gap: Gap) -> Past:
        """Tell how it went with `gap`; of two counts of failures the larger one holds."""
        streak, failed, lesson = 0, False, ""
        for record in self.records:
            if key(record.gap_addressed) != key(gap):
                continue
            if record.outcome in _FAILED:
                streak, failed, lesson = streak + 1, True, _lesson(record)
            elif record.outcome is IterationOutcome.SUCCESS:
                streak = 0
        remembered = self.recall.get(field_of(gap), 0)
        return Past(max(streak, remembered), failed or remembered > 0, lesson)

    @property
    def counted(self) -> int:
        """How many iterations the planner itself has planned."""
        return self.recall.get(COUNTER, 0)

    @property
    def next_number(self) -> int:
        """The number of the next iteration; a history that was cut does not stop the count."""
        return max(self.counted, len(self.records)) + 1


def key(gap: Gap) -> tuple[str, str]:
    """Tell gaps apart: by category and description."""
    return gap.category, gap.description


def field_of(gap: Gap) -> str:
    """Name the field under which the planner remembers this gap's failures."""
    words = "\0".join(key(gap)).encode(errors="surrogatepass")
    return f"gap:{blake2b(words, digest_size=8).hexdigest()}"


def _lesson(record: IterationRecord) -> str:
    """Take what a failed iteration said of itself: its error, its verification, its notes. Untrusted."""
    told = (
        record.execution and record.execution.error_message,
        record.verification and record.verification.summary,
        record.notes,
    )
    return next((text for text in told if text and text.strip()), "")
