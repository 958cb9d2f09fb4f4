"""A plugin of pytest: kills the processes that a test leaves behind, and fails the test unless it has failed already.

Fixtures with a wider scope than a test keep their processes until they end. Without /proc the plugin finds nothing.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "STARTED_BY_TESTS_IN"  # what tests start inherits it, so that it is known even where its parent has ended
ENDED = "ZX"  # states of a process: a zombie, and one that is gone
GRACE_S = 10.0  # for processes that are about to end by themselves

_folder = ""  # of this pytest's temporary files; VARIABLE has it
_before = set[int]()  # the test began
_failures = 0  # before the test began
_kept = dict[Any, set[int]]()  # processes of fixtures that live longer than a test
_ended = set[int]()  # those whose fixture ended in this test


@pytest.fixture(scope="session", autouse=True)
def _mark_of_this_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Mark the processes that tests start, by an environment variable and by their working folder."""
    global _folder
    _folder = f"{tmp_path_factory.getbasetemp()}/"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, _folder)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remember the processes that ran before the test."""
    global _before, _failures
    _before, _failures = _before or _processes(), item.session.testsfailed


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
    """Remember the processes that a fixture with a wider scope than a test has started."""
    if fixturedef.scope == "function":
        return (yield)
    before = _processes()
    result = yield
    _kept[fixturedef] = {pid for pid in _processes() - before if _is_ours(pid)}
    return result


def pytest_fixture_post_finalizer(fixturedef: pytest.FixtureDef[Any]) -> None:
    """Blame the test in which a fixture ends for the processes that the fixture has left behind."""
    _ended.update(_kept.pop(fixturedef, ()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Kill the processes that are left, and fail the test for them unless it has failed already."""
    global _before
    try:
        yield
    except BaseException:
        _kill(_left(_processes()))
        raise
    deadline = time.monotonic() + GRACE_S
    while (
        (left := _left(running := _processes()))
        and item.session.testsfailed == _failures
        and time.monotonic() < deadline
    ):
        time.sleep(0.01)
    words = [_words(pid) for pid in left]
    _kill(left)
    _ended.clear()
    _before = running - {*left}
    if left and item.session.testsfailed == _failures:
        pytest.fail("left behind: " + "; ".join(words), pytrace=False)


def _processes() -> set[int]:
    with suppress(OSError):
        return {int(name) for name in os.listdir("/proc") if name.isdigit()}  # noqa: PTH208 - this is asked after every test
    return set()


def _left(running: set[int]) -> list[int]:
    """List those of the processes that are `running` that the test has left behind."""
    kept = set[int]().union(*_kept.values())
    return [pid for pid in (running - _before - kept) | _ended if _is_ours(pid)]


def _is_ours(pid: int) -> bool:
    """Return whether a process is alive and descends from this test, and not from a fixture with a wider scope."""
    if not is_alive(pid):
        return False
    kept, ours = set[int]().union(*_kept.values()), False
    while pid > 1 and pid not in kept:
        if pid == os.getpid():
            return True
        ours = ours or _is_marked(pid)
        pid = _state(pid)[1]
    return ours and pid not in kept


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    return _state(pid)[0] not in ENDED


def _state(pid: int) -> tuple[str, int]:
    """Return the state of a process, and its parent."""
    try:
        state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return ENDED[-1], 0
    return state, int(parent)


def _is_marked(pid: int) -> bool:
    """Whether a process has the variable, or works below the folder; some programs write over their environment."""
    try:
        variables, place = Path(f"/proc/{pid}/environ").read_bytes(), Path(f"/proc/{pid}/cwd").readlink()
        return bool(_folder) and (_folder.encode() in variables or f"{place}/".startswith(_folder))
    except OSError:
        return False


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return f"process {pid}"


def _kill(pids: list[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + GRACE_S
    while any(is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
