"""Builds a goal's body from reports of CI, wishes of people, and options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from itertools import zip_longest
from pathlib import Path
from typing import Any

from schemas import codec
from schemas.base import FailureCategory
from schemas.kinds.gap_report import Gap, InboxItem
from tasks.base.errors import PlannerError
from tasks.strategies.gap_report import analysis
from tasks.strategies.gap_report.tally import first_lines, sum_up_findings, sum_up_tests
from tasks.text.fields import one_line
from tasks.text.patterns import expand_globs
from tasks.toolchain.classify import signature
from worker.sources.git import with_checkout
from worker.sources.junit import FailedTest, JUnitReport
from worker.sources.sarif import SarifFinding

SHOWN_TESTS = 3
CHANGING = frozenset({"failure_log", "files", "manifests", "definitions", "instructions"})
COMMIT = re.compile(r"[0-9a-f]{7,64}")
UNKNOWN = FailureCategory.UNKNOWN
CONTEXT = ("repo", "base_sha", "language", "test_command", "failing_tests", "workdir")
MAX_EVIDENCE = 8000  # characters of one gap; a goal may have 256 kB
MAX_LINE = 300
MAX_SUMMED = 500  # of the line with the total
KIND = "gap_report"
RUNNERS = {"python": "pytest", "javascript": "jest", "typescript": "jest", "go": "go test"}


class Nothing(StrEnum):
    """A sentence with the reason why there is nothing to do."""

    NO_FAILURES = "Nothing to do: no test failed in this report."
    NO_GAP = "Nothing to do: there is no gap."


class WrongKind(PlannerError):
    """The goal has another kind, but these sources can only make a gap report."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"What linters and scanners found makes a gap report, no {kind}.")
        self.kind = kind


def with_report(body: Mapping[str, Any], report: JUnitReport) -> dict[str, Any]:
    """Return a goal that asks for a repair of the failures in `report`; fields in `body` have priority."""
    return {"goal": sentence_of(report.names), **with_failures(body, report)}


def sentence_of(tests: Sequence[str]) -> str:
    """Return a sentence that asks for the repair of failing tests."""
    listed = ", ".join(tests[:SHOWN_TESTS]) + (", ..." if len(tests) > SHOWN_TESTS else "")
    many = f"{len(tests)} failing tests:" if len(tests) > 1 else "failing test"
    return f"Fix {many} {listed}"[:4000]


def with_failures(body: Mapping[str, Any], report: JUnitReport) -> dict[str, Any]:
    """Return a goal with the report's failing tests, language and log; fields in `body` have priority."""
    failures = {"language": report.language, "failing_tests": report.names, "failure_log": report.log}
    context = {name: value for name, value in failures.items() if value} | dict(body.get("context") or {})
    return {**body, "context": context} if context else dict(body)


