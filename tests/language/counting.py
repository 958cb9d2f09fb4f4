"""Counts what breaks the style, by area, and keeps the count of each area from growing."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path

from tests.language.style import Finding, findings, published_findings
from tests.language.texts import Text

ALLOWED = Path(__file__).with_name("counts.json")  # by area; an area that is not in it allows nothing
BETWEEN = "\n\n"


def check(texts: Iterable[Text]) -> Iterator[tuple[Text, Finding]]:
    """Find everything that breaks the style."""
    kept = list(texts)
    for text in kept:
        for finding in findings(text.words):
            yield text, finding
    starts = list(accumulate((len(text.words) + len(BETWEEN) for text in kept), initial=0))
    for position, finding in published_findings(BETWEEN.join(text.words for text in kept)):
        yield kept[bisect_right(starts, max(0, position)) - 1], finding


def by_area(found: Iterable[tuple[Text, Finding]]) -> Counter[str]:
    """Count findings by area."""
    return Counter(text.area for text, _ in found)


def allowed() -> dict[str, int]:
    """Read how many findings each area may have, while its texts are rewritten."""
    return dict(json.loads(ALLOWED.read_text()))


def lower(counts: Counter[str]) -> None:
    """Write smaller counts, never greater ones."""
    lowered = {area: min(most, counts[area]) for area, most in allowed().items()}
    ALLOWED.write_text(json.dumps({area: most for area, most in sorted(lowered.items()) if most}, indent=2) + "\n")
