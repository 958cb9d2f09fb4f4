"""A goal on the command line: its JSON and its sources, read or refused in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas import codec
from schemas.envelope import Problem
from schemas.kinds.gap_report import InboxItem
from tasks.base.errors import PlannerError
from tasks.strategies.gap_report.analysis import RoadmapItem
from worker.cli.console import USAGE, Failure
from worker.sources import inbox, junit, roadmap, sarif
from worker.streams.decode import read_goal
from worker.streams.inbox import StreamEntry

ADDED_TO = ("context", "gap_report")  # what options and sources put more into


def from_text(text: bytes) -> dict[str, Any]:
    """Read a goal's JSON object."""
    try:
        body = codec.loads(text)
    except codec.DecodeError as error:
        raise Failure.of("invalid_json", f"The goal is not JSON: {error}", USAGE) from error
    if not isinstance(body, dict):
        raise Failure.of("invalid_message", "A goal is a JSON object.", USAGE)
    for name in ADDED_TO:
        if not isinstance(body.get(name), dict | None):
            raise Failure.of("invalid_message", f"`{name}` of a goal is a JSON object.", USAGE)
    return body


def report_of(text: bytes) -> junit.JUnitReport:
    """Read a JUnit report."""
    try:
        return junit.read(text)
    except junit.UnreadableReport as error:
        raise Failure.of("invalid_report", str(error), USAGE) from error


def encode(body: Mapping[str, Any], max_bytes: int) -> bytes:
    """Encode a goal that the worker can read; raises Failure with every error."""
    data = codec.dumps(body)
    answer = read_goal(StreamEntry("", b"", {b"data": data}), max_bytes)
    if isinstance(answer, Problem):
        raise Failure(answer, USAGE)
    return data


def findings_of(log: bytes, name: str, folder: Path) -> tuple[sarif.SarifFinding, ...]:
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
