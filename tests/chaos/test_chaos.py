"""Everything fails at once, for minutes; at the end every plan has ended and nothing was lost or done twice.

`uv run pytest -m chaos`; `--chaos-seed N` plays the same faults again, as far as real processes can.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from tasks.record.replay import Result
from tests.chaos import replays
from tests.chaos.run import Run, check, complaint, figures, live_through, machines, recounts, say
from tests.conftest import connect
from tests.support.recount import plans

NEWER_SHARES = {"two versions": 0.4, "this version": 0.0}  # of the workers that take the place of others

pytestmark = pytest.mark.chaos


@pytest.fixture(params=list(NEWER_SHARES.values()), ids=list(NEWER_SHARES))
def run(request: pytest.FixtureRequest) -> Run:
    """Take the options of the command line, whose minutes the runs share; without a seed the time is one."""
    seed = request.config.getoption("--chaos-seed")
    minutes = request.config.getoption("--chaos-minutes") / len(NEWER_SHARES)
    return Run(int(time.time()) if seed is None else seed, minutes, Counter(), time.monotonic(), request.param)


def test_nothing_is_lost_and_nothing_happens_twice(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with machines(tmp_path, run) as (server, workers), connect(server.url) as redis:
        try:
            live_through(run, server, workers, redis)
            assert workers.stop() == [0, 0]
            found = recounts(redis, run)
            check(run, redis, found)
            with monkeypatch.context() as patch:
                replayed = replays.replay_all(redis, plans(redis), run.specs, patch)
            assert replayed.wrong == []
            assert run.newer_share or replayed.results == {Result.EQUAL: run.count}
            assert workers.logged("data rolled back") == 0
            assert workers.logged("plan unreadable") == 0
        except BaseException:
            say(capsys, complaint(run, redis))
            raise
        say(capsys, figures(run, redis, workers, found) + f"\n{'replayed':32}{replayed}")
