"""Findings in JUnit reports that are no test's: as ruff, eslint and mypy write them. The report is untrusted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from worker.sources.sarif import SarifFinding

MAX_TEXT = 1000
MYPY = "mypy"

_TOOL = re.compile(r"org\.([a-z][\w-]*)")  # the package of a suite, one a file
_PLACE = re.compile(r"line (\d{1,9}), col (\d{1,9})")
_MESSAGE = re.compile(r"(?P<path>[^\n:]+):(?P<line>\d{1,9}):(?:(?P<column>\d{1,9}):)? error: (?P<text>.*)")
_CODE = re.compile(r"[\w-]+")


def is_of_linter(suite: Element) -> bool:
    """Tell whether a suite has findings instead of tests."""
    return _TOOL.fullmatch(suite.get("package", "")) is not None or suite.get("name") == MYPY


def findings_of(suite: Element) -> Iterator[SarifFinding]:
    """Yield what a linter's suite says is wrong."""
    for case in suite.findall("testcase"):
        for reason in (*case.findall("failure"), *case.findall("error")):
            yield from _of_mypy(reason) if suite.get("name") == MYPY else (_of_file(suite, case, reason),)


def _of_file(suite: Element, case: Element, reason: Element) -> SarifFinding:
    found = _TOOL.fullmatch(suite.get("package", ""))
    text = (reason.text or "").strip()
    place = _PLACE.match(text)
    line, column = (int(place[1]), int(place[2])) if place else (1, 1)
    package = f"{found[0]}." if found else ""
    rule, said = case.get("name", "").removeprefix(package), reason.get("message") or text
    return SarifFinding(found[1] if found else "", suite.get("name", ""), line, column, rule, said[:MAX_TEXT])


def _of_mypy(reason: Element) -> Iterator[SarifFinding]:
    for line in (reason.text or "").splitlines():
        if found := _MESSAGE.fullmatch(line):
            rule, text = _rule_and_text(found["text"])
            column = int(found["column"] or 1)
            yield SarifFinding(MYPY, found["path"], int(found["line"]), column, rule, text[:MAX_TEXT])


def _rule_and_text(said: str) -> tuple[str, str]:
    """Take the code in brackets off the end of a message, in time that grows with its length and no faster."""
    text, _, code = said.rpartition(" [")
    rule = code.removesuffix("]")
    return (rule, text.rstrip()) if text and rule != code and _CODE.fullmatch(rule) else ("", said)
