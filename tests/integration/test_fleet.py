"""Who works and who waits: queues and controllers, as streams and leases on a real server show them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner

from schemas import codec
from tests.conftest import wait_until
from tests.support.engine import a_goal, drain, plan
from tests.support.messages import answer, report
from worker.cli.commands.app import app
from worker.doctor import server
from worker.doctor.finding import Site
from worker.process.container import Container
from worker.store import fleet
from worker.store.keys import CONTROLLERS, Partition

GPU = Partition(0).steps("gpu")
INFO = b'{"version": "1.4", "host": "build-7", "abilities": ["pytest", 7]}'


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch, server_url: str) -> Any:
    monkeypatch.setenv("PLANNER_REDIS_URL", server_url)
    monkeypatch.setenv("COLUMNS", "160")
    return lambda *words: CliRunner().invoke(app, list(words))


def take(redis: Redis, name: str) -> dict[str, Any]:
    """Read a step as the controller `name` does."""
    found: Any = redis.xreadgroup(CONTROLLERS, name, {GPU: ">"}, count=1)
    spec: dict[str, Any] = codec.loads(found[0][1][0][1][b"data"])
    return spec


def beat(redis: Redis, spec: dict[str, Any], name: str, *more: Any) -> Any:
    return redis.fcall("planner_heartbeat", 1, spec["lease_key"], spec["attempt"], spec["lease"], name, *more)


def three_steps(here: Container, redis: Redis) -> None:
    for _ in range(3):
        plan(here, redis, {**a_goal(1), "queue": "gpu"})


def test_who_read_a_step_and_sent_no_heartbeat_holds_it_all_the_same(here: Container, redis: Redis) -> None:
    three_steps(here, redis)
    spec = take(redis, "ctl-1")
    (shown,) = fleet.controllers(redis)
    (step,) = shown.steps
    assert (step.plan_id, step.since, step.heartbeat_at) == (spec["plan_id"], None, None)


def test_a_queue_says_what_waits_what_is_claimed_and_who_reads(here: Container, redis: Redis, planner: Any) -> None:
    assert codec.loads(planner("queues", "--json").stdout) == []
    three_steps(here, redis)
    (unread,) = fleet.queues(redis)
    assert (unread.queue, unread.length, unread.waiting, unread.readers) == ("gpu", 3, 3, 0)

    spec = take(redis, "ctl-1")
    (queue,) = codec.loads(planner("queues", "--json").stdout)
    assert (queue["length"], queue["waiting"], queue["claimed"], queue["readers"]) == (3, 2, 1, 1)
    assert 0 <= queue["oldest_ms"] < 60_000
    assert "gpu" in planner("queues").stdout

    report(redis, answer(spec))
    drain(here)
    (queue,) = codec.loads(planner("queues", "--json").stdout)
    assert (queue["length"], queue["claimed"]) == (2, 0)


def test_a_controller_is_shown_with_its_step_its_heartbeat_and_what_it_says_of_itself(
    here: Container, redis: Redis, planner: Any
) -> None:
    three_steps(here, redis)
    claimed, silent = take(redis, "ctl-1"), take(redis, "ctl-2")
    assert beat(redis, claimed, "ctl-1", "", INFO)[0] == b"continue"
    assert beat(redis, claimed, "ctl-1")[0] == b"continue"  # what was said before stays
    assert beat(redis, silent, "host-7")[0] == b"continue"  # the controllers of a host may claim under one name

    first, second = codec.loads(planner("controllers", "--json").stdout)
    assert (first["name"], first["queues"], first["info"]) == ("ctl-1", ["gpu"], codec.loads(INFO))
    (step,) = first["steps"]
    assert (step["plan_id"], step["step_id"], step["attempt"]) == (claimed["plan_id"], claimed["step_id"], 1)
    assert step["since"] <= step["heartbeat_at"]
    assert (second["name"], second["info"]) == ("ctl-2", None)
    assert [each["plan_id"] for each in second["steps"]] == [silent["plan_id"]]
    drawn = planner("controllers").stdout
    assert "build-7" in drawn
    assert "1.4" in drawn
    assert "pytest, 7" in drawn
    assert claimed["step_id"] in drawn


def test_what_controllers_have_done_is_counted_by_the_planner_and_shown_of_idle_ones(
    here: Container, redis: Redis, planner: Any
) -> None:
    plan(here, redis, *[{**a_goal(1), "queue": "gpu"} for _ in range(5)])
    back = {"success": False, "released": {"reason": "no tools"}, "touched_files": []}
    failed = {"success": False, "touched_files": [], "failure_evidence": {"category": "TEST_FAILURE"}}
    told: list[tuple[str, dict[str, Any]]] = [("key/one", {}), ("key/one", {}), ("key/one", back), ("two", failed)]
    for name, said in [*told, ("two", {})]:
        spec = take(redis, f"{name}-1" if name == "two" else name)
        beat(redis, spec, name)
        report(redis, answer(spec, **said))
        drain(here)

    shown = codec.loads(planner("controllers", "--json").stdout)

    assert [(each["name"], each["state"], each["done"], each["failed"]) for each in shown] == [
        ("key/one", "idle", 2, 0),
        ("two-1", "idle", 1, 1),
    ]
    (counts,) = redis.keys(Partition(0).tag + "worked:*")
    assert 86_400 < redis.ttl(counts) <= 2 * 86_400
    redis.set(counts, "no hash")
    assert [each["done"] for each in codec.loads(planner("controllers", "--json").stdout)] == [0, 0]


def test_of_controllers_that_are_idle_or_unknown_it_is_said_why_nothing_is_told(
    here: Container, redis: Redis, planner: Any
) -> None:
    unknown = planner("controllers").stdout
    three_steps(here, redis)
    take(redis, "ctl-1")
    busy = planner("controllers").stdout
    redis.xgroup_createconsumer(GPU, CONTROLLERS, "ctl-2")
    waits = planner("controllers").stdout

    assert "over HTTP while it has a step in hand" in " ".join(unknown.split())
    assert "idle" not in busy
    assert re.search(r"idle \d+ s", waits)
    assert "A controller without an attempt of today" in waits


@pytest.mark.parametrize("said", [b"x" * 513, b"no JSON", b"[1]", b'"\x1b[31m"'])
def test_what_is_no_small_object_is_not_shown(here: Container, redis: Redis, said: bytes) -> None:
    three_steps(here, redis)
    spec = take(redis, "ctl-1")
    assert beat(redis, spec, "ctl-1", "", said)[0] == b"continue"
    (shown,) = fleet.controllers(redis)
    assert (shown.name, shown.info) == ("ctl-1", None)


def test_an_idle_controller_has_the_info_of_its_last_attempts(here: Container, redis: Redis, planner: Any) -> None:
    three_steps(here, redis)
    spec = take(redis, "ctl-1")
    beat(redis, spec, "ctl", "", b'{"version": "1.2", "abilities": ["holdout"]}')
    report(redis, answer(spec))
    drain(here)

    (shown,) = fleet.controllers(redis)

    assert (shown.name, shown.state, shown.done) == ("ctl-1", "idle", 1)
    assert shown.info == {"version": "1.2", "abilities": ["holdout"]}
    assert "1.2" in planner("controllers").stdout


def test_the_doctor_finds_a_queue_that_nobody_reads(
    here: Container, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_steps(here, redis)
    site = Site(redis, 1, 86_400, 60_000)
    assert list(server.readers(site)) == []  # it is young
    monkeypatch.setattr(server, "UNREAD_MS", -1)
    assert [(each.check, each.subject) for each in server.readers(site)] == [("queue.unread", "gpu")]
    take(redis, "ctl-1")
    assert list(server.readers(site)) == []
    monkeypatch.setattr(fleet, "RECENT_MS", -1)  # nobody has asked of late: its only controller is busy
    assert list(server.readers(site)) == []


def test_show_says_since_when_a_step_waits_or_runs_and_with_whom(here: Container, redis: Redis, planner: Any) -> None:
    (plan_id,) = plan(here, redis, {**a_goal(1), "queue": "gpu"})

    def first() -> tuple[dict[str, Any], str]:
        told = codec.loads(planner("show", plan_id, "--json").stdout)
        return told["steps"][0]["activity"], planner("show", plan_id).stdout

    waiting, drawn = first()
    assert (waiting["kind"], waiting["reason"], waiting["controller"]) == (
        "queued",
        "no controller reads queue `gpu`",
        None,
    )
    assert re.search(r"queued \d+ s: no controller reads queue `gpu`", drawn)
    spec = take(redis, "ctl-7")
    read, drawn = first()
    assert (read["kind"], read["controller"], read["heartbeat_at"]) == ("running", "ctl-7", None)
    assert re.search(r"running \d+ s on ctl-7", drawn)
    redis.hset(spec["lease_key"], "claimed", "\x1b[31m")  # whatever a controller writes
    assert first()[0]["since"] is None
    redis.hdel(spec["lease_key"], "claimed")
    beat(redis, spec, "host-3/ctl-7")
    redis.hset(spec["lease_key"], mapping={"claimed": 1_000_000_000_000, "renewed": 1_000_000_040_000})
    claimed, drawn = first()
    assert (claimed["controller"], claimed["since"]) == ("host-3/ctl-7", "2001-09-09T01:46:40.000Z")
    assert claimed["heartbeat_at"] == "2001-09-09T01:47:20.000Z"
    assert "on host-3/ctl-7, last heartbeat" in drawn
    report(redis, answer(spec, success=False, released={"reason": "no tools"}, touched_files=[]))
    drain(here)
    rests, drawn = first()
    assert (rests["kind"], bool(rests["until"])) == ("backoff", True)
    assert "next attempt in" in drawn

    order = {"command": "halt", "command_id": "c-1", "scope": "plan", "plan_id": plan_id, "actor": "ada", "reason": "x"}
    redis.xadd(Partition(0).commands, {"data": codec.dumps(order)})

    def does_nothing() -> bool:
        drain(here)  # which looks for commands now and then
        return first()[0] is None

    wait_until(does_nothing, what="a step of a plan that has ended does nothing")
    assert "not run again" in first()[1]
    assert "ACTIVE" not in first()[1]
