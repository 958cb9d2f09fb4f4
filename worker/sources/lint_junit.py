"""Findings in JUnit reports that are no test's: as ruff, eslint and mypy write them. The report is untrusted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from worker.sources.sarif import SarifFinding

MAX_TEXT = 1000
MYPY = "mypy"

_TOOLS = {f"org.{tool}": tool for tool in ("ruff", "eslint")}  # by the package of a suite, one a file
_MYPY_CASE = re.compile(rf"{MYPY}-py\d+[._]\d+-[\w-]+(?: .*)?")
_PLACE = re.compile(r"line (\d{1,9}), col (\d{1,9})")
_MESSAGE = re.compile(  # the place may have no line, or say where it ends
    r"(?P<path>(?:[A-Za-z]:(?=[\\/]))?[^\n:]+):(?:(?P<line>\d{1,9}):)?(?:(?P<column>\d{1,9}):)?(?:\d{1,9}:\d{1,9}:)?"
    r" error: (?P<text>.*)"
)
_CODE = re.compile(r"[\w-]+")


def findings_of(suite: Element) -> Iterator[SarifFinding]:
    """Yield what a linter says is wrong; nothing for a suite with any failure that no linter names as its own."""
    failed = [(case, [*case.findall("failure"), *case.findall("error")]) for case in suite.findall("testcase")]
    failed = [(case, reasons) for case, reasons in failed if reasons]
    names = [case.get("name", "") for case, _ in failed]
    package = suite.get("package", "")
    if suite.get("name") == MYPY and all(map(_MYPY_CASE.fullmatch, names)):
        for _, reasons in failed:
            for reason in reasons:
                yield from _of_mypy(reason)
    elif package in _TOOLS and all(name.startswith(f"{package}.") for name in names):
        for case, reasons in failed:
            for reason in reasons:
                yield _of_file(suite, case, reason)


def _of_file(suite: Element, case: Element, reason: Element) -> SarifFinding:
    package = suite.get("package", "")
    text = (reason.text or "").strip()
    place = _PLACE.match(text)
    line, column = (int(place[1]), int(place[2])) if place else (1, 1)
    rule, said = case.get("name", "").removeprefix(f"{package}."), reason.get("message") or text
    return SarifFinding(_TOOLS[package], suite.get("name", ""), line, column, rule, said[:MAX_TEXT])


def _of_mypy(reason: Element) -> Iterator[SarifFinding]:
    for text in (reason.text or "").splitlines():
        if found := _MESSAGE.fullmatch(text):
            rule, said = _rule_and_text(found["text"])
            line, column = int(found["line"] or 1), int(found["column"] or 1)
            yield SarifFinding(MYPY, found["path"], line, column, rule, said[:MAX_TEXT])


def _rule_and_text(said: str) -> tuple[str, str]:
    """Take the code in brackets off the end of a message, in time that grows with its length and no faster."""
    text, _, code = said.rpartition(" [")
    rule = code.removesuffix("]")
    return (rule, text.rstrip()) if text and rule != code and _CODE.fullmatch(rule) else ("", said)
