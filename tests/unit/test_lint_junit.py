"""JUnit reports of linters are findings and no tests."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, cast
from xml.etree.ElementTree import Element, SubElement, tostring

import pytest

from worker.cli import goal_options
from worker.sources import goal, junit
from worker.sources.goal import GapSources
from worker.webhooks.failures import failures_of

RUFF = b"""<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="ruff" tests="1" failures="1" errors="0">
  <testsuite name="/w/shop/src/a.py" tests="1" failures="1" package="org.ruff">
    <testcase name="org.ruff.UP007" classname="/w/shop/src/a" line="9" column="24">
      <failure message="Use `X | Y` for type annotations">line 9, col 24, Use `X | Y` for type annotations</failure>
    </testcase>
  </testsuite>
</testsuites>"""
ESLINT = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuites>
<testsuite package="org.eslint" time="0" tests="1" errors="0" name="/w/shop/lib/argument.js">
<testcase time="0" name="/w/shop/lib/argument.js" classname="/w/shop/lib/argument" />
</testsuite>
<testsuite package="org.eslint" time="0" tests="3" errors="3" name="/w/shop/lib/command.js">
<testcase time="0" name="org.eslint.eqeqeq" classname="/w/shop/lib/command"><failure message="Expected '==='.">
<![CDATA[line 531, col 15, Error - Expected '==='. (eqeqeq)]]></failure></testcase>
</testsuite>
</testsuites>"""
MYPY = b"""<?xml version="1.0" encoding="utf-8"?>
<testsuite errors="0" failures="2" name="mypy" skips="0" tests="2" time="1.223">
  <testcase classname="mypy" file="src/a.py" line="1" name="mypy-py3_10-linux src/a.py" time="1.223">
    <failure message="mypy produced messages">src/a.py:215: error: Missing type arguments  [type-arg]
src/a.py:216: note: See the docs
src/a.py:238:4: error: Odd</failure>
  </testcase>
  <testcase classname="mypy" file="mypy" line="1" name="mypy-py3_10-linux" time="1.223">
    <failure message="mypy produced messages">setup.cfg: note: unused section(s): [mypy-x]</failure>
  </testcase>
</testsuite>"""
PYTEST = b"""<testsuites><testsuite name="pytest"><testcase classname="tests.test_a" name="test_x">
<failure message="AssertionError: assert 3 == 2&#10;where">def test_x():
&gt;       assert 3 == 2</failure></testcase></testsuite></testsuites>"""


def suite(name: str, case: str, message: str, package: str = "") -> bytes:
    root = Element("testsuite", name=name, package=package)
    SubElement(SubElement(root, "testcase", name=case), "failure").text = message
    return tostring(root)


def places(report: bytes) -> list[tuple[str, str, int, int, str, str]]:
    read = junit.read(report, findings=True)
    assert read.failed == ()
    return [(each.tool, each.path, each.line, each.column, each.rule, each.text) for each in read.findings]


def test_findings_of_linters_are_read_with_their_places_and_rules() -> None:
    assert places(RUFF) == [("ruff", "/w/shop/src/a.py", 9, 24, "UP007", "Use `X | Y` for type annotations")]
    assert places(ESLINT) == [("eslint", "/w/shop/lib/command.js", 531, 15, "eqeqeq", "Expected '==='.")]
    assert places(MYPY) == [
        ("mypy", "src/a.py", 215, 1, "type-arg", "Missing type arguments"),
        ("mypy", "src/a.py", 238, 4, "", "Odd"),
    ]


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("a.py:1:5:2:9: error: Odd  [misc]", ("a.py", 1, 5)),
        ("a.py: error: Odd  [misc]", ("a.py", 1, 1)),
        ("C:\\x\\a.py:3: error: Odd  [misc]", ("C:\\x\\a.py", 3, 1)),
    ],
)
def test_every_form_of_a_place_that_mypy_writes_is_read(message: str, place: tuple[str, int, int]) -> None:
    report = junit.read(suite("mypy", "mypy-py3_11-linux a.py", message), findings=True)

    assert [(each.path, each.line, each.column) for each in report.findings] == [place]
    assert (report.findings[0].rule, report.findings[0].text, report.failed) == ("misc", "Odd", ())


