"""Whatever stands in an entry: it is applied, refused or dead with a reason, and a plan beside it takes no notice.

`--fuzz-entries 100000` sends more, `--fuzz-seed N` others.
"""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from tests.bench import fleet
from tests.conftest import connect, running_worker, wait_until
from tests.support.forge import Forge
from tests.support.recount import Recount
from worker.store import keys
from worker.store.keys import CONTROLLERS, GROUP, Partition

PARTITIONS = 2
HOMES = [Partition(number) for number in range(PARTITIONS)]
INBOUND = (keys.GOALS, keys.COMMANDS, *(home.outcomes for home in HOMES), *(home.commands for home in HOMES))
DEAD = (keys.GOALS_DEAD, keys.COMMANDS_DEAD, *(home.dead for home in HOMES))
BATCH = 250
LIVE_STEPS = 200
VERDICTS = ("applied", "duplicate", "late", "unknown", "refused")
BESIDE = (b"unknown_fields", b"dead", b"queue:")  # begin the counters of goals that count no answers
ORDERED = frozenset(f"dev.planner.command.{what}.v1".encode() for what in ("obeyed", "refused", "known"))


class Beside:
    """A plan that nobody means, on a queue of its own, which a controller works on all the while."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        goal = codec.loads(fleet.goal(0, LIVE_STEPS)) | {"goal_id": "live", "queue": "live", "tenant": "alone"}
        redis.xadd(keys.GOALS, {"data": codec.dumps(goal)})
        wait_until(lambda: redis.hget(keys.goal_id("live", "alone"), "verdict") == b"PLANNED", what="the live plan")
        found: Any = redis.hget(keys.goal_id("live", "alone"), "plan_id")
        self.plan_id = found.decode()
        self._home = HOMES[int(self.plan_id[5:7], 16) % PARTITIONS]
        self.answered = 0

    def go_on(self) -> None:
        """Answer what waits."""
        queue = self._home.steps("live")
        reply: Any = self._redis.xreadgroup(CONTROLLERS, "ctl", {queue: ">"})
        specs = [codec.loads(fields[b"data"]) for _, found in reply or () for _, fields in found]
        fleet.answer(self._redis, specs)
        self.answered += len(specs)

    def is_over(self) -> bool:
        """Go on; whether the plan is completed."""
        self.go_on()
        return bool(self.recount.state == "COMPLETED")

    @property
    def recount(self) -> Recount:
        """The plan, counted again."""
        return Recount(self._redis, self.plan_id, self._home)


class Answers:
    """Counts what became of entries: verdicts, events of orders, answers to goals, and the dead with their reason."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._seen = dict.fromkeys((home.events for home in HOMES), b"0")
        self.commands = 0

    def follow(self) -> None:
        """Read new events, before the stream is cut; an order about more than one plan is told in every partition."""
        seen: Any = self._seen
        while found := self._redis.xread(seen, count=1000):
            told: Any = found
            for stream, entries in told:
                self._seen[stream.decode()] = entries[-1][0]
                for _, fields in entries:
                    wide = b'"scope"' in fields[b"data"]
                    counts = fields[b"type"] in ORDERED and not (wide and stream.decode() != HOMES[0].events)
                    self.commands += counts

    def outcomes(self) -> int:
        """How many outcomes have their verdict."""
        found = [self._redis.hmget(home.stats, *VERDICTS) for home in HOMES]
        return sum(int(count or 0) for counts in found for count in counts)

    def goals(self) -> int:
        """How many goals have their answer."""
        found: Any = self._redis.hgetall(keys.GOALS_STATS)
        return sum(int(count) for name, count in found.items() if not name.startswith(BESIDE))

    def dead(self) -> dict[str, list[dict[str, Any]]]:
        """The problems of the dead, by the stream that they came on."""
        found: dict[str, list[dict[str, Any]]] = {}
        for stream in DEAD:
            entries: Any = self._redis.xrange(stream)
            for _, fields in entries:
                entry = codec.loads(fields[b"problem"])
                found.setdefault(entry["stream"], []).append(entry["problem"])
        return found


def sent_to(sent: Counter[str], what: str) -> int:
    """How many entries went to the streams of this name."""
    return sum(count for stream, count in sent.items() if stream.endswith(what))


