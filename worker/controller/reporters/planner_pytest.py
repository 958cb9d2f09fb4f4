"""A plugin of pytest that writes the result of each test: for pytest 5 and newer, on Python 3.7 and newer.

It judges a test by its exceptions, not by its report, which hooks of the repository can change. Code inside of the
process can still forge a report; only the easy ways are closed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Iterator

import pytest

_FOLDER = Path(__file__).parent


def _take_token() -> str | None:
    """Read the token and delete its file, so that the code under test cannot find it."""
    place = _FOLDER / "token"
    try:
        token = place.read_text()
        place.unlink()
    except OSError:  # of a worker of pytest-xdist
        return None
    return token


_OPTIONS = "PYTEST_ADDOPTS"
_options = os.environ.pop(_OPTIONS, "")  # so that no pytest that a test starts takes part
_tokens = [_take_token()]  # before any conftest.py runs
_IS_OURS = "planner_report"  # a worker of the session that was started for us, and of no other one


def _raises(call: pytest.CallInfo[None], found: Any) -> bool:
    """Return whether a test raised an error although its report claims that it passed."""
    raised = call.excinfo is not None and not call.excinfo.errisinstance(pytest.skip.Exception)
    return raised and found.outcome == "passed" and not hasattr(found, "wasxfail")


class _Lines:
    """The file of the report; each process of a session adds lines."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._file = os.open(str(_FOLDER / "report"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, *line: str) -> None:
        if os.getpid() == self._pid:  # not a process that a test has forked
            os.write(self._file, (json.dumps(line) + "\n").encode())


class _WorkerReport(_Lines):
    """The report lines of a worker of pytest-xdist, whose session sees only the reports that hooks pass on."""

    @pytest.hookimpl(tryfirst=True, hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        outcome: Any = yield
        if _raises(call, outcome.get_result()):
            self.write("test", item.nodeid, "failed")


class _Report(_Lines):
    """The report lines of one session of pytest."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token
        self._workers: set[str] = set()
        self._raised: set[str] = set()

    @pytest.hookimpl(tryfirst=True, hookwrapper=True)
    def pytest_sessionstart(self) -> Iterator[None]:
        self.write("begin", "pytest")
        os.environ[_OPTIONS] = _options  # workers start here, and find this plugin by it
        yield
        os.environ.pop(_OPTIONS, None)

    @pytest.hookimpl(tryfirst=True, hookwrapper=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> Iterator[None]:
        before = [item.nodeid for item in items]
        yield
        kept = {item.nodeid for item in items}
        for name in before:
            if name not in kept:
                self.write("deselected", name)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            self.write("collected", item.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[_IS_OURS] = True

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        for name in ids:
            if name not in self._workers:
                self._workers.add(name)
                self.write("collected", name)

    @pytest.hookimpl(tryfirst=True, hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        outcome: Any = yield
        if _raises(call, outcome.get_result()):
            self._raised.add(item.nodeid)
            self.write("test", item.nodeid, "failed")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        xfail = hasattr(report, "wasxfail")
        if report.outcome == "failed":
            self.write("test", report.nodeid, "failed")
        elif hasattr(report, "context"):
            return  # a part of a test
        elif report.outcome == "skipped":
            self.write("test", report.nodeid, "xfailed" if xfail else "skipped")
        elif report.outcome == "passed" and report.when == "call" and report.nodeid not in self._raised:
            self.write("test", report.nodeid, "passed")

    @pytest.hookimpl(trylast=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome == "failed":
            self.write("test", report.nodeid, "failed")

    @pytest.hookimpl(tryfirst=True, hookwrapper=True)
    def pytest_sessionfinish(self) -> Iterator[None]:
        yield
        self.write("end", self._token)


def pytest_configure(config: pytest.Config) -> None:
    """Take part in the session that was started for us, and in no other session of this process."""
    token = _tokens.pop() if _tokens else None
    if token is not None:
        config.pluginmanager.register(_Report(token), "planner-report")
    elif getattr(config, "workerinput", {}).pop(_IS_OURS, False):
        config.pluginmanager.register(_WorkerReport(), "planner-report")
