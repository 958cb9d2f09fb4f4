"""Finds all failing tests in the output of a tool, and whether the list is complete.

The planner draws conclusions only from a complete list. So in doubt a list is marked as incomplete. Examples are an
early stop, a test that could not be collected, and a summary with another number of tests than names. A script of npm
or pnpm gives a complete list only if it runs one test runner and nothing else. If a runner does not print the file next
to each test, the reported names begin with the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
_COVERAGE = re.compile(r"^(?:FAIL Required test coverage|(?:ERROR: )+Coverage|Jest: )", re.MULTILINE)  # nor enough
_CARGO_TEST = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. FAILED$", re.MULTILINE)
_CARGO_COUNT = re.compile(r"^test result: FAILED\. \d+ passed; (\d+) failed;", re.MULTILINE)
_JEST = re.compile(
    r"^FAIL (?P<file>\S[^\n]*?)(?: \([\d.]+ m?s\))?$|^ {2}● (?!Console$)(?P<test>\S[^\n]*)$", re.MULTILINE
)
_JEST_COUNT = re.compile(r"^(Test Suites|Tests): +(.+), (\d+) total$", re.MULTILINE)  # "1 of 3 total" if it stopped
_VITEST_TEST = re.compile(r"^ FAIL {2}(([^\s>]+) > [^\n]+)$", re.MULTILINE)
_VITEST_COUNT = re.compile(r"^ +(Test Files|Tests) {2}(.+) \((\d+)\)$", re.MULTILINE)
_VITEST_MORE = re.compile(r"^(?: +Errors {2}\d|⎯+ (?:Failed Suites|Unhandled) )", re.MULTILINE)
_PARTS = re.compile(r"(\d+) ([a-z]+)")
_TAP = re.compile(
    r"^(?P<space> *)(?:# Subtest: (?P<began>[^\n]+)|not ok \d+ - (?P<test>[^\n]+)\n"
    r"(?P=space) {2}---\n(?P<block>(?:[^\n]*\n){0,400}?)(?P=space) {2}\.\.\.)$",
    re.MULTILINE,
)
_TAP_NOT = re.compile(r" # (?:TODO|SKIP)\b")
_TAP_PLACE = re.compile(r"^ *location: '(?:[^'\n]*?//)?([^'\n]+?)(?::\d+){0,2}'$", re.MULTILINE)
_TAP_HOW = re.compile(r"^ *failureType: '(?:testCodeFailure|subtestsFailed|testTimeoutFailure)'$", re.MULTILINE)
_TAP_COUNT = re.compile(r"^# (fail|cancelled) (\d+)$", re.MULTILINE)
_SCRIPT = re.compile(r"^> [^\n]+\n> ([^\n]+)$", re.MULTILINE)  # commands of npm and pnpm, after the script's name
_RUNNER = re.compile(r"(jest|vitest run|node --test)(?: [^;&|<>()`$]*)?")
_UNITTEST = re.compile(r"^={70}\n(?:FAIL|ERROR): ([^\n]+ \([\w.]+\)[^\n]*)$", re.MULTILINE)
_UNITTEST_COUNT = re.compile(r"^FAILED \(([a-z ]+=\d+(?:, [a-z ]+=\d+)*)\)$", re.MULTILINE)
_UNITTEST_STOPPED = re.compile(
    r"^ERROR: (?:setUp|tearDown)(?:Class|Module) |unittest\.loader\._FailedTest", re.MULTILINE
)
_CTEST_FAILED = re.compile(r"^The following tests FAILED:$", re.MULTILINE)
_CTEST_TEST = re.compile(r"^\t *\d+ - (\S.*?) \(([^()\n]+)\)(?: .*)?$", re.MULTILINE)
_CTEST_COUNT = re.compile(r"^\d+% tests passed, (\d+) tests? failed out of \d+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FailingTests:
    """The names of failing tests; `complete` if no other test fails."""

    names: tuple[str, ...] = ()
    complete: bool = True

    def joined(self, other: FailingTests) -> FailingTests:
        """Return the tests of both tools."""
        names = tuple(dict.fromkeys((*self.names, *other.names)))
        return FailingTests(names[:MAX_TESTS], self.complete and other.complete and len(names) <= MAX_TESTS)


NONE = FailingTests()
NOT_KNOWN = FailingTests(complete=False)


def failing_tests(tool: str, argv: Sequence[str], output: str, *, whole: bool) -> FailingTests:
    """Return the failing tests in the output of a failed run of `tool`; `whole` if the output is not truncated."""
    read = _READERS.get(tool.partition("-")[0])
    if read is None:
        return NOT_KNOWN
    found = read(_COLOUR.sub("", output), argv)
    return found if whole and found.names and max(map(len, found.names)) <= MAX_CHARS else NOT_KNOWN


def _pytest(output: str, _: Sequence[str]) -> FailingTests:
    names = _PYTEST_TEST.findall(output)
    counts = _PYTEST_COUNT.findall(output)
    told = re.findall(r"(\d+) (?:failed|errors?)\b", counts[-1]) if counts else []
    stopped = _PYTEST_STOPPED.search(output) or _PYTEST_FILE.search(output) or _COVERAGE.search(output)
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
    # Without the option, binaries after the first one with a failing test do not run.
    return _checked(_CARGO_TEST.findall(output), sum(map(int, counts)), stopped="--no-fail-fast" not in argv)


def _jest(output: str, argv: Sequence[str]) -> FailingTests:
    names: list[str] = []
    file = ""
    for found in _JEST.finditer(output):
        file = found["file"] or file
        if found["test"]:
            names.append(f"{file} > {found['test']}")
    failed, left_out = _summed(
        _JEST_COUNT.findall(output), "Test Suites", files={name.partition(" > ")[0] for name in names}
    )
    stopped = (
        left_out
        or any(word.startswith("--bail") for word in argv)
        or "● Test suite failed to run" in output
        or _COVERAGE.search(output)
    )
    return _checked(names, failed, stopped=bool(stopped))


def _vitest(output: str, _: Sequence[str]) -> FailingTests:
    found = _VITEST_TEST.findall(output)
    failed, left_out = _summed(_VITEST_COUNT.findall(output), "Test Files", files={file for _, file in found})
    stopped = left_out or _VITEST_MORE.search(output) or _COVERAGE.search(output)
    return _checked((name for name, _ in found), failed, stopped=bool(stopped))


def _summed(counts: Sequence[tuple[str, str, str]], of_files: str, files: Collection[str]) -> tuple[int, bool]:
    """Return the number of failed tests of a summary, and whether some tests did not run or have no name."""
    lines = {what: {word: int(number) for number, word in _PARTS.findall(parts)} for what, parts, _ in counts}
    whole = len(counts) == len(lines) == 2 and all(sum(lines[what].values()) == int(all_) for what, _, all_ in counts)
    return lines.get("Tests", {}).get("failed", 0), not whole or lines[of_files].get("failed") != len(files)


def _node(output: str, _: Sequence[str]) -> FailingTests:
    """Return the failing tests in node's TAP output; for a failed suite, its tests and not the suite."""
    names: list[str] = []
    around: dict[int, str] = {}
    stopped = False
    for found in _TAP.finditer(output):
        depth = len(found["space"])
        if found["began"]:
            around[depth] = found["began"]
        elif not _TAP_NOT.search(found["test"]):
            place, how = _TAP_PLACE.search(found["block"]), _TAP_HOW.search(found["block"])
            stopped = stopped or not (place and how) or "exitCode: " in found["block"]  # a file that did not load
            if place and "type: 'suite'" not in found["block"]:
                outer = (around[each] for each in sorted(around) if each < depth)
                names.append(" > ".join((place[1], *outer, found["test"])))
    counts = dict(_TAP_COUNT.findall(output))
    stopped = stopped or counts.get("cancelled") != "0"
    return _checked(names, int(counts.get("fail", 0)), stopped=stopped)