def with_options(body: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a goal with the values of the given options. Of the limits, only the given ones are replaced."""
    said = {name: value for name, value in given.items() if value is not None}
    context = dict(body.get("context") or {}) | {name: said.pop(name) for name in CONTEXT if name in said}
    limits = dict(body.get("limits") or {}) | said.pop("limits", {})
    return {**body, **said, **({"context": context} if context else {}), **({"limits": limits} if limits else {})}


def content_id(body: Mapping[str, Any]) -> str | None:
    """Return an id that depends only on a goal's content and commit, so that a repeated job sends the same goal.

    The output of tests is left out, because it differs from run to run. Listings that follow from the commit are left
    out, too. Returns None for a goal without a commit.
    """
    context = dict(body.get("context") or {})
    if not COMMIT.fullmatch(str(context.get("base_sha"))):
        return None
    asked = {**body, "context": {name: value for name, value in context.items() if name not in CHANGING}}
    if given := body.get(KIND):
        report = given.get("gap_report") or {}
        gaps = [{**gap, "evidence": signature(UNKNOWN, (), gap.get("evidence", ""))} for gap in report.get("gaps", ())]
        asked[KIND] = {**given, "project": None, "gap_report": gaps}
    return f"content-{blake2b(codec.canonical(asked), digest_size=16).hexdigest()}"


@dataclass(frozen=True, slots=True)
class GapSources:
    """The contents of the sources that a goal is made of: findings, test report, roadmap and wishes."""

    findings: tuple[SarifFinding, ...] = ()
    report: JUnitReport | None = None
    items: tuple[analysis.RoadmapItem, ...] = ()
    wishes: tuple[InboxItem, ...] = ()
    allowed: tuple[str, ...] = ()  # findings in these files come first
    has_gaps: bool = False  # whether a log, a roadmap or an inbox is among them, even an empty one

    @property
    def linted(self) -> bool:
        """Whether the test report has findings of linters and no failed test."""
        return self.report is not None and bool(self.report.findings) and not self.report.failed


def with_sources(
    body: Mapping[str, Any], sources: GapSources, kind: str | None, allowed: Sequence[Any], folder: Path | None
) -> dict[str, Any] | Nothing:
    """Return a goal with the contents of the sources; Nothing if they contain no failures and no gaps.

    A test report alone makes a repair, unless the goal is a gap report. All other sources make a gap report. Raises
    WrongKind if the goal has another kind.
    """
    kind = kind or body.get("kind")
    gaps = sources.linted or sources.has_gaps
    if gaps and kind not in (None, KIND):
        raise WrongKind(kind)
    if gaps or (sources.report and kind == KIND):
        return goal_of(body, sources, allowed, folder) or Nothing.NO_GAP
    if sources.report is None:
        return dict(body)
    return with_report(body, sources.report) if sources.report.failed else Nothing.NO_FAILURES


def goal_of(
    body: Mapping[str, Any], sources: GapSources, allowed: Sequence[Any], folder: Path | None
) -> dict[str, Any] | None:
    """Return a goal to close the most critical gap in the repository at `folder`; None if there is no gap.

    The sources replace the gap report in `body`, and its wishes if they have some. The report has no time, so that the
    same output makes the same goal. Without a folder, the goal does not list the repository's files.
    """
    gaps = gaps_of(sources)
    if not gaps:
        return None
    known = with_failures(body, sources.report) if sources.report else body
    listed = [gap.model_dump(mode="json") for gap in gaps]
    given = {**(known.get(KIND) or {}), "gap_report": {"gaps": listed, "most_critical": listed[0]}}
    if sources.wishes:
        given["inbox"] = [item.model_dump(mode="json") for item in sources.wishes]
    sentence = one_line(f"Close the most critical gap: {gaps[0].description}", 1000)
    made = {"goal": sentence, **known, "kind": KIND, KIND: given}
    return with_checkout(made, allowed, folder) if folder else made


def gaps_of(sources: GapSources) -> tuple[Gap, ...]:
    """Return the gaps of all sources in order, the most critical first."""
    version = analysis.lowest_incomplete(sources.items)
    outputs = _linted(sources.findings, sources.allowed) | _tested(sources.report)
    gaps = (
        *(analysis.quality_gap(tool, output, version) for tool, output in outputs.items()),
        *map(analysis.inbox_gap, sources.wishes),
        *(analysis.roadmap_gap(item) for item in sources.items if not item.completed),
    )
    return analysis.report(gaps).gaps


def _linted(findings: Iterable[SarifFinding], allowed: Sequence[str]) -> dict[str, str]:
    """Return the findings by tool as text, those in allowed files first.

    Each file has one finding before any file has two, so that truncation removes no file.
    """
    tools: dict[str, dict[str, dict[SarifFinding, None]]] = {}
    for found in findings:
        tools.setdefault(found.tool, {}).setdefault(found.path, {})[found] = None
    return {tool: _output(by_file, allowed) for tool, by_file in tools.items()}


def _output(by_file: Mapping[str, Iterable[SarifFinding]], allowed: Sequence[str]) -> str:
    listed = frozenset(expand_globs(allowed, list(by_file)).files)
    free = {path: tuple(each) for path, each in by_file.items() if path in listed}
    others = {path: tuple(each) for path, each in by_file.items() if path not in listed}
    first = (each[0] for each in (*free.values(), *others.values()))
    rounds = (*zip_longest(*free.values()), *zip_longest(*others.values()))  # one of every file, then the next of each
    kept = _cut(map(_line, (*first, *(found for each in rounds for found in each if found))))
    every = sum(map(len, (*free.values(), *others.values())))
    if every == 1:
        return "\n".join(kept)
    return "\n".join((*kept, sum_up_findings(_rules(free), _rules(others), len(kept))))


def _rules(by_file: Mapping[str, Iterable[SarifFinding]]) -> dict[str, list[str]]:
    return {path: [found.rule for found in each] for path, each in by_file.items()}


def _line(found: SarifFinding) -> str:
    return one_line(f"{found.path}:{found.line}:{found.column}: {found.rule} {found.text}", MAX_LINE)


def _tested(report: JUnitReport | None) -> dict[str, str]:
    if report is None or not report.failed:
        return {}
    by_file: dict[str, list[FailedTest]] = {}
    for test in report.failed:
        by_file.setdefault(test.name.partition("::")[0], []).append(test)
    tests = [test for each in zip_longest(*by_file.values()) for test in each if test]  # one of every file, and so on
    heads = ((test.name, test.reason or test.trace.partition("\n")[0]) for test in tests)
    lines = [f"FAILED {name} - {one_line(line, MAX_LINE)}" for name, line in heads]
    first = tuple(first_lines(lines, MAX_EVIDENCE // 2))  # so that there is room for traces, too
    kept = _cut([*first, *(line for test in tests for line in test.trace.splitlines())])
    shown = len(first)
    summed = (sum_up_tests(len(report.failed), shown),) if len(report.failed) > 1 else ()
    return {RUNNERS.get(report.language or "", "tests"): "\n".join((*kept, *summed))}


def _cut(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the first lines that fit into a gap's evidence together with a summary, each line once."""
    return tuple(first_lines(list(dict.fromkeys(lines)), MAX_EVIDENCE - MAX_SUMMED))
