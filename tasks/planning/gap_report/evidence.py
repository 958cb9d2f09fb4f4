"""Which files the output of a quality tool is about: one row of patterns per tool (seed 000, step 3 "quality").

What is found is a word of an untrusted text and nothing more: it only ever chooses among files that are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tasks.planning.gap_report.analysis import QUALITY_FAILED

MAX_MENTIONS = 1000
MAX_TOOL = 60
RUNNERS = frozenset({"test", "tests", "pytest", "unittest", "tox", "jest", "vitest", "mocha", "ctest"})

# A path as tools print it, without blanks; with its drive on Windows.
_PATH = r"((?:[A-Za-z]:[\\/])?[^\s:()\"'`<>|,;=]{1,400})"
_LINE = rf"^[ \t]{{0,8}}{_PATH}:\d+(?::\d+)?:? "
_ARROW = rf"^[ \t]{{0,12}}--> {_PATH}:\d+:\d+"
_HEADING = rf"^{_PATH}[ \t]*\n[ \t]+\d+:\d+[ \t]"
_FRAME = r"^[ \t]{0,12}File \"([^\"\n]{1,400})\", line \d+"


@dataclass(frozen=True, slots=True)
class Row:
    """One tool: the names it goes by, and the places where its output names files."""

    names: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]


def _row(names: str, *patterns: str) -> Row:
    return Row(tuple(names.split()), tuple(re.compile(pattern, re.MULTILINE) for pattern in patterns))


ROWS = (
    _row("ruff flake8 pylint", _LINE, _ARROW, rf"^{_PATH}:\n[ \t]+\d+:\d+[ \t]", rf"^::error [^\n]*?file={_PATH},"),
    _row("mypy", rf"^{_PATH}:\d+(?::\d+)?: (?:error|note): "),
    _row("pyright basedpyright", rf"^[ \t]{{0,8}}{_PATH}:\d+:\d+ - (?:error|warning)"),
    _row("pytest unittest", rf"^(?:FAILED|ERROR) {_PATH}(?:::|[ \t]|$)", rf"^{_PATH}::[\w:]+ (?:FAILED|ERROR)",
         rf"^{_PATH}:\d+: (?:in |\w*(?:Error|Exception|Failed)\b)", rf"^{_PATH}::\w", _FRAME),
    _row("eslint", _HEADING, rf"^{_PATH}: line \d+, col \d+",
         rf"^{_PATH}:\d+:\d+: [^\n]*\[(?:Error|Warning)\b"),
    _row("tsc", rf"^{_PATH}\(\d+,\d+\): (?:error|warning) TS\d+", rf"^{_PATH}:\d+:\d+ - (?:error|warning) TS\d+"),
    _row("vet go golangci-lint", rf"^(?:vet: )?{_PATH}:\d+:\d+: ", rf"^[ \t]{{0,12}}{_PATH}:\d+: "),
    _row("clippy rustc cargo", _ARROW),
    _row("jest vitest", rf"^[ \t]{{0,4}}(?:FAIL|\u276f)[ \t]+{_PATH}", rf"\({_PATH}:\d+:\d+\)"),
)  # fmt: skip


def tool_of(description: str) -> str:
    """Name the tool of a quality gap: what stands after the first `: `, else the whole description."""
    _, colon, tool = description.partition(": ")
    return (tool.strip() if colon and tool.strip() else description.removeprefix(QUALITY_FAILED).strip()) or "quality"


def runs_tests(text: str) -> bool:
    """Tell whether the name of a tool, or a sentence, speaks of running tests."""
    return not RUNNERS.isdisjoint(re.findall(r"[a-z]+", text.casefold()))


def mentions(evidence: str, tool: str = "") -> tuple[str, ...]:
    """List the paths that `evidence` names, each once, as they stand there.

    The row of the tool goes first; a tool that is not known, or whose output is of another, is read by every row.
    """
    words = set(re.findall(r"[\w-]+", tool.casefold()[:MAX_TOOL]))
    own = [row for row in ROWS if not words.isdisjoint(row.names)]
    text = evidence.replace("\r\n", "\n")
    return _found(text, own) or _found(text, ROWS)


def _found(text: str, rows: tuple[Row, ...] | list[Row]) -> tuple[str, ...]:
    found = dict.fromkeys(_matches(text, rows))
    return tuple(found)[:MAX_MENTIONS]


def _matches(text: str, rows: tuple[Row, ...] | list[Row]) -> Iterator[str]:
    for row in rows:
        for pattern in row.patterns:
            for match in pattern.finditer(text):
                yield from (group for group in match.groups() if group)
