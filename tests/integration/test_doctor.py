"""The doctor on plans that were made and run the real way, and then damaged one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from schemas import codec
from tests.conftest import wait_until
from tests.support.planner import SHAPES, Planner, asking, completed, executing, halted, large, retried
from tests.support.roles import user
from tests.support.servers import Server
from worker.cli.commands.app import app
from worker.doctor.finding import Finding, Repair, Site, mend
from worker.doctor.rounds import Rounds
from worker.sandbox.sandbox import Sandbox, SandboxMode
from worker.store import keys, queries
from worker.store.clients import connect
from worker.store.keys import COMMANDS, CONTROLLERS, GROUP, Partition

P0 = Partition(0)
QUEUE = P0.steps("default")


@pytest.fixture
def planner(redis_url: str) -> Planner:
    planner = Planner(redis_url)
    for stream in (P0.commands, COMMANDS):
        planner.client.xgroup_create(stream, GROUP, "0", mkstream=True)
    return planner


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch, server_url: str) -> Callable[..., Result]:
    monkeypatch.setenv("PLANNER_REDIS_URL", server_url)
    monkeypatch.setenv("COLUMNS", "140")
    return lambda *words: CliRunner().invoke(app, ["doctor", *words])


def told(result: Result) -> Any:
    return codec.loads(result.stdout)


def checks(result: Result) -> list[str]:
    return [finding["check"] for finding in told(result)["findings"]]


# --- all is well ---


@pytest.mark.parametrize("shape", SHAPES)
def test_a_sound_plan_is_well(planner: Planner, doctor: Callable[..., Result], shape: Callable[[Planner], str]) -> None:
    shape(planner)

    result = doctor("--json")

    assert told(result)["findings"] == []
    assert (result.exit_code, told(result)["well"], told(result)["plans"]) == (0, True, 1)


def test_an_empty_server_with_a_worker_is_well(planner: Planner, doctor: Callable[..., Result]) -> None:
    result = doctor()

    looked, host = result.output.splitlines()
    assert looked == "Looked at 0 plans and 0 queues: all is well."
    assert host.startswith("Verifications on this host run in a new clone")
    assert result.exit_code == 0


@pytest.mark.parametrize("mode", ["auto", "off"])
def test_the_doctor_tells_what_keeps_verifications_apart_here(
    mode: str, planner: Planner, doctor: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANNER_SANDBOX", mode)
    held = Sandbox(SandboxMode(mode), has_network=False).isolation

    host = told(doctor("--json"))["host"]

    assert host["isolation"].split() == ["clone", *held]
    assert ("without a network" in host["sentence"]) == ("no-network" in held)
    assert ("PLANNER_SANDBOX is off" in host["sentence"]) == (mode == "off")


def test_plans_are_paged(planner: Planner, doctor: Callable[..., Result], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.doctor.rounds.PAGE", 2)
    monkeypatch.setattr("worker.doctor.stored.PAGE", 2)
    monkeypatch.setattr("worker.doctor.rounds.SCAN", 2)
    monkeypatch.setattr("worker.doctor.server.PAGE", 2)
    for _ in range(5):
        executing(planner)

    well = {"well": True, "plans": 5, "queues": 1, "findings": [], "breakers": [], "notes": []}
    assert {name: told(doctor("--json"))[name] for name in well} == well


# --- damages of plans ---


def live(client: Redis, plan_id: str, **fields: Any) -> None:
    """Overwrite some of what a plan keeps in `live`."""
    key = P0.plan(plan_id).plan
    raw: Any = client.hget(key, "live")
    client.hset(key, "live", codec.dumps({**codec.loads(raw), **fields}))


def record(client: Redis, plan_id: str, step: str, place: int, value: Any) -> None:
    """Overwrite a column of a step's record."""
    key = P0.plan(plan_id).status
    raw: Any = client.hget(key, step)
    columns = codec.loads(raw)
    columns[place] = value
    client.hset(key, step, codec.dumps(columns))


def lose_timer(client: Redis, plan_id: str) -> None:
    client.zrem(P0.timers, plan_id)


def miscount(client: Redis, plan_id: str) -> None:
    live(client, plan_id, counts={"DONE": 3})


