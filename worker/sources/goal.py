"""A goal's body in the making: what a test report says, and what options say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worker.sources.junit import Report

SHOWN_TESTS = 3
CONTEXT = ("repo", "base_sha", "language", "test_command")


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


def _sentence(names: tuple[str, ...]) -> str:
    listed = ", ".join(names[:SHOWN_TESTS]) + (", ..." if len(names) > SHOWN_TESTS else "")
    many = f"{len(names)} failing tests:" if len(names) > 1 else "failing test"
    return f"Fix {many} {listed}"[:4000]
