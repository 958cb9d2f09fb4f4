"""Makes gaps from a project's own statements: its inbox, its roadmap, its tools.

If an inbox gap and a roadmap gap are equal, the inbox gap counts, because a person wrote it. Versions are compared as
numbers, so that 0.10 is not 0.1, and v0.1 is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from schemas.kinds.gap_report import MAX_EVIDENCE, Gap, GapReport, InboxItem, Priority
from tasks.strategies.gap_report.evidence import QUALITY_FAILED, runs_tests, tool_of

UNKNOWN = "unknown"
INBOX = "inbox"
MAX_DESCRIPTION = 4096

_CATEGORIES = ("quality", "inbox", "roadmap")  # of gaps of one priority, in this order; unknown ones last
_PRIORITIES = tuple(Priority)
_WORD = re.compile(r"[^\W_]+")
_VERSION = re.compile(r"[vV]?(\d{1,6}(?:\.\d{1,6})*)")
_STRUCK = re.compile(r"~~(?=\S).{0,999}?\S~~|<(del|s|strike)>.{0,999}?</\1>", re.IGNORECASE)
_NOTE = re.compile(r"\W*(?:v?\d+(?:\.\d+)+\W*)?(?:[(:\u2013\u2014-].*)?")  # a note next to struck text
# The least version that is less urgent than the row before it.
_BY_VERSION = (((0, 2), Priority.URGENT), ((0, 3), Priority.HIGH), ((0, 5), Priority.MEDIUM))


@dataclass(frozen=True, slots=True)
class RoadmapItem:
    """One item of a roadmap; an item without a version never counts as the next one."""

    version: str
    description: str
    completed: bool = False


def without_struck(text: str) -> str:
    """Return the text without struck parts (`~~...~~`); empty if only a note is left."""
    left, count = _STRUCK.subn("", text)
    if not count:
        return text
    return "" if _NOTE.fullmatch(left) else " ".join(left.split())


def version_key(version: str) -> tuple[int, ...]:
    """Return the numbers of a version without zeros at the end; an empty tuple if the text is no version."""
    found = _VERSION.fullmatch(version.strip())
    numbers = [int(part) for part in found[1].split(".")] if found else []
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def lowest_incomplete(items: Iterable[RoadmapItem]) -> str:
    """Return the lowest version with an incomplete item."""
    versions = {item.version for item in items if not item.completed and version_key(item.version)}
    return min(versions, key=lambda each: (version_key(each), each), default=UNKNOWN)


def quality_gap(tool: str, output: str, version: str) -> Gap:
    """Return the gap of a quality tool that failed: always urgent."""
    return Gap(
        category="quality",
        description=f"{QUALITY_FAILED}{tool}"[:MAX_DESCRIPTION],
        priority=Priority.URGENT,
        roadmap_version=version,
        evidence=output[:MAX_EVIDENCE],
    )


def inbox_gap(item: InboxItem) -> Gap:
    """Return the gap of an inbox item; it never has LOW priority, because a person wrote it."""
    priority = Priority.MEDIUM if item.priority is Priority.LOW else item.priority
    return Gap(category=INBOX, description=wish(item), priority=priority, roadmap_version=INBOX, evidence=item.why)


def wish(item: InboxItem) -> str:
    """Return the title and description of an inbox item as one text."""
    return f"{item.title}: {item.what}"[:MAX_DESCRIPTION] if item.what else item.title


def roadmap_gap(item: RoadmapItem) -> Gap:
    """Return the gap of a roadmap item: the nearer its version, the more urgent."""
    version = version_key(item.version)
    urgency = (priority for bound, priority in _BY_VERSION if version and version < bound)
    return Gap(
        category="roadmap",
        description=item.description[:MAX_DESCRIPTION],
        priority=next(urgency, Priority.LOW),
        roadmap_version=item.version,
        evidence=f"The roadmap's item of {item.version} is not completed.",
    )


def report(gaps: Iterable[Gap]) -> GapReport:
    """Return a gap report: the gaps in order, without those that repeat an inbox gap; the first is most critical."""
    ordered = sort_gaps(drop_doubles(tuple(gaps)))
    return GapReport(gaps=ordered, most_critical=ordered[0] if ordered else None)


def sort_gaps(gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """Return the gaps by priority, then category, then failing tests first; equal gaps keep their order."""

    def rank(gap: Gap) -> tuple[int, int, bool]:
        category = category_of(gap)
        place = _CATEGORIES.index(category) if category in _CATEGORIES else len(_CATEGORIES)
        return _PRIORITIES.index(gap.priority), place, not is_of_tests(gap)

    return tuple(sorted(gaps, key=rank))


def drop_doubles(gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    """Return the gaps without roadmap gaps whose words contain, or are part of, the words of an inbox gap."""
    wishes = [words for gap in gaps if category_of(gap) == INBOX and (words := _words_of(gap)).strip()]

    def is_wished(gap: Gap) -> bool:
        words = _words_of(gap)
        return bool(words.strip()) and any(words in wish or wish in words for wish in wishes)

    return tuple(gap for gap in gaps if category_of(gap) != "roadmap" or not is_wished(gap))


def is_of_tests(gap: Gap) -> bool:
    """Return whether a gap is about failing tests."""
    return category_of(gap) == "quality" and runs_tests(tool_of(gap.description))


def category_of(gap: Gap) -> str:
    """Return the category in lower case."""
    return gap.category.strip().casefold()


def _words_of(gap: Gap) -> str:
    """Return the words of a description between blanks, so that only whole words match."""
    return f" {' '.join(_WORD.findall(gap.description.casefold()))} "
