"""Gaps out of an inbox, a roadmap and quality tools, in order."""

from __future__ import annotations

import pytest

from schemas.kinds.gap_report import MAX_EVIDENCE, InboxItem, Priority
from tasks.strategies.gap_report import analysis
from tasks.strategies.gap_report.analysis import RoadmapItem
from tests.support.kinds.gap_report import gap


@pytest.mark.parametrize(
    ("version", "priority"),
    [
        ("0.1", "urgent"),
        ("v0.1", "urgent"),
        ("0.1.9", "urgent"),
        ("0.0", "urgent"),
        ("0.2", "high"),
        ("V0.2", "high"),
        ("0.3", "medium"),
        ("0.4", "medium"),
        ("0.4.12", "medium"),
        ("0.5", "low"),
        ("0.10", "low"),
        ("0.20", "low"),
        ("1.0", "low"),
        ("2", "low"),
        ("unknown", "low"),
        ("", "low"),
    ],
)
def test_a_roadmap_gap_is_as_urgent_as_its_version_is_near(version: str, priority: str) -> None:
    assert analysis.roadmap_gap(RoadmapItem(version, "Create it")).priority == priority


@pytest.mark.parametrize(
    ("versions", "lowest"),
    [
        (["0.10", "0.9", "0.2"], "0.2"),
        (["v0.10", "v0.9"], "v0.9"),
        (["1.0", "0.10.1", "0.10"], "0.10"),
        (["unknown"], "unknown"),
        ([], "unknown"),
    ],
)
def test_the_lowest_version_is_found_by_number(versions: list[str], lowest: str) -> None:
    items = [RoadmapItem(version, "x") for version in versions] + [RoadmapItem("0.1", "done", completed=True)]

    assert analysis.lowest_incomplete(items) == lowest


@pytest.mark.parametrize(("given", "made"), [("low", "medium"), ("medium", "medium"), ("high", "high")])
def test_a_wish_is_never_of_low_priority(given: str, made: str) -> None:
    item = InboxItem(filename="a.md", title="Export", what="as CSV", why="asked for", priority=Priority(given))

    found = analysis.inbox_gap(item)

    assert (found.description, found.evidence, found.roadmap_version) == ("Export: as CSV", "asked for", "inbox")
    assert found.priority == made


def test_a_failed_quality_check_is_always_urgent() -> None:
    found = analysis.quality_gap("ruff", "x" * (MAX_EVIDENCE + 1), "0.1")

    assert (found.description, found.priority, found.roadmap_version) == ("Quality check failed: ruff", "urgent", "0.1")
    assert len(found.evidence) == MAX_EVIDENCE


def test_gaps_are_sorted_by_priority_then_category_and_equals_stay() -> None:
    gaps = [
        gap("a", "other", priority="urgent"),
        gap("b", "roadmap", priority="urgent"),
        gap("c", "inbox", priority="urgent"),
        gap("d", "quality", priority="urgent"),
        gap("e", "roadmap", priority="urgent"),
        gap("f", " Quality", priority="low"),
        gap("g", "other", priority="high"),
        gap("h", "roadmap", priority="low"),
    ]

    report = analysis.report(gaps)

    assert [each.description for each in report.gaps] == ["d", "c", "b", "e", "a", "g", "f", "h"]
    assert report.most_critical == report.gaps[0]


def test_of_gaps_that_are_equally_urgent_failing_tests_come_first() -> None:
    found = [analysis.quality_gap(tool, "", "0.1") for tool in ("ruff", "mypy", "pytest", "eslint", "vitest")]

    assert [each.description.rpartition(" ")[2] for each in analysis.report(found).gaps] == [
        *("pytest", "vitest"),
        *("ruff", "mypy", "eslint"),
    ]


def test_without_gaps_none_is_critical() -> None:
    assert analysis.report(()).most_critical is None


@pytest.mark.parametrize(
    ("wish", "item", "kept"),
    [
        ("Create the PARSER: now", "create the parser", False),
        ("the parser", "Create  the\nparser for 0.1", False),
        ("the lexer", "Create the parser", True),
        ("Port: import", "Create src/port.py, important", True),
        ("port", "Create the exporter", True),
        ("Export (CSV)", "Create export: CSV, for all", False),
        ("", "Create the parser", True),
        ("  ", "Create the parser", True),
    ],
)
def test_a_wish_takes_the_place_of_a_roadmap_gap_that_says_the_same(wish: str, item: str, *, kept: bool) -> None:
    gaps = (gap(wish, "inbox"), gap(item, "roadmap"), gap(item, "quality"))

    left = analysis.drop_doubles(gaps)

    assert left == (gaps if kept else (gaps[0], gaps[2]))