def misreserve(client: Redis, plan_id: str) -> None:
    key = P0.plan(plan_id).plan
    raw: Any = client.hget(key, "live")
    live(client, plan_id, reserved={**codec.loads(raw)["reserved"], "tokens": 7})


def end_the_step_in_flight(client: Redis, plan_id: str) -> None:
    record(client, plan_id, "fix-b", 1, "DONE")
    live(client, plan_id, counts={"DONE": 2, "BLOCKED": 1})


def lose_lease(client: Redis, plan_id: str) -> None:
    client.delete(P0.lease_prefix(plan_id) + "fix-b")


def lose_spec(client: Redis, plan_id: str) -> None:
    client.xtrim(QUEUE, maxlen=0)


def misplace_dependency(client: Redis, plan_id: str) -> None:
    record(client, plan_id, "a-check", 0, 2)


def never_unblock(client: Redis, plan_id: str) -> None:
    record(client, plan_id, "a-check", 0, 0)


def forget_dependents(client: Redis, plan_id: str) -> None:
    spec: Any = client.hget(P0.plan(plan_id).steps, "fix-b")
    client.hset(P0.plan(plan_id).steps, "fix-b", b'[""' + spec[spec.index(b'"', 2) + 1 :])


def forget_wait(client: Redis, plan_id: str) -> None:
    live(client, plan_id, waits={})


def ask_about_nothing(client: Redis, plan_id: str) -> None:
    live(client, plan_id, waits={"change": 2 * 10**12, "nobody": 2 * 10**12})


def make_ready_what_is_done(client: Redis, plan_id: str) -> None:
    client.zadd(P0.plan(plan_id).ready, {"look": 0})


def make_ready_what_is_in_flight(client: Redis, plan_id: str) -> None:
    client.zadd(P0.plan(plan_id).ready, {"fix-b": 1})


def make_ready_what_is_blocked(client: Redis, plan_id: str) -> None:
    client.zadd(P0.plan(plan_id).ready, {"a-check": 2})


def lose_ready(client: Redis, plan_id: str) -> None:
    client.zpopmax(P0.plan(plan_id).ready, 5)


def let_expire(client: Redis, plan_id: str) -> None:
    client.expire(P0.plan(plan_id).status, 1000)


def keep_forever(client: Redis, plan_id: str) -> None:
    client.persist(P0.plan(plan_id).log)


def unlist(client: Redis, plan_id: str) -> None:
    client.zrem(P0.plans, plan_id)


def cut_log(client: Redis, plan_id: str) -> None:
    client.rpop(P0.plan(plan_id).log)


def repeat_log(client: Redis, plan_id: str) -> None:
    last: Any = client.lindex(P0.plan(plan_id).log, -1)
    client.rpush(P0.plan(plan_id).log, last)


def garble_step(client: Redis, plan_id: str) -> None:
    client.hset(P0.plan(plan_id).status, "fix-b", "[what")


def garble_type(client: Redis, plan_id: str) -> None:
    client.delete(P0.plan(plan_id).status)
    client.set(P0.plan(plan_id).status, "x")


def cut_head(client: Redis, plan_id: str) -> None:
    client.hdel(P0.plan(plan_id).plan, "live")


def leave_lease(client: Redis, plan_id: str) -> None:
    client.hset(P0.lease_prefix(plan_id) + "look", "attempt", "1")


def leave_spec(client: Redis, plan_id: str) -> None:
    client.xadd(QUEUE, {"data": codec.dumps({"plan_id": plan_id, "step_id": "look", "attempt": 1})})


Damage = Callable[[Redis, str], None]

