"""A roadmap in Markdown, with the items of its task lists.

`- [ ] 0.1 Create ...` is open; `- [x]`, and text that is struck through as `~~...~~`, is done. The version is at the
start of an item, else in the nearest heading above it, such as `## v0.1 Basics`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from tasks.base.errors import PlannerError
from tasks.strategies.gap_report.analysis import UNKNOWN, RoadmapItem, without_struck

MAX_BYTES = 1024 * 1024

ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+\[([ xX])\]\s+(\S.*)")
HEADING = re.compile(r"(#{1,6})\s+(.*)")
_AMOUNT = (
    r"(?!\s*(?:%|(?-i:times|x|percent|[kMG]i?B|m?s|(?:second|minute|hour|day|week|month|year)s?)\b))"  # no version
)
VERSION = re.compile(rf"(?<![\w.])v?(\d+(?:\.\d+)+)(?![\w.]*\w){_AMOUNT}", re.IGNORECASE)
OWN_VERSION = re.compile(
    rf"[*_`\[(]{{0,3}}v?(\d+(?:\.\d+)+){_AMOUNT}[*_`\])]{{0,3}}\s*[:.\u2013\u2014-]?\s+(\S.*)", re.IGNORECASE
)
FENCE = re.compile(r"\s{0,3}(?:```|~~~)")
MORE = re.compile(r"[ \t]+(?![-*+] |\d{1,9}[.)] )(\S.*)")  # an indented line continues an item


class EmptyRoadmap(PlannerError):
    """This roadmap has no items such as `- [ ] 0.1 Create the parser`."""


def read(text: str) -> tuple[RoadmapItem, ...]:
    """Return the items of a roadmap. Raises EmptyRoadmap if there are none, done or not."""
    items = tuple(map(_without_struck, _items(text)))
    if not items:
        raise EmptyRoadmap
    return items


def _without_struck(item: RoadmapItem) -> RoadmapItem:
    """Return the item without struck-through text; an item that has no other text counts as done."""
    left = without_struck(item.description)
    return replace(item, description=left) if left else replace(item, completed=True)


def _items(text: str) -> Iterator[RoadmapItem]:
    above: list[tuple[int, str]] = []  # headings with their levels
    item: RoadmapItem | None = None
    for line in _outside_fences(text):
        if item and (more := MORE.fullmatch(line)):
            item = RoadmapItem(item.version, f"{item.description} {more[1].strip()}", item.completed)
            continue
        if item:
            yield item
            item = None
        if heading := HEADING.fullmatch(line):
            level, version = len(heading[1]), VERSION.search(heading[2])
            above = [each for each in above if each[0] < level]  # a heading without a version has that of those above
            if version:
                above.append((level, version[1]))
        elif found := ITEM.fullmatch(line):
            text, done = found[2].strip(), found[1] != " "
            if own := OWN_VERSION.fullmatch(text):
                item = RoadmapItem(own[1], own[2], done)
            else:
                item = RoadmapItem(above[-1][1] if above else UNKNOWN, text, done)
    if item:
        yield item


def _outside_fences(text: str) -> Iterator[str]:
    fenced = False
    for line in text.splitlines():
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            yield line