@pytest.mark.parametrize(
    ("report", "name"),
    [
        (suite("mypy", "mypy-py3_11-linux", "mypy: can't read file 'b.py'"), "mypy-py3_11-linux"),
        (suite("mypy", "test_x", "a.py:1: error: Odd"), "test_x"),
        (suite("ElementTest", "parses", "line 1, col 2, no", package="org.jsoup"), "parses"),
        (suite("ElementTest", "org.jsoup.parses", "no", package="org.jsoup"), "org.jsoup.parses"),
        (suite("RuffTest", "parses", "no", package="org.ruff"), "parses"),
    ],
)
def test_a_suite_without_findings_that_failed_stays_a_failure(report: bytes, name: str, tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_bytes(report)
    sources = goal_options.Sources(tmp_path / "report.xml", [], [], None, None)

    made = goal_options.with_sources({}, sources, goal_options.read_report(sources), None, ["a.py"])

    assert isinstance(made, dict)
    assert list(made["context"]["failing_tests"]) == [name]
    assert "kind" not in made


def test_findings_beside_failing_tests_are_left_out_unless_a_gap_report_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_bytes(
        b"<testsuites>" + PYTEST[12:-13] + MYPY.partition(b"?>")[2] + b"</testsuites>"
    )
    sources = goal_options.Sources(tmp_path / "report.xml", [], [], None, None)

    repair = goal_options.with_sources({}, sources, goal_options.read_report(sources), None, ["src/a.py"])
    report = goal_options.with_sources({}, sources, goal_options.read_report(sources), "gap_report", ["src/a.py"])

    assert isinstance(repair, dict)
    assert "gap_report" not in repair
    assert list(repair["context"]["failing_tests"]) == ["tests/test_a.py::test_x"]
    assert isinstance(report, dict)
    gaps = {gap["description"] for gap in report["gap_report"]["gap_report"]["gaps"]}
    assert gaps == {"Quality check failed: pytest", "Quality check failed: mypy"}


class Pipeline:
    """A forge with one pipeline, whose test report has one suite."""

    def project(self, repo: str) -> str:
        return repo

    def json(self, _: str) -> Any:
        case = {"name": "mypy-py3_11-linux a.py", "status": "failed", "system_output": "a.py:1: error: Odd"}
        return {"test_suites": [{"name": "mypy", "test_cases": [case]}]}


def test_what_linters_say_stays_evidence_for_webhooks() -> None:
    context = failures_of(cast("Any", Pipeline()), "shop", {"pipeline": 7})

    assert context["failing_tests"] == ["mypy-py3_11-linux a.py"]
    assert "a.py:1: error: Odd" in context["failure_log"]
    assert [len(junit.read(each).failed) for each in (RUFF, ESLINT, MYPY)] == [1, 1, 2]
    assert junit.read(MYPY).findings == ()


def test_a_long_run_of_blanks_in_a_message_costs_no_time() -> None:
    case = (
        b'<testcase name="mypy-py3_11-linux a.py"><failure>a.py:1: error: x'
        + b" " * 1_000_000
        + b"y</failure></testcase>"
    )

    began = time.process_time()
    (finding,) = junit.read(b'<testsuite name="mypy">' + case + b"</testsuite>", findings=True).findings

    assert (finding.rule, finding.text) == ("", "x" + " " * 999)
    assert time.process_time() - began < 2


def test_a_failed_test_is_told_by_what_it_says_and_not_by_its_source() -> None:
    report = junit.read(PYTEST, findings=True)

    assert report.findings == ()
    assert goal.gaps_of(GapSources(report=report))[0].evidence.splitlines()[0] == (
        "FAILED tests/test_a.py::test_x - AssertionError: assert 3 == 2"
    )


def test_findings_of_files_that_may_change_come_first_and_the_last_line_counts_all() -> None:
    report = junit.read(MYPY, findings=True)
    others = tuple(type(report.findings[0])("mypy", f"b{number}.py", 1, 1, "misc", "x" * 250) for number in range(100))

    (gap,) = goal.gaps_of(GapSources(findings=(*others, *report.findings), allowed=("src/*.py",)))

    *shown, last = gap.evidence.splitlines()
    assert shown[0] == "src/a.py:215:1: type-arg Missing type arguments"
    assert last == (
        f"{len(shown)} of 102 findings in 101 files, 2 of them in 1 that may change: no rule (1), type-arg (1)"
    )
    assert len(gap.evidence) <= goal.MAX_EVIDENCE


def test_a_linters_report_becomes_a_gap_of_that_tool_with_paths_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "ruff.xml").write_bytes(RUFF)
    sources = goal_options.Sources(tmp_path / "ruff.xml", [], [], None, None)

    made = goal_options.with_sources({}, sources, goal_options.read_report(sources), None, ["src/a.py"])

    assert isinstance(made, dict)
    (gap,) = made["gap_report"]["gap_report"]["gaps"]
    assert (gap["description"], made["kind"]) == ("Quality check failed: ruff", "gap_report")
    assert "failing_tests" not in made.get("context", {})


def test_every_file_with_failed_tests_is_named_and_there_is_room_for_traces() -> None:
    names = [f"tests/test_{number % 10}.py::test_{number // 10}" for number in range(200)]
    failed = tuple(
        junit.FailedTest(name, "python", f"def it():\n    trace of {name}", "x" * 80) for name in sorted(names)
    )

    (gap,) = goal.gaps_of(GapSources(report=junit.JUnitReport(failed)))

    *shown, last = gap.evidence.splitlines()
    heads = [line for line in shown if line.startswith("FAILED ")]
    assert [line.split("::")[0] for line in heads[:10]] == [f"FAILED tests/test_{number}.py" for number in range(10)]
    assert "    trace of tests/test_9.py::test_0" in shown
    assert last == f"{len(heads)} of 200 failed tests"
