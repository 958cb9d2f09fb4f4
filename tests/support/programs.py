"""A plugin of pytest for external programs: tests ask it whether one is installed, and run one during a block.

A test lists with `needs` the programs that it runs beyond Python, git and coreutils. If one is missing, the test is
skipped; with PLANNER_TEST_PROGRAMS=required it fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

Running = AbstractContextManager[subprocess.Popen[bytes]]
NODE_MODULES = Path(os.environ.get("PLANNER_TEST_NODE_MODULES", ""))
NPM = "npm:"  # before the name of a package of npm, which is looked for in NODE_MODULES


def needs(*programs: str) -> pytest.MarkDecorator:
    """Mark a test that runs programs, or packages of npm as `npm:NAME`; `-m programs` selects the marked tests."""
    return pytest.mark.programs(*programs)


def missing(reason: str) -> NoReturn:
    """Skip the test, or let it fail where every program has to be there."""
    if os.environ.get("PLANNER_TEST_PROGRAMS") == "required":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@contextmanager
def running(
    argv: Sequence[str], env: Mapping[str, str], log: Path, cwd: Path, passed: tuple[int, ...] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `argv` until the end of the block or an earlier exit.

    At the end of the block the program is asked to end, and its log is shown.
    """
    with log.open("wb") as file:
        process = subprocess.Popen(argv, env=env, cwd=cwd, stdout=file, stderr=file, pass_fds=passed)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)
        print(log.read_text())  # noqa: T201 - why, where it fails


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run fail that skips too much."""
    parser.getgroup("planner").addoption("--most-skips", type=int, help="how many skipped tests are no failure")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test one of whose programs is missing."""
    for name in [name for mark in item.iter_markers("programs") for name in mark.args]:
        package = name.removeprefix(NPM)
        if package != name and not (NODE_MODULES / package).is_dir():
            missing(f"{package} is not in PLANNER_TEST_NODE_MODULES")
        if package == name and not shutil.which(name):
            missing(f"{name} is not installed")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print why tests were skipped, and how many for each reason."""
    reasons = _reasons(terminalreporter)
    if reasons:
        terminalreporter.section(f"{reasons.total()} skipped")
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count:5}  {reason}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where more tests were skipped than may be."""
    most, reporter = (
        session.config.getoption("--most-skips"),
        session.config.pluginmanager.getplugin("terminalreporter"),
    )
    if most is not None and reporter and (count := _reasons(reporter).total()) > most:
        reporter.line(f"\n{count} tests were skipped; --most-skips allows {most}.", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _reasons(reporter: pytest.TerminalReporter) -> Counter[str]:
    return Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in reporter.getreports("skipped"))