def _script(output: str, argv: Sequence[str]) -> FailingTests:
    """Return the failing tests of a script that runs one test runner; unknown if it runs anything else."""
    runs = _SCRIPT.findall(output)
    runner = _RUNNER.fullmatch(runs[0]) if len(runs) == 1 else None
    return _READERS[runner[1].split()[0]](output, (*argv, *runs[0].split())) if runner else NOT_KNOWN


def _unittest(output: str, argv: Sequence[str]) -> FailingTests:
    counts = _UNITTEST_COUNT.findall(output)
    told = dict(part.split("=") for part in counts[-1].split(", ")) if counts else {}
    count = int(told.get("failures", 0)) + int(told.get("errors", 0))
    stopped = "unexpected successes" in told or not {"-f", "--failfast"}.isdisjoint(argv)
    return _checked(_UNITTEST.findall(output), count, stopped=stopped or bool(_UNITTEST_STOPPED.search(output)))


def _ctest(output: str, argv: Sequence[str]) -> FailingTests:
    begin, counts = _CTEST_FAILED.search(output), _CTEST_COUNT.findall(output)
    found = _CTEST_TEST.findall(output, begin.end()) if begin else []
    stopped = "--stop-on-failure" in argv or any(how == "Not Run" for _, how in found)
    return _checked((name for name, _ in found), int(counts[-1]) if counts else 0, stopped=stopped)


def _checked(names: Iterable[str], count: int, *, stopped: bool) -> FailingTests:
    unique = tuple(dict.fromkeys(name.strip() for name in names))
    return FailingTests(unique[:MAX_TESTS], complete=not stopped and len(unique) == count <= MAX_TESTS)


_READERS: Mapping[str, Callable[[str, Sequence[str]], FailingTests]] = {
    "pytest": _pytest,
    "go": _go,
    "cargo": _cargo,
    "jest": _jest,
    "vitest": _vitest,
    "node": _node,
    "npm": _script,
    "pnpm": _script,
    "unittest": _unittest,
    "ctest": _ctest,
}