MENDED: list[tuple[Callable[[Planner], str], Damage, str]] = [
    (executing, lose_timer, "plan.timer"),
    (asking, lose_timer, "plan.timer"),
    (executing, make_ready_what_is_done, "plan.ready"),
    (executing, make_ready_what_is_in_flight, "plan.ready"),
    (large, lose_ready, "plan.ready"),
    (executing, let_expire, "plan.expiry"),
    (completed, keep_forever, "plan.expiry"),
    (halted, keep_forever, "plan.expiry"),
    (executing, unlist, "plan.listing"),
    (executing, leave_lease, "keys.lease"),
    (executing, leave_spec, "queue.stray"),
]
TOLD: list[tuple[Callable[[Planner], str], Damage, str]] = [
    (executing, miscount, "plan.counts"),
    (executing, misreserve, "plan.reserved"),
    (completed, misreserve, "plan.reserved"),
    (executing, end_the_step_in_flight, "plan.attempt"),
    (executing, lose_lease, "plan.lease"),
    (executing, lose_spec, "plan.spec"),
    (executing, misplace_dependency, "plan.unmet"),
    (executing, never_unblock, "plan.unmet"),
    (executing, forget_dependents, "plan.unmet"),
    (retried, lambda client, plan_id: record(client, plan_id, "fix-b", 0, 5), "plan.unmet"),
    (asking, forget_wait, "plan.wait"),
    (asking, ask_about_nothing, "plan.wait"),
    (executing, make_ready_what_is_blocked, "plan.ready"),
    (executing, cut_log, "plan.log"),
    (completed, cut_log, "plan.log"),
    (executing, repeat_log, "plan.log"),
    (executing, garble_step, "plan.unreadable"),
    (executing, garble_type, "plan.unreadable"),
    (executing, cut_head, "plan.unreadable"),
]


@pytest.mark.parametrize(("shape", "damage", "check"), [*MENDED, *TOLD])
def test_a_damage_is_found_and_nothing_is_changed_by_looking(
    planner: Planner, doctor: Callable[..., Result], shape: Any, damage: Damage, check: str
) -> None:
    plan_id = shape(planner)
    damage(planner.client, plan_id)
    before = everything(planner.client)

    result = doctor("--json")

    assert result.exit_code == 1, result.output
    (found,) = [finding for finding in told(result)["findings"] if finding["check"] == check]
    assert found["sentence"]
    assert found["do"]
    assert found["subject"] in (plan_id, QUEUE)
    assert everything(planner.client) == before
    assert f"{check} " in doctor().output


@pytest.mark.parametrize(("shape", "damage", "check"), MENDED)
def test_what_can_be_mended_is_and_then_all_is_well(
    planner: Planner, doctor: Callable[..., Result], shape: Any, damage: Damage, check: str
) -> None:
    plan_id = shape(planner)
    version = planner.client.hget(P0.plan(plan_id).plan, "version")
    damage(planner.client, plan_id)

    fixed, after = doctor("--fix", "--json"), doctor("--json")

    assert [(each["check"], each["fixable"], each["fixed"]) for each in told(fixed)["findings"]] == [
        (check, True, True)
    ]
    assert (fixed.exit_code, told(fixed)["well"]) == (0, True)
    assert told(after)["findings"] == []
    assert planner.client.hget(P0.plan(plan_id).plan, "version") == version


@pytest.mark.parametrize(("shape", "damage", "check"), TOLD)
def test_what_cannot_be_mended_safely_is_left_as_it_is(
    planner: Planner, doctor: Callable[..., Result], shape: Any, damage: Damage, check: str
) -> None:
    damage(planner.client, shape(planner))

    found = [each for each in told(doctor("--fix", "--json"))["findings"] if each["check"] == check]

    assert [(each["fixable"], each["fixed"]) for each in found] == [(False, False)]


def everything(client: Redis) -> dict[bytes, Any]:
    """All keys with their values; what expires as such, since its time runs."""
    read: dict[bytes, Callable[[bytes], Any]] = {
        b"hash": client.hgetall,
        b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
        b"list": lambda key: client.lrange(key, 0, -1),
        b"stream": lambda key: (client.xrange(key), client.xinfo_groups(key)),
        b"string": client.get,
    }
    found: Any = client.keys("*")
    kinds: Any = {key: client.type(key) for key in found}
    return {key: (read[kind](key), client.ttl(key) == -1) for key, kind in kinds.items()}


