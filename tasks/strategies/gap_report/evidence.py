"""Finds the files that a tool's output names, with one row of patterns for each tool.

The output is untrusted text, so a found path only ever chooses among known files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

QUALITY_FAILED = "Quality check failed: "  # prefix of the description of a tool's gap
MAX_MENTIONS = 1000
_FAILED = re.compile(r"(?m)^(?:FAILED|ERROR) ([^\s:]{1,300}\.py(?:::[^\s]{1,300})?)")
_COUNTED = re.compile(r"\b(\d{1,6}) (?:failed|errors?)\b")
_CUT = re.compile(r"(?m)^\d{1,6} of \d{1,6} |\.\.\.$|\u2026$")
MAX_TOOL = 60
RUNNERS = frozenset({"test", "tests", "pytest", "unittest", "tox", "jest", "vitest", "mocha", "ctest"})

# A path as tools print it, without blanks; with its drive on Windows. If its end is marked in another way, it may have
# folders such as `(shop)`.
_PATH = r"((?:[A-Za-z]:[\\/])?[^\s:()\"'`<>|,;=]{1,400})"
_WIDE = r"((?:[A-Za-z]:[\\/])?[^\s:()\"'`<>|,;=][^\s:\"'`<>|,;=]{0,399})"
_LINE = rf"^[ \t]{{0,8}}{_WIDE}:\d+(?::\d+)?:? "
_ARROW = rf"^[ \t]{{0,12}}--> {_WIDE}:\d+:\d+"
_HEADING = rf"^{_WIDE}[ \t]*\n[ \t]+\d+:\d+[ \t]"
# A line that begins with a known path; only such a path shows which blanks in the line belong to it.
_LEAD = re.compile(r"[ \t]*(?:--> |FAILED |ERROR |FAIL |\u276f |File \"|vet: )?[ \t]*")
_END = re.compile(r":\d|::|: line \d|\(\d{1,9},\d{1,9}\)|\", line \d|:?[ \t]*$")
_LONGEST = 1000
_ENDS = 4  # of a path in a line, since a path may itself look like one
_FRAME = r"^[ \t]{0,12}File \"([^\"\n]{1,400})\", line \d+"


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The names of a tool, and the patterns that find files in its output."""

    names: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]


def _row(names: str, *patterns: str) -> ToolOutput:
    return ToolOutput(tuple(names.split()), tuple(re.compile(pattern, re.MULTILINE) for pattern in patterns))


ROWS = (
    _row("ruff flake8 pylint", _LINE, _ARROW, rf"^{_WIDE}:\n[ \t]+\d+:\d+[ \t]", rf"^::error [^\n]*?file={_PATH},"),
    _row("mypy", rf"^{_WIDE}:\d+(?::\d+)?: (?:error|note): "),
    _row("pyright basedpyright", rf"^[ \t]{{0,8}}{_WIDE}:\d+:\d+ - (?:error|warning)"),
    _row("pytest unittest", rf"^(?:FAILED|ERROR) {_PATH}(?:::|[ \t]|$)", rf"^{_PATH}::[\w:]+ (?:FAILED|ERROR)",
         rf"^{_PATH}:\d+: (?:in |\w*(?:Error|Exception|Failed)\b)", rf"^{_PATH}::\w", _FRAME),
    _row("eslint", _HEADING, rf"^{_WIDE}: line \d+, col \d+",
         rf"^{_WIDE}:\d+:\d+: [^\n]*\[(?:Error|Warning)\b"),
    _row("tsc", rf"^{_WIDE}\(\d+,\d+\): (?:error|warning) TS\d+", rf"^{_WIDE}:\d+:\d+ - (?:error|warning) TS\d+"),
    _row("vet go golangci-lint", rf"^(?:vet: )?{_PATH}:\d+:\d+: ", rf"^[ \t]{{0,12}}{_PATH}:\d+: "),
    _row("clippy rustc cargo", _ARROW),
    _row("jest vitest", rf"^[ \t]{{0,4}}(?:FAIL|\u276f)[ \t]+{_PATH}", rf"\({_PATH}:\d+:\d+\)"),
)  # fmt: skip


def tool_of(description: str) -> str:
    """Return the tool of a quality gap: the text after the first `: `, else the whole text."""
    _, colon, tool = description.partition(": ")
    return (tool.strip() if colon and tool.strip() else description.removeprefix(QUALITY_FAILED).strip()) or "quality"


def runs_tests(text: str) -> bool:
    """Return whether the name of a tool, or a sentence, is about running tests."""
    return not RUNNERS.isdisjoint(re.findall(r"[a-z]+", text.casefold()))


def mentions(evidence: str, tool: str = "", odd: Collection[str] = ()) -> tuple[str, ...]:
    """Return the paths that `evidence` names, each once, as written there.

    The patterns of `tool` are tried first. If they find nothing, the patterns of all tools are tried. `odd` are known
    paths with blanks or brackets, which are searched at the beginning of each line.
    """
    words = set(re.findall(r"[\w-]+", tool.casefold()[:MAX_TOOL]))
    own = [row for row in ROWS if not words.isdisjoint(row.names)]
    text = evidence.replace("\r\n", "\n")
    opening = _opening(text, odd) if odd else ()
    paths = dict.fromkeys((*opening, *_matches(text, own))) or dict.fromkeys(_matches(text, ROWS))
    return tuple(paths)[:MAX_MENTIONS]


def tests_named_in(evidence: str) -> tuple[str, ...]:
    """Return the tests that pytest names as failed, each once."""
    return tuple(dict.fromkeys(_FAILED.findall(evidence)))


def all_failing_tests(evidence: str) -> tuple[str, ...]:
    """Return the tests that pytest names as failed; empty if the output does not name all of them."""
    named, told = tests_named_in(evidence), _COUNTED.findall(evidence)
    is_whole = not _CUT.search(evidence) and (not told or sum(map(int, told)) == len(named))
    return named if is_whole else ()


def _opening(text: str, known: Collection[str]) -> Iterator[str]:
    """Yield each path of `known` that a line of the text begins with; folders may come before it."""
    for line in text.splitlines():
        begin = _LEAD.match(line)
        words = line[begin.end() if begin else 0 :][:_LONGEST].replace("\\", "/")
        for end in islice(_END.finditer(words), _ENDS):
            path = words[: end.start()]
            while path:
                if path in known:
                    yield path
                path = path.partition("/")[2]


def _matches(text: str, rows: Iterable[ToolOutput]) -> Iterator[str]:
    for row in rows:
        for pattern in row.patterns:
            yield from filter(None, (match[1] for match in pattern.finditer(text)))
