"""Describes work outside of a plan in sentences: files that its goal does not allow, and gaps that it does not close.

They are read from the plan's document, of any kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from schemas.kinds.gap_report import PassedGap, PassedReason
from tasks.text.fields import fit

MAX_SHOWN = 5  # files and gaps
MAX_WORDS = 120

_WHY = {
    PassedReason.OUTSIDE: "outside of allowed_files",
    PassedReason.PROTECTED: "protected",
    PassedReason.FAILED: "failed too often",
}


def describe_passed_over(passed: Sequence[PassedGap]) -> str:
    """Return a phrase with the number of gaps that were passed over, and the reasons; empty without such gaps."""
    reasons = dict.fromkeys(_WHY[each.reason] for each in passed)
    return f"{len(passed)} passed over, {' or '.join(reasons)}" if passed else ""


def describe_outside(document: Any) -> str | None:
    """Return a sentence about the work that the plan of this document leaves out; None if it leaves out nothing."""
    parts = list(_parts(document)) if isinstance(document, Mapping) else []
    return f"Outside of this plan: {'; '.join(parts)}." if parts else None


def _parts(document: Mapping[str, Any]) -> Iterator[str]:
    files, passed, left = document.get("outside") or (), document.get("passed_over") or (), document.get("gaps_left", 0)
    if files:
        count = f"{len(files)} {'file' if len(files) == 1 else 'files'}"
        yield f"{count} that allowed_files does not have ({_listed(map(str, files), len(files))})"
    gaps = (f"{fit(each['description'], MAX_WORDS)}: {_WHY[PassedReason(each['reason'])]}" for each in passed)
    if passed:
        count = f"{len(passed)} more urgent {'gap' if len(passed) == 1 else 'gaps'}"
        yield f"{count} passed over ({_listed(gaps, len(passed))})"
    if rest := left - len(passed):
        yield f"{rest} more {'gap' if rest == 1 else 'gaps'} of the report"


def _listed(words: Iterable[str], count: int) -> str:
    shown = [word for _, word in zip(range(MAX_SHOWN), words, strict=False)]
    return ", ".join(shown) + (f" and {count - len(shown)} more" if count > len(shown) else "")
