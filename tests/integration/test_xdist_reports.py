"""The report of pytest where pytest-xdist runs the tests in workers, whose hooks the session does not see."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from schemas.outcome import ReportKind
from worker.controller import reports
from worker.controller.programs import environment
from worker.sandbox import process
from worker.sandbox.process import Job

pytestmark = pytest.mark.outages  # each starts a session with two workers

RED = "def test_fails():\n    assert 1 == 2\n\n\ndef test_passes():\n    pass\n"
SETS_PASSED = """import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    found = (yield).get_result()
    found.outcome, found.longrepr = "passed", None
"""


def report_of(folder: Path, **files: str) -> tuple[int, reports.TestReport]:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    with reports.reporting("pytest", [sys.executable, "-m", "pytest", "-q", "-n", "2"], folder) as how:
        env = how.added_to(environment(how.argv, folder))
        done = process.run(Job(how.argv, folder, 120, lambda: True, merge=True, env=env))
        return done.exit_code, how.read(done.stdout)[0]


@pytest.mark.long
def test_a_worker_reports_what_a_test_raised_and_not_what_a_hook_made_of_it(tmp_path: Path) -> None:
    code, report = report_of(tmp_path, test_it=RED, conftest=SETS_PASSED)

    assert (code, report.kind) == (0, ReportKind.WHOLE)
    assert report.words == {"test_it.py::test_fails": "failed", "test_it.py::test_passes": "passed"}


def test_the_report_of_workers_is_whole_and_has_each_test_once(tmp_path: Path) -> None:
    code, report = report_of(tmp_path, test_it=RED)

    assert (code, report.kind, report.collected) == (1, ReportKind.WHOLE, 2)
    assert report.words == {"test_it.py::test_fails": "failed", "test_it.py::test_passes": "passed"}
