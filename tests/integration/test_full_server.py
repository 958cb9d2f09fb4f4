"""A server of little memory, and peers that fill it: what they send is bounded, what is full can be emptied."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import OutOfMemoryError
from typer.testing import CliRunner, Result

from schemas import codec
from schemas.envelope import FieldError, Problem
from tests.conftest import running_worker, wait_until
from tests.support.engine import a_goal, container, drain, plan
from tests.support.messages import publish, report, work
from tests.support.servers import Fleet, Server, all_done
from tests.support.servers import publish as publish_many
from tests.support.stored import P0, plans, state
from worker.cli.commands.app import app
from worker.store import dead, functions, keys, memory
from worker.store.dead import Filter
from worker.streams.inbox import DEAD_PROBLEM_BYTES, Inbox, StreamEntry

pytestmark = pytest.mark.outages

MB = 1024 * 1024
GARBAGE = os.urandom(32 * 1024).hex().encode()
STREAMS = {keys.GOALS: keys.GOALS_DEAD, P0.outcomes: P0.dead, keys.COMMANDS: keys.COMMANDS_DEAD, P0.commands: P0.dead}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "server", "--maxmemory", str(48 * MB)) as server:
        yield server


@pytest.fixture
def redis(server: Server) -> Iterator[Redis]:
    with server.client() as client:
        yield client


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, server: Server) -> Callable[..., Result]:
    monkeypatch.setenv("PLANNER_REDIS_URL", server.url)
    monkeypatch.setenv("COLUMNS", "140")
    return lambda *words: CliRunner().invoke(app, list(map(str, words)))


def used(redis: Redis) -> float:
    found: Any = redis.info("memory")
    return memory.share_of(found)


def bytes_of(redis: Redis, stream: str) -> int:
    return int(redis.memory_usage(stream, samples=0) or 0)


def dead_letter(redis: Redis, stream: str, count: int, data: bytes, max_bytes: int) -> None:
    inbox = Inbox(redis, stream, STREAMS[stream], "me", dead_bytes=lambda: max_bytes)
    entry = StreamEntry(stream, b"1-1", {b"data": data, b"more": data[: 16 * 1024]})
    for _ in range(count):
        functions.call(redis, *inbox.dead_letter(entry, Problem.of("invalid_json", "It is wrong."))[0])


def flood(redis: Redis, stream: str, fields: dict[Any, Any]) -> None:
    """Publish as a peer that takes no heed: again and again while the server refuses."""

    def taken() -> bool:
        with suppress(OutOfMemoryError):
            return bool(redis.xadd(stream, fields))
        return False

    wait_until(taken, 60, "the server has room again")


def fill(redis: Redis, share: float) -> None:
    """Leave the server full to this share."""
    while used(redis) < share:
        redis.rpush("filler", b"x" * 100_000)


@contextmanager
def full(redis: Redis) -> Iterator[None]:
    """Leave the server without any room."""
    before: Any = redis.config_get("maxmemory")
    redis.config_set("maxmemory", 1)
    with pytest.raises(OutOfMemoryError):
        redis.set("more", 1)
    try:
        yield
    finally:
        redis.config_set("maxmemory", before["maxmemory"])


# --- what died is bounded by bytes ---


@pytest.mark.parametrize("stream", STREAMS)
def test_a_dead_stream_stays_within_its_bytes(redis: Redis, stream: str) -> None:
    functions.load(redis)

    for _ in range(4):
        dead_letter(redis, stream, 25, GARBAGE, 2 * MB)
        assert bytes_of(redis, STREAMS[stream]) < 2 * MB * 1.2

    assert redis.xlen(STREAMS[stream]) > 15
    assert bytes_of(redis, STREAMS[stream]) > MB


def test_small_entries_give_way_to_large_ones_and_large_ones_to_small_ones(redis: Redis) -> None:
    functions.load(redis)

    dead_letter(redis, P0.outcomes, 3000, b"small", 2 * MB)
    dead_letter(redis, P0.outcomes, 60, GARBAGE, 2 * MB)
    assert bytes_of(redis, P0.dead) < 2 * MB * 1.2
    dead_letter(redis, P0.outcomes, 3000, b"small", 2 * MB)
    assert bytes_of(redis, P0.dead) < 2 * MB * 1.2

    newest: Any = redis.xrevrange(P0.dead, count=1)
    assert newest[0][1][b"data"] == b"small"
    assert dead.count_forgotten(redis, 1) == 6060 - redis.xlen(P0.dead)


def test_one_entry_is_kept_even_where_there_is_room_for_none(redis: Redis) -> None:
    functions.load(redis)

    dead_letter(redis, P0.outcomes, 5, GARBAGE, 100)

    assert redis.xlen(P0.dead) == 1


def test_a_server_that_does_not_tell_sizes_keeps_fewer_entries(redis: Redis, server: Server) -> None:
    functions.load(redis)
    redis.execute_command("ACL", "SETUSER", "blind", "on", "nopass", "~*", "+@all", "-memory|usage")

    with Redis.from_url(server.url, username="blind", password="x") as blind:
        dead_letter(blind, P0.outcomes, 60, GARBAGE, 2 * MB)

    assert bytes_of(redis, P0.dead) < 2 * MB
    assert redis.xlen(P0.dead) >= 8


def test_the_reason_of_a_dead_entry_is_bounded_however_long_its_words_are(redis: Redis) -> None:
    functions.load(redis)
    errors = tuple(FieldError(pointer="/" + "\x01" * 100_000, code="wrong", message="é" * 9000) for _ in range(50))
    inbox = Inbox(redis, P0.outcomes, P0.dead, "me")
    entry = StreamEntry(P0.outcomes, b"1-1", {b"data": b"x"})

    functions.call(redis, *inbox.dead_letter(entry, Problem.of("invalid_message", "\x02" * 10**6, errors))[0])

    found: Any = redis.xrange(P0.dead)
    written = found[0][1][b"problem"]
    assert len(written) <= DEAD_PROBLEM_BYTES
    told = codec.loads(written)["problem"]
    assert told["errors"][0]["code"] == "wrong"
    assert told["errors"][0]["pointer"].startswith("/\x01")


@pytest.mark.long
def test_a_flood_of_garbage_does_not_keep_good_goals_and_outcomes_out(
    server: Server, redis: Redis, tmp_path: Path
) -> None:
    """Three times what the server holds, to every stream that a peer may write to."""
    log = tmp_path / "worker.log"
    with running_worker(server.url, log), Fleet(server.url):
        for _ in range(500):
            for stream in STREAMS:
                flood(redis, stream, {"data": GARBAGE})
        wait_until(lambda: not any(map(redis.xlen, STREAMS)), 120, "the garbage is taken")

        publish_many(redis, 0, 5)
        all_done(redis, 5)

    assert 0 < sum(bytes_of(redis, stream) for stream in set(STREAMS.values())) < 0.12 * 48 * MB
    assert used(redis) < 0.5


def test_outcomes_of_plans_that_are_not_there_leave_nothing_but_a_number(server: Server, redis: Redis) -> None:
    told = codec.dumps({"plan_id": "plan_00-" + "0" * 32, "step_id": "s", "success": True, "note": GARBAGE.decode()})
    with container(server.url) as here:
        for _ in range(50):
            report(redis, {"data": told})
        before = set(redis.keys())
        drain(here)

    assert redis.hget(P0.stats, "unknown") == b"50"
    assert (redis.xlen(P0.outcomes), redis.xlen(P0.dead), redis.xlen(P0.events)) == (0, 0, 0)
    assert set(redis.keys()) - before <= {P0.stats.encode(), P0.commands.encode(), P0.commits.encode()}


def test_what_is_free_again_is_noticed_though_the_server_was_asked_a_moment_ago(
    redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("worker.store.memory.time.monotonic", lambda: now[0])
    here = memory.ServerMemory(redis)
    assert here.takes_goals
    with full(redis):
        now[0] += memory.LOOK_S
        assert not here.takes_goals
    now[0] += memory.TIGHT_LOOK_S

    assert here.takes_goals


# --- who tells of it ---


def test_doctor_and_readiness_tell_that_the_server_is_nearly_full(
    server: Server, redis: Redis, run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANNER_STATE_DIR", str(tmp_path / "state"))
    with running_worker(server.url, tmp_path / "worker.log"):
        wait_until(lambda: run("health", "--ready").exit_code == 0, what="ready")
        assert codec.loads(run("doctor", "--json").stdout)["findings"] == []

        fill(redis, 0.92)

        wait_until(lambda: "% full: no step is started" in run("health", "--ready").output, what="not ready")
        assert run("health", "--ready").exit_code == 1
        (found,) = codec.loads(run("doctor", "--json").stdout)["findings"]
        assert (found["check"], found["severity"]) == ("server.memory", "error")
        assert "no step is started. Dead entries take 0%." in found["sentence"]

        redis.delete("filler")
        wait_until(lambda: run("health", "--ready").exit_code == 0, what="ready again")


def test_the_doctor_looks_at_every_plan_of_a_full_server(
    server: Server, redis: Redis, run: Callable[..., Result]
) -> None:
    with container(server.url) as here:
        running, ended = plan(here, redis, a_goal(3), a_goal(1))
        work(redis)
        drain(here)
    assert {state(redis, running), state(redis, ended)} == {"EXECUTING", "COMPLETED"}
    redis.hset(f"{P0.lease_prefix(ended)}s-0", "attempt", 1)
    before = codec.loads(run("doctor", "--json").stdout)

    with full(redis):
        found = codec.loads(run("doctor", "--json").stdout)

    assert "keys.lease" in {finding["check"] for finding in before["findings"]}
    assert [finding for finding in found["findings"] if finding["check"] != "server.memory"] == before["findings"]
    assert {**found, "findings": []} == {**before, "findings": []}


# --- commands that make room, on a server that has none ---


def test_dead_entries_can_be_dropped_on_a_full_server(redis: Redis, run: Callable[..., Result]) -> None:
    functions.load(redis)
    dead_letter(redis, P0.outcomes, 60, b"small", MB)
    dead_letter(redis, keys.GOALS, 60, b"small", MB)
    first, *_ = dead.newest(redis, 1, Filter(stream="0"))

    with full(redis):
        assert run("dead", "drop", first.name, "--yes").output == "Dropped 1.\n"
        dropped = run("dead", "drop", "--all", "--yes", "--json")

    assert (dropped.exit_code, codec.loads(dropped.stdout)) == (0, {"dropped": 119})
    assert (redis.xlen(P0.dead), redis.xlen(keys.GOALS_DEAD)) == (0, 0)
    assert redis.hget(P0.stats, "dead_dropped") == b"60"
    assert dead.count_forgotten(redis, 1) == 0


def test_dead_entries_can_be_dropped_where_no_worker_of_this_version_has_been(
    redis: Redis, run: Callable[..., Result]
) -> None:
    redis.xadd(P0.dead, {"data": "x"})

    with full(redis):
        assert run("dead", "drop", "--all", "--yes").output == "Dropped 1.\n"

    assert redis.xlen(P0.dead) == 0


def test_a_replay_on_a_full_server_is_refused_with_a_sentence(redis: Redis, run: Callable[..., Result]) -> None:
    functions.load(redis)
    dead_letter(redis, P0.outcomes, 1, b"small", MB)

    with full(redis):
        refused = run("dead", "replay", "--all")
        submitted = run("submit", "--goal", "Fix it", "--file", "a.py")

    assert refused.exit_code == submitted.exit_code == 1
    assert "memory is full" in refused.stderr
    assert "memory is full" in submitted.stderr
    assert redis.xlen(P0.dead) == 1


@pytest.mark.parametrize("words", [["halt"], ["cancel"], ["halt", "--all"], ["cancel", "--tenant", "default"]])
def test_plans_can_be_ended_on_a_full_server(
    redis: Redis, server: Server, run: Callable[..., Result], tmp_path: Path, words: list[str]
) -> None:
    with running_worker(server.url, tmp_path / "worker.log"):
        publish(redis, a_goal(2))
        wait_until(lambda: redis.zcard(P0.plans) == 1 and redis.xlen(keys.GOALS) == 0, what="planned")
        (plan_id,) = plans(redis)

        with full(redis):
            target = [] if len(words) > 1 else [plan_id]
            ended = run(*words, *target, "--yes", "--reason", "it is full")
            assert (ended.exit_code, ended.output) == (0, f"{words[0]}: done\n")
            wait_until(lambda: state(redis, plan_id) == "HALTED", what="the plan ends")


def test_orders_do_not_fill_a_full_server_either(redis: Redis, run: Callable[..., Result]) -> None:
    functions.load(redis)

    with full(redis):
        for _ in range(1000):
            functions.call(redis, "FCALL", functions.PUBLISH_COMMAND, 1, keys.COMMANDS, "{}")
        with pytest.raises(OutOfMemoryError):
            functions.call(redis, "FCALL", functions.PUBLISH_COMMAND, 1, keys.COMMANDS, "{}")

    assert redis.xlen(keys.COMMANDS) == 1000


def test_a_stream_can_be_read_on_a_full_server_that_never_had_its_group(server: Server, redis: Redis) -> None:
    functions.load(redis)
    report(redis, {"data": b"garbage"})
    publish(redis, b"garbage")

    with container(server.url) as here, full(redis):
        drain(here)
        here.goal_consumer.drain()
        here.bulk_commands.drain()

    assert (redis.xlen(P0.outcomes), redis.xlen(P0.dead), redis.xlen(keys.GOALS_DEAD)) == (0, 1, 1)


def test_a_goal_that_comes_again_to_a_full_server_is_a_duplicate(server: Server, redis: Redis) -> None:
    with container(server.url) as here:
        plan(here, redis, a_goal(1, goal_id="again"))
        publish(redis, a_goal(1, goal_id="again"))
        with full(redis):
            while here.goal_consumer.drain():
                pass

    assert redis.hget(keys.GOALS_STATS, "duplicate") == b"1"
    assert (redis.xlen(keys.GOALS), redis.xlen(keys.GOALS_DEAD)) == (0, 0)


def test_a_goal_is_answered_though_the_server_became_full_while_it_was_planned(
    server: Server, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with container(server.url) as here:
        make = here.plan_creation.create

        def and_fill(*args: Any) -> Any:
            made = make(*args)
            redis.config_set("maxmemory", 1)
            return made

        monkeypatch.setattr(here.plan_creation, "create", and_fill)
        publish(redis, a_goal(1, goal_id="g"))
        while here.goal_consumer.drain():
            pass
        redis.config_set("maxmemory", 0)

    assert redis.hget(keys.goal_id("g"), "verdict") == b"PLANNED"
    assert redis.hget(keys.GOALS_STATS, "PLANNED") == b"1"
    assert (redis.xlen(keys.GOALS), redis.xlen(keys.GOALS_DEAD)) == (0, 0)


def test_a_goal_for_which_there_was_room_until_it_was_claimed_is_dead_with_that_reason(
    server: Server, redis: Redis
) -> None:
    with container(server.url) as here:
        assert here.memory.takes_goals
        publish(redis, a_goal(1, goal_id="g"))
        with full(redis):
            here.goal_consumer.drain()

    (buried,) = dead.newest(redis, 1, Filter())
    assert buried.code == "out_of_memory"
    assert not redis.exists(keys.goal_id("g"))


def test_a_worker_that_starts_on_a_full_server_makes_room_for_its_functions(
    server: Server, redis: Redis, tmp_path: Path
) -> None:
    with suppress(OutOfMemoryError):
        while True:
            redis.xadd(P0.dead, {"data": GARBAGE})

    with running_worker(server.url, tmp_path / "worker.log") as worker:
        assert worker.logged("dead entries gave way")
        assert not worker.logged("functions not loaded")
        assert used(redis) < 0.3
        publish(redis, a_goal(1))
        wait_until(lambda: redis.zcard(P0.plans) == 1, what="a goal is planned")
