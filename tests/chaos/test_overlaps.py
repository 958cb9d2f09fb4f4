"""Overlapping plans that wait for each other, while workers and the server are killed.

Never do two plans work on one file before the first has ended; at the end nothing is claimed, and no plan waits.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tasks.record.replay import Result
from tests.chaos import goals, replays
from tests.chaos.run import Run, check, complaint, figures, live_through, machines, recounts, say
from tests.conftest import connect
from tests.support.recount import plans
from tests.support.shared_files import shared_files

SHARE = 1 / 3  # of --chaos-minutes
TOGETHER = 3  # plans of a repository
APART = 10  # repositories that are published in turn
PATIENCE_S = 300  # plans that take turns take as long as all of them together

pytestmark = pytest.mark.chaos
alone = goals.goal


def beside_others(number: int, seed: int) -> dict[str, Any]:
    """A goal of a repository that has a few; its plan waits for those whose files it may patch."""
    repo = f"acme/r{number // (APART * TOGETHER)}-{number % APART}"
    return {**alone(number, seed), "overlap": "wait", "context": {"repo": repo}}


@pytest.fixture
def run(request: pytest.FixtureRequest) -> Run:
    seed = request.config.getoption("--chaos-seed")
    minutes = request.config.getoption("--chaos-minutes") * SHARE
    return Run(int(time.time()) if seed is None else seed, minutes, Counter(), time.monotonic(), 0.0, PATIENCE_S)


def test_plans_that_wait_for_files_never_share_one_and_none_waits_for_ever(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(goals, "goal", beside_others)
    with machines(tmp_path, run) as (server, workers), connect(server.url) as redis:
        try:
            live_through(run, server, workers, redis)
            assert workers.stop() == [0, 0]
            found = recounts(redis, run)
            check(run, redis, found)
            waited = shared_files(redis)
            assert list(redis.scan_iter("planner:{0}:claims*", count=1000)) == []
            with monkeypatch.context() as patch:
                replayed = replays.replay_all(redis, plans(redis), run.specs, patch)
            assert replayed.wrong == []
            assert replayed.results == {Result.EQUAL: run.count}
        except BaseException:
            say(capsys, complaint(run, redis))
            raise
        say(capsys, figures(run, redis, workers, found) + f"\n{'plans that waited for files':32}{waited}")
        assert waited
