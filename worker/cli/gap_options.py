"""The sources of a gap report on the command line: each is read, or refused in a sentence with its name."""

from __future__ import annotations

from pathlib import Path

from schemas.gap import InboxItem
from tasks.base.errors import PlannerError
from tasks.strategies.gap_report.analysis import RoadmapItem
from worker.cli.console import USAGE, Failure
from worker.sources import inbox, roadmap, sarif


def findings_of(log: bytes, name: str, folder: Path) -> tuple[sarif.Finding, ...]:
    """Read a SARIF log; files are named relative to `folder`."""
    try:
        return sarif.read(log, folder)
    except PlannerError as error:
        raise Failure.of("invalid_sarif", f"{name}: {error}", USAGE) from error


def items_of(text: bytes, name: str) -> tuple[RoadmapItem, ...]:
    """Read a roadmap."""
    try:
        return roadmap.read(text.decode())
    except UnicodeDecodeError as error:
        raise Failure.of("invalid_roadmap", f"{name} is not UTF-8.", USAGE) from error
    except PlannerError as error:
        raise Failure.of("invalid_roadmap", f"{name}: {error}", USAGE) from error


def wishes_of(folder: Path) -> tuple[InboxItem, ...]:
    """Read an inbox."""
    try:
        return inbox.read(folder)
    except PlannerError as error:
        raise Failure.of("invalid_inbox", str(error), USAGE) from error
