"""Makes the context of a goal from a forge's data about a failed run: failing tests, and messages about them.

Test reports have priority; if there are none, annotations are used. All of this data is untrusted.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any
from xml.etree.ElementTree import Element, SubElement
from zipfile import BadZipFile, ZipFile

from tasks.text.fields import fit, one_line, several_lines
from worker.sources import junit
from worker.sources.junit import JUnitReport, UnreadableReport
from worker.webhooks.forge import MAX_ARTIFACT_BYTES, PAGE, Forge

MAX_LOG = 32_000
MOST_ARTIFACTS, MOST_CHECKS, MOST_REPORTS = 5, 10, 500
MAX_UNPACKED = 64 * 1024 * 1024  # of all reports in an artifact
REPORTS = re.compile(r"junit|test|report|result|surefire", re.IGNORECASE)  # names of artifacts with reports
FAILED = frozenset({"failure", "timed_out", "startup_failure"})


def failures_of(forge: Forge, repo: str, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a goal's context about the failures. Raises ForgeAway or ForgeRefuses."""
    base = forge.project(repo)
    if "pipeline" in about:
        return _context(_gitlab_report(forge.json(f"{base}/pipelines/{about['pipeline']}/test_report")))
    if "run" in about and (found := _context(_artifacts(forge, base, about["run"]))):
        return found
    lines: list[str] = []
    for check in [about["check"]] if "check" in about else _failed_checks(forge, base, about.get("suite")):
        lines += _annotations(forge.json(f"{base}/check-runs/{check}/annotations?per_page={PAGE}"))
    log = fit("\n".join(lines), MAX_LOG, several_lines)
    return {"failure_log": log} if log else {}


def _context(report: JUnitReport) -> dict[str, Any]:
    names = [name for each in report.names if (name := fit(each, junit.MAX_NAME))]
    log = fit(report.log, MAX_LOG, several_lines)
    fields = {"failing_tests": names, "failure_log": log}  # a language is the rule's alone
    return {name: value for name, value in fields.items() if value} if names else {}


def _failed_checks(forge: Forge, base: str, suite: int | None) -> list[int]:
    if suite is None:
        return []
    found = forge.json(f"{base}/check-suites/{suite}/check-runs?filter=latest&per_page={PAGE}")
    runs = [run for run in _listed(found, "check_runs") if run.get("conclusion") in FAILED]
    return [run["id"] for run in runs if isinstance(run.get("id"), int)][:MOST_CHECKS]


def _annotations(found: Any) -> Iterator[str]:
    for each in found if isinstance(found, list) else ():
        if isinstance(each, dict) and each.get("annotation_level") == "failure":
            place = f"{each.get('path')}:{each.get('start_line')}"
            title = f"{each['title']}: " if each.get("title") else ""
            yield f"{one_line(f'{place}: {title}', 500)} {str(each.get('message'))[:4000]}"


def _artifacts(forge: Forge, base: str, run: int) -> JUnitReport:
    """Return the test reports in the artifacts of a run; only artifacts with a name like that of a report are read."""
    found = forge.json(f"{base}/actions/runs/{run}/artifacts?per_page={PAGE}")
    fitting = [
        each
        for each in _listed(found, "artifacts")
        if REPORTS.search(str(each.get("name")))
        and not each.get("expired")
        and isinstance(each.get("id"), int)
        and isinstance(each.get("size_in_bytes", 0), int)
        and each.get("size_in_bytes", 0) <= MAX_ARTIFACT_BYTES
    ]
    tests: dict[str, junit.FailedTest] = {}
    for each in fitting[:MOST_ARTIFACTS]:
        url = f"{base}/actions/artifacts/{each['id']}/zip"
        data, _ = forge.read(url, MAX_ARTIFACT_BYTES, elsewhere=True)
        for test in _unpacked(data):
            tests.setdefault(test.name, test)
    return JUnitReport(tuple(tests.values()))


def _unpacked(data: bytes) -> Iterator[junit.FailedTest]:
    """Yield the failures in the reports of an archive; unreadable parts are left out."""
    room = MAX_UNPACKED
    try:
        with ZipFile(BytesIO(data)) as archive:
            reports = [each for each in archive.infolist() if each.filename.lower().endswith(".xml")]
            for each in reports[:MOST_REPORTS]:
                with archive.open(each) as file:
                    report = file.read(min(room, junit.MAX_REPORT_BYTES) + 1)
                room -= len(report)
                if room < 0 or len(report) > junit.MAX_REPORT_BYTES:
                    return
                try:
                    yield from junit.read(report).failed
                except UnreadableReport:
                    continue  # another kind of XML
    except (BadZipFile, NotImplementedError, RuntimeError, zlib.error, EOFError, ValueError, OSError):
        return  # broken, or encrypted


def _gitlab_report(found: Any) -> JUnitReport:
    """Return GitLab's test report, which has the suites and cases of its JUnit reports."""
    root = Element("testsuites")
    for suite in _listed(found, "test_suites"):
        part = SubElement(root, "testsuite", name=str(suite.get("name", "")))
        for case in _listed(suite, "test_cases"):
            names = {key: str(case[key]) for key in ("name", "classname", "file") if case.get(key)}
            one = SubElement(part, "testcase", names)
            if case.get("status") in ("failed", "error"):
                output = case.get("system_output")
                text = output.get("message", "") if isinstance(output, dict) else output
                SubElement(one, "failure").text = f"{text or ''}\n{case.get('stack_trace') or ''}".strip()
    return junit.report_of(root)


def _listed(found: Any, name: str) -> list[dict[str, Any]]:
    """Return the objects in the list `name` of a forge's answer; empty if there is no such list."""
    listed = found.get(name) if isinstance(found, dict) else None
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