@pytest.mark.outages
def test_a_plan_that_was_mended_goes_on_to_its_end(planner: Planner, doctor: Callable[..., Result]) -> None:
    plan_id = large(planner)
    lose_ready(planner.client, plan_id)
    assert doctor("--fix").exit_code == 0
    waiting: Any = planner.client.zcount(P0.timers, "-inf", 10**13)

    def flying() -> list[str]:
        found: Any = planner.client.hkeys(P0.plan(plan_id).active)
        return [step.decode() for step in found]

    while steps := flying():
        for step in steps:
            planner.report(step, plan_id)

    assert waiting == 1
    assert planner.view(plan_id).state == "COMPLETED"


def test_what_a_newer_version_keeps_does_no_harm(planner: Planner, doctor: Callable[..., Result]) -> None:
    plan_id = large(planner)
    waits: Any = planner.client.zrange(P0.plan(plan_id).ready, 0, 0)
    planner.client.zrem(P0.plan(plan_id).ready, *waits)
    live(planner.client, plan_id, backoffs={waits[0].decode(): 2 * 10**12}, holds={"repository": 1}, held="x", more=[1])
    raw: Any = planner.client.hget(P0.plan(plan_id).status, "s-0")
    planner.client.hset(P0.plan(plan_id).status, "s-0", codec.dumps([*codec.loads(raw), "new", {}]))

    assert told(doctor("--json"))["findings"] == []


def test_only_the_plans_that_are_named_are_looked_at(planner: Planner, doctor: Callable[..., Result]) -> None:
    well, ill = planner.submit(goal_id="ci-well"), planner.submit(goal_id="ci-ill")
    lose_timer(planner.client, ill)

    assert (doctor("ci-well").exit_code, doctor(ill, well).exit_code) == (0, 1)
    assert doctor("ci-nobody").exit_code == 3


# --- keys ---


def test_keys_of_a_plan_that_is_gone_are_found_and_expire(planner: Planner, doctor: Callable[..., Result]) -> None:
    plan_id = completed(planner)
    k = P0.plan(plan_id)
    for key in (k.steps, k.status, k.log):
        planner.client.persist(key)
    planner.client.delete(k.plan)
    planner.client.zrem(P0.timers, plan_id)

    found = told(doctor("--fix", "--json"))

    assert [each["check"] for each in found["findings"]] == ["plan.gone", *["keys.orphan"] * 3]
    assert found["well"]
    assert all(planner.client.ttl(key) > 0 for key in (k.steps, k.status, k.log))
    planner.container.context(0).engine.sweep("me")
    assert planner.client.zcard(P0.plans) == 0
    assert told(doctor("--json"))["findings"] == []


def test_keys_of_partitions_that_there_should_not_be_are_told(planner: Planner, doctor: Callable[..., Result]) -> None:
    planner.client.hset(Partition(7).plan("plan_07-0").plan, "version", 1)

    assert "does not fit the keys of partition 7." in doctor().output


