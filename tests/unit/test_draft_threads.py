"""The threads in which drafters are asked: whatever goes wrong in one, its place is free again."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tests.conftest import wait_until
from worker.process.draft_threads import DraftThreads


def note(event: threading.Event) -> Callable[[], bool]:
    def work() -> bool:
        event.set()
        return False

    return work


def test_a_thread_that_cannot_be_had_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    threads, given_up, done = DraftThreads(1), threading.Event(), threading.Event()
    start = threading.Thread.start

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    threads.begin(note(given_up))
    monkeypatch.setattr(threading.Thread, "start", start)

    threads.begin(note(done))

    assert done.wait(5)
    threads.stop()
    assert not given_up.is_set()


@pytest.mark.parametrize("error", [SystemExit(1), MemoryError(), ValueError("x")])
def test_work_that_ends_in_any_error_leaves_its_place_to_the_next(error: BaseException) -> None:
    threads = DraftThreads(1)
    begun: list[int] = []

    def fail() -> bool:
        begun.append(1)
        raise error

    def again(count: int) -> Callable[[], bool]:
        threads.begin(fail)
        return lambda: len(begun) >= count

    for count in (1, 2, 3):
        wait_until(again(count), what="the work is begun")
    threads.stop()
