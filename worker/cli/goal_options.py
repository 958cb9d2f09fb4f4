"""A goal on the command line: its JSON and a test report, read or refused in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas import codec
from schemas.envelope import Problem
from worker.cli.console import USAGE, Failure
from worker.sources import junit
from worker.streams.decode import read_goal
from worker.streams.inbox import Entry

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


def report_of(text: bytes) -> junit.Report:
    """Read a JUnit report."""
    try:
        return junit.read(text)
    except junit.UnreadableReport as error:
        raise Failure.of("invalid_report", str(error), USAGE) from error


def checked(body: Mapping[str, Any], max_bytes: int) -> bytes:
    """Encode a goal after reading it exactly as the worker will; raises Failure with every error."""
    data = codec.dumps(body)
    answer = read_goal(Entry("", b"", {b"data": data}), max_bytes)
    if isinstance(answer, Problem):
        raise Failure(answer, USAGE)
    return data
