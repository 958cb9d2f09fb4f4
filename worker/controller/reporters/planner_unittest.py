"""Runs unittest as its own command line does, and writes the result of each test; on Python 3.7 and newer."""

from __future__ import annotations

import json
import os
import sys
import unittest
from pathlib import Path
from typing import Any, Iterator

_FOLDER = Path(__file__).parent


class _Report:
    """The report lines of one run of unittest."""

    def __init__(self) -> None:
        place = _FOLDER / "token"
        self._token = place.read_text()
        place.unlink()
        self._pid = os.getpid()
        self._file = os.open(str(_FOLDER / "report"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, *line: str) -> None:
        if os.getpid() == self._pid:
            os.write(self._file, (json.dumps(line) + "\n").encode())

    def end(self) -> None:
        self.write("end", self._token)


_report = _Report()
_write = _report.write
_collected: list[str] = []


class _Result(unittest.TextTestResult):
    """The result class of unittest that also writes the outcome of each test to the report."""

    def addSuccess(self, test: Any) -> None:
        super().addSuccess(test)
        _write("test", test.id(), "passed")

    def addFailure(self, test: Any, err: Any) -> None:
        super().addFailure(test, err)
        _write("test", test.id(), "failed")

    def addError(self, test: Any, err: Any) -> None:
        super().addError(test, err)
        _write("test", test.id(), "failed")

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            _write("test", test.id(), "failed")

    def addSkip(self, test: Any, reason: Any) -> None:
        super().addSkip(test, reason)
        if isinstance(test, unittest.TestCase):
            _write("test", test.id(), "skipped")
            return
        around = test.id().partition("(")[2].rstrip(")") + "."  # setUpClass or setUpModule of this
        for name in _collected:
            if name.startswith(around):
                _write("test", name, "skipped")

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        super().addExpectedFailure(test, err)
        _write("test", test.id(), "xfailed")

    def addUnexpectedSuccess(self, test: Any) -> None:
        super().addUnexpectedSuccess(test)
        _write("test", test.id(), "failed")


class _Runner(unittest.TextTestRunner):
    """The runner of unittest that uses our result class."""

    def _makeResult(self) -> Any:
        return _Result(self.stream, self.descriptions, self.verbosity)

    def run(self, test: Any) -> Any:
        _write("begin", "unittest")
        for name in _names(test):
            _collected.append(name)
            _write("collected", name)
        result = super().run(test)
        _report.end()
        return result


def _names(tests: Any) -> Iterator[str]:
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from _names(test)
        else:
            yield test.id()


if __name__ == "__main__":
    unittest.main(module=None, testRunner=_Runner, argv=["python -m unittest", *sys.argv[1:]])
