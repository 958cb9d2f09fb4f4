"""Every plan of a run is decided again from its export: `python -m tests.chaos.replays --plans 500 --pool prefork`.

That runs random plans through real workers to which nothing happens, and prints what a replay of all of them says.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tasks.plan.changeset import Changeset
from tasks.record.recorded_plan import RecordedPlan
from tasks.record.replay import Replay, Result, replay
from tests.chaos import goals
from tests.chaos.controllers import Specs, fleet
from tests.chaos.machine import CONSTANTS
from tests.chaos.people import People
from tests.conftest import connect, wait_until
from tests.support import faults, launch
from tests.support.recount import ENDED, HOME, plans
from tests.support.servers import Server
from worker.store import export, keys

ADDED = codec.dumps(launch.ADDED)[1:-1]


@dataclass
class Replays:
    """What replays of many plans came to."""

    results: Counter[str] = field(default_factory=Counter)
    assumed: Counter[str] = field(default_factory=Counter)
    lines: int = 0
    specs: int = 0  # that came out as they were handed out
    wrong: list[Any] = field(default_factory=list)

    def __str__(self) -> str:
        results = ", ".join(f"{count} {result}" for result, count in self.results.items())
        assumed = "".join(f"; {count}: {sentence}" for sentence, count in self.assumed.items())
        return f"{results}, {self.lines} lines, {self.specs} specs as they were handed out{assumed}"


def replay_all(client: Redis, plan_ids: Iterable[str], specs: Specs, patch: pytest.MonkeyPatch) -> Replays:
    """Replay plans with the clocks of the run; each spec that was handed out has to come out again, byte for byte."""
    for path, value in CONSTANTS.items():
        if path.startswith("tasks."):
            for module in launch.modules_with(path):
                patch.setattr(module, path.rpartition(".")[2], value)
    found = Replays()
    for plan_id in plan_ids:
        made: Specs = {}

        def keep(change: Changeset, made: Specs = made) -> None:
            for one in change.dispatches:
                made[change.plan_id, one.step_id, one.attempt.attempt] = one.spec

        document = b"".join(export.export(client, 1, plan_id))
        if ADDED in document:
            found.results["partly written by a version to come"] += 1  # this one cannot write what that adds
            continue
        _count(found, replay(RecordedPlan.read(document), keep))
        mine = {place: spec for place, spec in specs.items() if place[0] == plan_id}
        found.specs += len(mine)
        found.wrong += [(place, spec, made.get(place)) for place, spec in mine.items() if made.get(place) != spec]
    return found


def _count(found: Replays, one: Replay) -> None:
    found.results[one.result] += 1
    found.assumed.update(one.assumed)
    found.lines += one.lines
    if one.result is not Result.EQUAL:
        found.wrong.append(one)


def run_plans(directory: Path, pool: str, count: int, seed: int, patch: pytest.MonkeyPatch) -> Replays:
    """Have a worker of `pool` run `count` random plans to their ends, and replay them all."""
    tally: Counter[str] = Counter()
    specs: Specs = {}
    with Server(directory, fsync="always") as server, connect(server.url) as redis:
        people = People(server.url, seed, count, count / 20, tally)
        worker = faults.spawn(launch.command(CONSTANTS, pool=pool), server.url, directory / "worker.log")
        try:
            with fleet(server.url, seed, tally, specs):
                people.start()
                wait_until(lambda: people.done and not _open(redis, count, seed), 60 + 2 * count, "plans have ended")
                people.finish()
        finally:
            faults.kill(worker)
        return replay_all(redis, plans(redis), specs, patch)


def _open(redis: Redis, count: int, seed: int) -> bool:
    """Whether a plan has not ended."""
    ids: list[Any] = [redis.hget(keys.goal_id(goals.goal_id(number, seed)), "plan_id") for number in range(count)]
    pipeline = redis.pipeline(transaction=False)
    for plan_id in ids:
        pipeline.hget(HOME.plan((plan_id or b"none").decode()).plan, "state")
    return any((state or b"").decode() not in ENDED for state in pipeline.execute())


def main() -> int:
    """Return 1 where a plan comes out otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.replays", description=__doc__)
    parser.add_argument("--plans", type=int, default=500)
    parser.add_argument("--pool", choices=("prefork", "solo"), default="prefork")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        found = run_plans(Path(directory), asked.pool, asked.plans, asked.seed, patch)
    sys.stdout.write(f"seed {asked.seed}, {asked.pool}: {found}\n")
    for wrong in found.wrong[:5]:
        sys.stdout.write(f"{wrong}\n")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
