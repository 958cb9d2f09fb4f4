"""Reads test reports from the output of tools: the events of `go test -json`, and the text of cargo's tests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_RUNNING = re.compile(r"^running (\d+) tests?$", re.MULTILINE)
_RESULT = re.compile(
    r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored; (\d+) measured; (\d+) filtered out", re.MULTILINE
)
_CASE = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)\b", re.MULTILINE)
_MIXING = frozenset({"-q", "--quiet", "--nocapture"})
_NEXTEST = re.compile(r"^ +(PASS|FAIL|SKIP|SIGABRT|TIMEOUT) \[[^\]\n]*\](?: \([^)\n]*\))? +(\S+) (\S+)$", re.MULTILINE)
_NEXTEST_RESULT = re.compile(
    r"^ +Summary \[[^\]\n]*\] +(\d+) tests? run: (\d+) passed(?: \([^)\n]*\))?(.*)$", re.MULTILINE
)
_CARGO_WORDS = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}
_GO_WORDS = {"pass": "passed", "fail": "failed", "skip": "skipped"}


@dataclass(frozen=True, slots=True)
class PrintedReport:
    """A test report from printed output: the result of each test, the number of tests, and the text for people.

    `began` and `ends` are True if the output contains the start and the whole end of the report.
    """

    words: Mapping[str, str]
    collected: int
    ends: bool
    began: bool
    text: str


def reader_of(tool: str, argv: Sequence[str]) -> Callable[[str], PrintedReport] | None:
    """Return the function that reads the output of a tool; None if the output is not a report."""
    if tool == "go-test":
        return read_go
    if tool == "cargo-test":
        return read_nextest if "nextest" in argv[:2] else read_cargo
    return None


def dressed(argv: Sequence[str]) -> Sequence[str]:
    """Return the command with options that make it print a report, and without options that mix it with other text."""
    if argv[0].rpartition("/")[2] == "go":
        return [*argv[:2], "-json", *argv[2:]]
    return [word for word in argv if word not in _MIXING]


def read_go(output: str) -> PrintedReport:
    """Return the report in go's events, and the text that go would print; lines without an event are unchanged."""
    words: dict[str, str] = {}
    begun: set[str] = set()
    packages: dict[str, bool] = {}  # whether it has ended
    text: list[str] = []
    for line in output.splitlines(keepends=True):
        event = _event(line)
        if event is None:
            text.append(line)
            continue
        action, package, test = event["Action"], str(event.get("Package", "")), event.get("Test")
        if action in ("output", "build-output"):
            text.append(str(event.get("Output", "")))
        elif isinstance(test, str):
            begun.add(f"{package}.{test}")
            if action in _GO_WORDS:
                words[f"{package}.{test}"] = _GO_WORDS[action]
        elif package:
            packages[package] = packages.get(package, False) or action in _GO_WORDS
    ends = bool(packages) and all(packages.values()) and begun == words.keys()
    return PrintedReport(words, len(begun), ends, bool(packages), _as_without_verbose("".join(text)))


def _event(line: str) -> Mapping[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("Action"), str) else None


def _as_without_verbose(text: str) -> str:
    """Remove the lines about tests that began or passed."""
    return re.sub(r"^(?:=== (?:RUN|PAUSE|CONT|NAME) .*|\s*--- (?:PASS|SKIP): .*)\n", "", text, flags=re.MULTILINE)


def read_cargo(output: str) -> PrintedReport:
    """Return the report in libtest's text: the numbers in the last line of each part must match its tests."""
    words: dict[str, str] = {}
    parts = list(_RUNNING.finditer(output))
    ends = [part.start() for part in parts[1:]] + [len(output)]
    whole, collected = bool(parts), 0
    for part, end in zip(parts, ends, strict=True):
        cases = _CASE.findall(output, part.end(), end)
        results = _RESULT.findall(output, part.end(), end)
        count = int(part[1])
        collected += count
        told = list(map(int, results[0])) if len(results) == 1 else []
        counts = [sum(word == each for _, word in cases) for each in ("ok", "FAILED", "ignored")]
        whole = whole and told[:3] == counts and sum(told[:4]) == count
        words |= {name: _CARGO_WORDS[word] for name, word in cases}
    return PrintedReport(words, collected, whole, bool(parts), output)


def read_nextest(output: str) -> PrintedReport:
    """Return the report in nextest's lines: the number in its summary must match its tests."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    words = {
        f"{crate} {name}": {"PASS": "passed", "SKIP": "skipped"}.get(word, "failed")
        for word, crate, name in _NEXTEST.findall(plain)
    }
    results = _NEXTEST_RESULT.findall(plain)
    count = int(results[0][0]) if len(results) == 1 else -1
    ran = [word for word in words.values() if word != "skipped"]
    whole = len(ran) == count and ran.count("passed") == int(results[0][1])
    return PrintedReport(words, max(count, len(words)), whole, bool(words or results), output)