def test_a_doctor_who_is_told_the_wrong_number_of_partitions_mends_nothing(
    planner: Planner, doctor: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [executing(planner) for _ in range(8)]
    assert {keys.partition_of(plan_id, 256) for plan_id in ids} != {0}
    before = everything(planner.client)
    monkeypatch.setenv("PLANNER_PARTITIONS", "256")

    found = told(doctor("--json", "--fix"))["findings"]

    assert {each["check"] for each in found} == {"stream.group", "keys.partition"}
    assert {key: value for key, value in everything(planner.client).items() if key in before} == before


def test_what_somebody_else_put_into_a_queue_is_told(planner: Planner, doctor: Callable[..., Result]) -> None:
    executing(planner)
    planner.client.xadd(QUEUE, {"data": "hello"})
    planner.client.set(P0.steps("other"), "hello")

    assert checks(doctor("--json")) == ["queue.stray", "server.refused"]


# --- streams ---


@pytest.mark.parametrize("stream", [keys.GOALS, P0.outcomes, P0.commands])
def test_a_missing_group_is_found_and_made(planner: Planner, doctor: Callable[..., Result], stream: str) -> None:
    planner.client.xgroup_destroy(stream, GROUP)

    assert checks(doctor("--json", "--fix")) == ["stream.group"]
    groups: Any = planner.client.xinfo_groups(stream)
    assert [group["name"] for group in groups] == [GROUP.encode()]
    assert doctor().exit_code == 0


def test_a_queue_without_its_group_is_found_and_given_it(planner: Planner, doctor: Callable[..., Result]) -> None:
    executing(planner)
    planner.client.xgroup_destroy(QUEUE, CONTROLLERS)

    assert checks(doctor("--json", "--fix")) == ["stream.group"]
    assert doctor().exit_code == 0


def test_entries_that_a_dead_worker_had_read_are_told(
    planner: Planner, doctor: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.doctor.server.LATE_MS", 0)
    monkeypatch.setattr("worker.doctor.server.IDLE_FACTOR", 0)
    planner.client.xadd(P0.outcomes, {"data": "{}"})
    planner.client.xreadgroup(GROUP, "worker-9", {P0.outcomes: ">"})

    def found() -> list[Any]:
        return [each for each in told(doctor("--json"))["findings"] if each["check"] == "stream.left"]

    (left,) = wait_until(found, what="the worker has been silent")
    assert left["sentence"].startswith("Entries that worker-9 read and did not finish: 1. It is silent")


def test_timers_that_nobody_looks_at_are_told(planner: Planner, doctor: Callable[..., Result]) -> None:
    plan_id = executing(planner)
    planner.client.zadd(P0.timers, {plan_id: 1000})

    assert checks(doctor("--json")) == ["timers.late"]


# --- the server ---


def test_missing_functions_are_found_and_loaded(planner: Planner, doctor: Callable[..., Result]) -> None:
    planner.client.function_flush()

    missing = doctor("--json")

    assert set(checks(missing)) == {"server.functions"}
    assert doctor("--fix").exit_code == 0
    assert doctor().exit_code == 0


def test_functions_of_another_version_are_told_and_left(planner: Planner, doctor: Callable[..., Result]) -> None:
    code = "#!lua name=planner_leases\nredis.register_function('planner_heartbeat', function() return 1 end)"
    planner.client.function_load(code, replace=True)

    assert checks(doctor("--json", "--fix")) == ["server.functions"]
    assert planner.client.fcall("planner_heartbeat", 0) == 1


def test_an_unsafe_server_is_told(
    doctor: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(tmp_path, "--maxmemory-policy", "allkeys-lru", "--appendonly", "no") as unsafe:
        monkeypatch.setenv("PLANNER_REDIS_URL", unsafe.url)

        found = checks(doctor("--json"))

    assert {"server.eviction", "server.aof"} <= set(found)
    assert "server.version" not in found


@pytest.mark.parametrize(
    ("info", "old"),
    [
        ({"redis_version": "6.2.14"}, True),
        ({"redis_version": "7.0.0"}, False),
        ({"redis_version": "7.2.4", "valkey_version": "7.2.5"}, False),
        ({"redis_version": "7.2.4", "valkey_version": "7.1.0"}, True),
        ({"redis_version": "10.0.0"}, False),
    ],
)
def test_a_server_that_is_too_old_is_told(info: dict[str, str], old: bool) -> None:
    from worker.doctor import server

    class Told:
        def info(self, _: str) -> dict[str, str]:
            return info

    found = list(server.version(Site(Told(), 1, 1, 1)))  # type: ignore[arg-type]

    assert [finding.check for finding in found] == ["server.version"] * old


def test_rights_that_a_user_lacks_are_told_and_what_it_may_not_ask_is_a_note(
    planner: Planner, doctor: Callable[..., Result], server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    executing(planner)
    rules = ["resetkeys", "~planner:*", "-@all", "+@read", "+@connection", "+info", "+time", "+@transaction"]
    for name, more in (("reader", []), ("asker", ["+acl|whoami", "+acl|dryrun"])):
        planner.client.acl_setuser(name, enabled=True, nopass=True)
        planner.client.execute_command("ACL", "SETUSER", name, *rules, *more)
    place = server_url.removeprefix("redis://")
    try:
        monkeypatch.setenv("PLANNER_REDIS_URL", f"redis://reader:x@{place}")
        notes = told(doctor("--json"))
        monkeypatch.setenv("PLANNER_REDIS_URL", f"redis://asker:x@{place}")
        rights = told(doctor("--json"))
    finally:
        planner.client.acl_deluser("reader", "asker")

    assert [note.partition(" could")[0] for note in notes["notes"]] == ["rights", "libraries"]
    assert notes["findings"] == []
    (finding,) = rights["findings"]
    assert (finding["check"], finding["subject"], finding["severity"]) == ("server.rights", "asker", "warning")
    assert "XREADGROUP" in finding["sentence"]


@contextmanager
def as_role(client: Redis, role: str, url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Result]]:
    """Run commands as a user of compose.yaml."""
    with user(client, role, url) as own_url:
        monkeypatch.setenv("PLANNER_REDIS_URL", own_url)
        yield lambda *words: CliRunner().invoke(app, [*words, "--json"])


def test_the_role_of_operators_may_look_and_may_not_mend(
    planner: Planner, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_timer(planner.client, executing(planner))
    planner.client.xadd(keys.GOALS, {"data": "not json"})
    planner.container.goal_consumer.drain()

    with as_role(planner.client, "operator", server_url, monkeypatch) as run:
        looked, listed = run("doctor"), told(run("dead", "list"))["entries"]
        shown, exported = run("dead", "show", listed[0]["entry"]), run("export", told(looked)["findings"][0]["subject"])
        refused = [run("doctor", "--fix"), run("dead", "drop", "--all", "--yes"), run("dead", "replay", "--all")]

    assert [finding["check"] for finding in told(looked)["findings"]] == ["plan.timer"]
    assert (shown.exit_code, exported.exit_code) == (0, 0)
    assert [(each.exit_code, told(each)["code"]) for each in refused] == [(1, "no_permission")] * 3
    assert planner.client.xlen(keys.GOALS_DEAD) == 1


def test_the_role_of_the_planner_may_mend_and_replay(
    planner: Planner, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_id = executing(planner)
    lose_timer(planner.client, plan_id)
    leave_lease(planner.client, plan_id)
    leave_spec(planner.client, plan_id)
    planner.client.xgroup_destroy(P0.commands, GROUP)
    planner.client.xadd(keys.GOALS, {"data": "not json"})
    planner.container.goal_consumer.drain()

    with as_role(planner.client, "planner", server_url, monkeypatch) as run:
        mended, replayed = told(run("doctor", "--fix")), told(run("dead", "replay", "--all"))

    assert (len(mended["findings"]), mended["well"]) == (4, True)
    assert [note.partition(" could")[0] for note in mended["notes"]] == ["rights"]
    assert replayed["replayed"] == 1


# --- while plans go on ---


def test_a_repair_is_not_applied_to_a_plan_that_has_changed(planner: Planner) -> None:
    plan_id = executing(planner)
    key = P0.plan(plan_id).plan
    version = int(planner.client.hget(key, "version") or 0)
    set_it = (("SET", "planner:{0}:x", "1"),)

    assert not mend(planner.client, Repair(set_it, key, version - 1))
    assert not planner.client.exists("planner:{0}:x")
    assert mend(planner.client, Repair(set_it, key, version))
    assert planner.client.exists("planner:{0}:x")


def test_plans_that_go_on_while_it_looks_give_no_false_alarm(planner: Planner, redis_url: str) -> None:
    ids = [planner.submit() for _ in range(20)]
    found: list[Finding] = []
    over = threading.Event()

    def look() -> None:
        with connect(redis_url) as client:
            site = Site(client, 1, 1000, 30_000)
            while not over.is_set():
                found.extend(Rounds(site, lambda _: None).everything())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for step in ("look", "fix-b", "a-check"):
            for plan_id in ids:
                planner.report(step, plan_id, touched_files=["b.py"] if step == "fix-b" else [])
    finally:
        over.set()
        thread.join()

    assert found == []
    assert {view.state for view in queries.plans(planner.client, 1)} == {"COMPLETED"}


def test_the_report_is_plain_text_where_no_terminal_is(planner: Planner, doctor: Callable[..., Result]) -> None:
    lose_timer(planner.client, executing(planner))

    lines = doctor().output.splitlines()

    assert lines[0].startswith("error    plan.timer       plan_")
    assert lines[1].startswith("         No timer will look at the plan, and it has 1 attempt in flight")
    assert lines[-2] == "Looked at 1 plan and 1 queue: 1 finding."
    assert "\x1b" not in "".join(lines)
