"""A goal put together on the command line: a file, a test report, and options, the later over the earlier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas import codec
from schemas.envelope import Problem
from worker.cli.console import USAGE, Failure
from worker.cli.junit import Report, UnreadableReport, read
from worker.inbox import Entry
from worker.reading import read_goal

SHOWN_TESTS = 3
ADDED_TO = ("context", "gap_report")  # what options and sources put more into
CONTEXT = ("repo", "base_sha", "language", "test_command")


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


def report_of(text: bytes) -> Report:
    """Read a JUnit report."""
    try:
        return read(text)
    except UnreadableReport as error:
        raise Failure.of("invalid_report", str(error), USAGE) from error


def with_report(body: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Ask for the failures of `report` to be repaired; what `body` says already stands."""
    return {"goal": _sentence(report.names), **with_failures(body, report)}


def with_failures(body: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Tell what failed as the goal's context; what `body` says already stands."""
    told = {"language": report.language, "failing_tests": report.names, "failure_log": report.log}
    context = {name: value for name, value in told.items() if value} | dict(body.get("context") or {})
    return {**body, "context": context} if context else dict(body)


def with_options(body: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Set what the options say."""
    said = {name: value for name, value in given.items() if value is not None}
    context = dict(body.get("context") or {}) | {name: said.pop(name) for name in CONTEXT if name in said}
    return {**body, **said, **({"context": context} if context else {})}


def checked(body: Mapping[str, Any], max_bytes: int) -> bytes:
    """Encode a goal after reading it exactly as the worker will; raises Failure with every error."""
    data = codec.dumps(body)
    answer = read_goal(Entry("", b"", {b"data": data}), max_bytes)
    if isinstance(answer, Problem):
        raise Failure(answer, USAGE)
    return data


def _sentence(names: tuple[str, ...]) -> str:
    listed = ", ".join(names[:SHOWN_TESTS]) + (", ..." if len(names) > SHOWN_TESTS else "")
    many = f"{len(names)} failing tests:" if len(names) > 1 else "failing test"
    return f"Fix {many} {listed}"[:4000]
