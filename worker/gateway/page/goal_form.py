"""The form of a goal: makes a goal from its fields, and assigns the errors of a goal to its fields. Pure."""

from __future__ import annotations

import codecs
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from schemas import codec
from schemas.base import GoalKind, RiskLevel
from schemas.envelope import FieldError
from tasks.base.errors import PlannerError
from worker.gateway.bodies import MAX_DEPTH, nests_deeply
from worker.sources import junit, sarif
from worker.sources.goal import GapSources, Nothing, with_options, with_sources

Fields = Mapping[str, str]
NO_FIELDS: Fields = MappingProxyType({})

LIMITS = {
    "tokens": "Tokens",
    "patch_cycles": "Patch cycles",
    "failing_outcomes": "Failing outcomes",
    "wall_clock_s": "Seconds",
    "max_steps": "Steps",
    "max_parallel": "Steps at a time",
}
RISKS = tuple(each.value for each in RiskLevel)
DELIVERIES = {"": "are kept, no more", "push": "are pushed", "pull-request": "become a pull request"}
KINDS = {"": "task, or by the report", **{each.value: each.value.replace("_", " ") for each in GoalKind}}
LABELS = {
    "goal": "What shall be done",
    "files": "Files that may change",
    "constraints": "What to keep to",
    "listing": "Files of the repository",
    "report": "Report",
    "tests": "Only the tests called",
    "repo": "Repository",
    "base_sha": "Commit to begin at",
    "language": "Language",
    "test_command": "Test command",
    "kind": "Kind",
    "queue": "Queue",
    "drafter": "Drafter",
    "approvals": "Ask before steps of risk",
    "delivery": "Accepted changes",
    "tenant": "Tenant",
    "goal_id": "Id of the goal",
    "more": "Anything else, as JSON",
    **{f"limit_{name}": f"Limit of {text.lower()}" for name, text in LIMITS.items()},
}
PLACES = {  # pointer in a goal to the field of the form; all else comes from the JSON or the report
    "/goal_id": "goal_id",
    "/goal": "goal",
    "/allowed_files": "files",
    "/constraints": "constraints",
    "/context/files": "listing",
    "/context/repo": "repo",
    "/context/base_sha": "base_sha",
    "/context/language": "language",
    "/context/test_command": "test_command",
    "/context/failing_tests": "report",
    "/context/failure_log": "report",
    "/gap_report": "report",
    "/kind": "kind",
    "/queue": "queue",
    "/drafter": "drafter",
    "/approvals": "approvals",
    "/delivery": "delivery",
    "/tenant": "tenant",
    **{f"/limits/{name}": f"limit_{name}" for name in LIMITS},
}
ELSEWHERE = "more"
LISTS = frozenset({"files", "constraints", "listing"})  # fields with one item a line
WHOLE = re.compile(r"[0-9]{1,12}")
NEW_LINE = re.compile(r"\r\n|\r|\n")  # only these: any other separator is part of a path here
ITEM = re.compile(r"/([0-9]+)$")
DECLARATION = re.compile(r"^<\?xml[^>]*\?>")  # names the encoding of the file; the text is decoded already
BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"
ENCODING = re.compile(rb"""^\s*<\?xml[^>]*\bencoding=["']([A-Za-z0-9._-]+)""")
ENCODINGS = frozenset({"us-ascii", "iso-8859-1", "iso-8859-15", "windows-1252"})  # of reports, next to Unicode
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class WrongField(PlannerError):
    """A field has an invalid value."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(detail)
        self.field = field


class Complaint(NamedTuple):
    """An error of a field in a sentence; `label` is the name that people see."""

    field: str
    label: str
    message: str


def goal_of(fields: Fields) -> dict[str, Any] | Nothing:
    """Return the goal that the form describes. A filled field overrides the same value in the pasted JSON.

    Returns Nothing if a report has nothing to do. Raises WrongField.
    """
    files, listing = lines(fields.get("files", "")), lines(fields.get("listing", ""))
    kind = _text(fields, "kind")
    said = _json(fields.get("more", ""))
    body = _with_report(said, fields, kind, files or said.get("allowed_files") or [])
    if isinstance(body, Nothing):
        return body
    if listing:
        body = {**body, "context": {**(body.get("context") or {}), "files": listing}}
    delivery = _text(fields, "delivery")
    given = {
        "goal": fields.get("goal", "").replace("\r\n", "\n").strip() or None,
        **{name: _text(fields, name) for name in ("queue", "drafter", "tenant", "goal_id")},
        **{name: _text(fields, name) for name in ("repo", "base_sha", "language", "test_command")},
        "allowed_files": files or None,
        "constraints": lines(fields.get("constraints", "")) or None,
        "kind": kind,
        "approvals": [risk for risk in RISKS if fields.get(f"approve_{risk}")] or None,
        "delivery": {"push": True, "pull_request": delivery == "pull-request"} if delivery else None,
        "limits": dict(_limits(fields)),
    }
    return with_options(body, given)


def lines(text: str) -> list[str]:
    """Return the lines of a text that are not empty."""
    return [line.strip() for line in NEW_LINE.split(text) if line.strip()]


def complaints(errors: Iterable[FieldError | Mapping[str, Any]], fields: Fields = NO_FIELDS) -> tuple[Complaint, ...]:
    """Return the errors of a goal as complaints about the fields of the form."""
    told = (each if isinstance(each, Mapping) else each.model_dump() for each in errors)
    return tuple(_complaint(str(each.get("pointer") or ""), str(each.get("message") or ""), fields) for each in told)


def by_field(found: Iterable[Complaint]) -> Mapping[str, list[str]]:
    """Group complaints by their field."""
    sorted_ = defaultdict(list)
    for each in found:
        sorted_[each.field].append(each.message)
    return sorted_


def _complaint(pointer: str, message: str, fields: Fields) -> Complaint:
    field = next((name for place, name in PLACES.items() if pointer == place or pointer.startswith(f"{place}/")), "")
    field = field or (ELSEWHERE if pointer else "")
    item = ITEM.search(pointer) if field in LISTS else None
    more = f", line {_line(fields.get(field, ''), int(item[1]))}" if item else ""
    if field in (ELSEWHERE, "report"):
        more = f" ({pointer})"
    return Complaint(field, f"{LABELS.get(field, 'The goal')}{more}", message)


def _line(text: str, item: int) -> int:
    """Return the line number in `text` of its item with this index; empty lines are no items."""
    filled = [number for number, line in enumerate(NEW_LINE.split(text), 1) if line.strip()]
    return filled[item] if item < len(filled) else item + 1


def _text(fields: Fields, name: str) -> str | None:
    return fields.get(name, "").strip() or None


def _limits(fields: Fields) -> Iterable[tuple[str, int]]:
    for name, text in LIMITS.items():
        if said := fields.get(f"limit_{name}", "").strip():
            if not (said.isascii() and WHOLE.fullmatch(said)):
                raise WrongField(f"limit_{name}", f"{text}: enter a whole number, or nothing for the default.")
            yield name, int(said)


def _json(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    encoded = text.encode()
    if nests_deeply(encoded):
        raise WrongField(ELSEWHERE, f"Lists and objects are nested more than {MAX_DEPTH} deep.")
    try:
        body = codec.loads(encoded)
    except codec.DecodeError as error:
        raise WrongField(ELSEWHERE, f"This is no JSON: {error}.") from error
    if not isinstance(body, dict):
        raise WrongField(ELSEWHERE, "This is no JSON object.")
    for name in ("context", "gap_report", "limits"):
        if not isinstance(body.get(name), dict | None):
            raise WrongField(ELSEWHERE, f"`{name}` of a goal is a JSON object.")
    return body


def read_upload(body: bytes) -> str:
    """Return the text of an uploaded report, in the encoding of its byte order mark or of its XML declaration.

    Without either it is UTF-8. Invalid bytes become U+FFFD.
    """
    if body.startswith(UTF_16):
        return body.decode("utf-16", errors="replace")
    named = ENCODING.match(body)
    encoding = named[1].decode().lower() if named else ""
    return body.decode(encoding if encoding in ENCODINGS else "utf-8", errors="replace")


def _with_report(
    body: dict[str, Any], fields: Fields, kind: str | None, allowed: list[Any]
) -> dict[str, Any] | Nothing:
    """Return a goal with the content of a report: XML is a test report, JSON a SARIF log."""
    text, tests = fields.get("report", "").lstrip(BOM).strip(), lines(fields.get("tests", ""))
    if not text:
        if tests:
            raise WrongField("tests", "These choose among the tests of a report, and there is none.")
        return body
    try:
        sources = _sources(text, tests, tuple(each for each in allowed if isinstance(each, str)))
        return with_sources(body, sources, kind, allowed, None)
    except (junit.UnreadableReport, sarif.UnreadableLog) as error:
        raise WrongField("report", str(error)) from error
    except PlannerError as error:
        raise error if isinstance(error, WrongField) else WrongField("kind", str(error)) from error


def _sources(text: str, tests: list[str], allowed: tuple[str, ...]) -> GapSources:
    if text.startswith(("{", "[")):
        if tests:
            raise WrongField("tests", "These choose among tests, and a SARIF log has none.")
        return GapSources(sarif.read(text.encode(), Path()), allowed=allowed, has_gaps=True)
    if not text.startswith("<"):
        raise WrongField("report", "This is neither a JUnit report, which is XML, nor a SARIF log, which is JSON.")
    report = junit.read(DECLARATION.sub("", text).encode(), findings=True)
    if report.failed and tests:
        report = report.named(tests)
        if not report.failed:
            raise WrongField("tests", "No test that failed in this report is called so.")
    return GapSources(report.findings, report, allowed=allowed)