def in_flight(redis: Redis) -> list[dict[str, Any]]:
    """Some of the attempts that wait for an outcome."""
    found: list[Any] = [redis.xrevrange(home.steps("default"), count=20) for home in HOMES]
    return [codec.loads(fields[b"data"]) for entries in found for _, fields in entries]


def waiting(redis: Redis) -> int:
    """How many entries no worker has done with."""
    return sum(redis.xlen(stream) for stream in INBOUND)


def left(redis: Redis) -> dict[str, Any]:
    """What every stream holds, the first of it, and how much of it is read and not acknowledged."""
    found = {}
    for stream in INBOUND:
        pending: Any = redis.xpending(stream, GROUP)
        if (length := redis.xlen(stream)) or pending["pending"]:
            found[stream] = (length, pending["pending"], redis.xrange(stream, count=1))
    return found


def test_no_entry_goes_without_an_answer_and_none_stops_a_worker(
    request: pytest.FixtureRequest, redis_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count, seed = request.config.getoption("--fuzz-entries"), request.config.getoption("--fuzz-seed")
    settings = {"PLANNER_PARTITIONS": str(PARTITIONS), "PLANNER_MAX_DEAD": str(10 * count)}
    settings["PLANNER_STATE_DIR"] = str(tmp_path)
    forge, sent = Forge(seed, PARTITIONS), Counter[str]()
    with connect(redis_url) as redis, running_worker(redis_url, tmp_path / "worker.log", **settings) as worker:
        live, answers = Beside(redis), Answers(redis)

        def settled() -> bool:
            assert worker.process.poll() is None
            live.go_on()
            answers.follow()
            return waiting(redis) < BATCH

        while sent.total() < count:
            pipeline = redis.pipeline(transaction=False)
            for _ in range(min(BATCH, count - sent.total())):
                stream, fields = forge.entry()
                pipeline.xadd(stream, fields)
                sent[stream] += 1
            pipeline.execute()
            wait_until(settled, timeout=60, what=f"entries of seed {seed} are taken, {sent}")
            forge.specs = in_flight(redis)

        wait_until(live.is_over, timeout=120, what="the live plan completes")
        with suppress(pytest.fail.Exception):
            wait_until(lambda: not left(redis), timeout=20)
        assert left(redis) == {}
        answers.follow()
        dead = answers.dead()
        with capsys.disabled():
            sys.stdout.write(f"\n{figures(seed, sent, answers, dead)}\n")

        wait_until(lambda: answers.outcomes() + len(of(dead, ":outcomes")) == sent_to(sent, ":outcomes") + LIVE_STEPS)
        assert answers.goals() + len(of(dead, "planner:goals")) == sent[keys.GOALS] + 1
        assert answers.commands + len(of(dead, "commands")) == sent_to(sent, "commands")
        assert [problem for problem in of(dead, "") if not (problem["code"] and problem["detail"])] == []
        assert [
            problem for problem in of(dead, "") if problem["code"] in ("poison", "unreadable", "internal_error")
        ] == []
        assert live.recount.faults() == []
        assert {attempt for _, attempt, *_ in live.recount.ends()} == {1}
        defects = ("decision failed", "plain decision failed", "goal failed")
        assert [record["event"] for event in defects for record in worker.logged(event)] == []


def of(dead: dict[str, list[dict[str, Any]]], what: str) -> list[dict[str, Any]]:
    """The dead that came on streams of this name."""
    return [problem for stream, problems in dead.items() if stream.endswith(what) for problem in problems]


def figures(seed: int, sent: Counter[str], answers: Answers, dead: dict[str, list[dict[str, Any]]]) -> str:
    """Tell what was sent and what became of it."""
    codes = Counter(problem["code"] for problem in of(dead, ""))
    lines = {
        f"sent, of seed {seed}": ", ".join(f"{count} to {stream}" for stream, count in sorted(sent.items())),
        "outcomes with a verdict": answers.outcomes(),
        "goals answered": answers.goals(),
        "orders obeyed, refused or known": answers.commands,
        "dead": ", ".join(f"{count} {code}" for code, count in codes.most_common()),
    }
    return "\n".join(f"{name:32}{value}" for name, value in lines.items())
