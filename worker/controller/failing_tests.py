"""All tests that a run of a tool says fail, and whether these are all of them.

A planner concludes something from such a list only if it is whole, so that a doubt is told as a list that is not: a
run that stopped early, a test that could not be collected, a summary whose numbers are not those of the names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MAX_TESTS = 2000
MAX_CHARS = 1000

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PYTEST_TEST = re.compile(r"^(?:FAILED|ERROR) (\S[^\n]*?::[^\n]*?)(?: - [^\n]*)?$", re.MULTILINE)
_PYTEST_FILE = re.compile(r"^ERROR (?![^\n]*::)", re.MULTILINE)
_PYTEST_COUNT = re.compile(r"^(?:=+ )?((?:\d+ [a-z]+, )*\d+ [a-z]+) in [\d.]+s", re.MULTILINE)
_PYTEST_STOPPED = re.compile(r"^!+ (?:stopping after|Interrupted|xdist\.dsession\.Interrupted)", re.MULTILINE)
_GO_TEST = re.compile(r"^--- FAIL: (\S+) \(", re.MULTILINE)
_GO_PACKAGE = re.compile(r"^FAIL\t(\S+)([^\n]*)$", re.MULTILINE)
_CARGO_TEST = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. FAILED$", re.MULTILINE)
_CARGO_COUNT = re.compile(r"^test result: FAILED\. \d+ passed; (\d+) failed;", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FailingTests:
    """The names of tests that fail; `complete` if no other one does."""

    names: tuple[str, ...] = ()
    complete: bool = True

    def joined(self, other: FailingTests) -> FailingTests:
        """Add those of another tool."""
        names = tuple(dict.fromkeys((*self.names, *other.names)))
        return FailingTests(names[:MAX_TESTS], self.complete and other.complete and len(names) <= MAX_TESTS)


NONE = FailingTests()
NOT_KNOWN = FailingTests(complete=False)


def failing_tests(tool: str, argv: Sequence[str], output: str, *, whole: bool) -> FailingTests:
    """Read the names of failing tests in what a failed run of `tool` printed, all of it if this is the `whole`."""
    read = _READERS.get(tool.partition("-")[0])
    if read is None:
        return NOT_KNOWN
    found = read(_COLOUR.sub("", output), argv)
    return found if whole and found.names and max(map(len, found.names)) <= MAX_CHARS else NOT_KNOWN


def _pytest(output: str, _: Sequence[str]) -> FailingTests:
    names = _PYTEST_TEST.findall(output)
    counts = _PYTEST_COUNT.findall(output)
    told = re.findall(r"(\d+) (?:failed|errors?)\b", counts[-1]) if counts else []
    stopped = _PYTEST_STOPPED.search(output) or _PYTEST_FILE.search(output)
    return _checked(names, sum(map(int, told)), stopped=bool(stopped))


def _go(output: str, _: Sequence[str]) -> FailingTests:
    names: list[str] = []
    begin, stopped = 0, False
    for package in _GO_PACKAGE.finditer(output):  # the line of a package comes after its tests
        tests = _GO_TEST.findall(output, begin, package.start())
        stopped = stopped or not tests or "[" in package[2]
        names += [f"{package[1]}.{test}" for test in tests]
        begin = package.end()
    return _checked(names, len(names), stopped=stopped or "panic: " in output)


def _cargo(output: str, argv: Sequence[str]) -> FailingTests:
    counts = _CARGO_COUNT.findall(output)
    # Without the option what comes after the first binary with a failing test is not run at all.
    return _checked(_CARGO_TEST.findall(output), sum(map(int, counts)), stopped="--no-fail-fast" not in argv)


def _checked(names: Iterable[str], count: int, *, stopped: bool) -> FailingTests:
    unique = tuple(dict.fromkeys(name.strip() for name in names))
    return FailingTests(unique[:MAX_TESTS], complete=not stopped and len(unique) == count <= MAX_TESTS)


_READERS = {"pytest": _pytest, "go": _go, "cargo": _cargo}
