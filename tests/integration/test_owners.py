"""One worker at a time owns a partition: it has the wake-ups, applies what comes while idle, and another takes over."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from redis import Redis
from typer.testing import CliRunner

from schemas import codec
from tests.bench import fleet
from tests.conftest import RunningWorker, connect, wait_until
from tests.support import launch
from tests.support.engine import a_goal, container, plan
from tests.support.faults import HASTE, consumes, is_stopped, kill, spawn
from tests.support.messages import answer, goals_of_partitions, read_specs, report, specs
from tests.support.proxy import When, running_proxy
from tests.support.recount import Recount
from tests.support.roles import user
from tests.support.servers import Fleet, Server, all_done, ended, publish
from tests.support.stored import P0, applied, plans
from worker.cli.commands.app import app
from worker.engine.engine import Engine
from worker.gateway.page import fleet_view
from worker.process import partition_engines
from worker.process.hands import Hands
from worker.process.idle_drain import BUSY_S, MOST_AT_ONCE, SLOW_S, IdleDrain
from worker.process.ownership import Owner, Ownership
from worker.process.reader import Reader
from worker.process.wakeup_ledger import WakeupState
from worker.settings.settings import Settings
from worker.store import clients, deployment, functions, keys, owners
from worker.store.keys import GROUP, Partition
from worker.store.owners import LEASE_MS
from worker.telemetry.outage import Outage

LASTING_MS = 15_000  # a lease that outlasts a machine that stands still for a while
HANDED_S = 12.0  # for a partition that is given back: a look of the others, on a busy machine, and less than a lease
TAKEN_S = 15.0  # for one whose lease is over: a look of the others


def owner_of(redis: Redis, number: int = 0) -> str:
    found: Any = redis.get(Partition(number).owner)
    return found.decode() if found else ""


# --- leases ---


@pytest.fixture
def store(redis: Redis) -> Redis:
    functions.load(redis)
    return redis


def test_a_lease_is_one_workers_until_it_gives_it_back(store: Redis) -> None:
    assert owners.hold(store, "a", {0: "look"}) == {0: ""}
    assert owners.hold(store, "a", {0: "take"}) == {0: "a"}
    assert owners.hold(store, "b", {0: "take"}) == {0: "a"}
    assert owners.hold(store, "b", {0: "give"}) == {0: "a"}
    assert owners.hold(store, "a", {0: "give"}) == {0: ""}
    assert owners.hold(store, "b", {0: "take", 1: "take"}) == {0: "b", 1: "b"}
    assert owners.owners(store, 3) == {0: "b", 1: "b", 2: None}


def test_a_look_renews_the_own_lease_alone(store: Redis) -> None:
    owners.hold(store, "a", {0: "take"})
    store.pexpire(P0.owner, 2000)

    owners.hold(store, "b", {0: "look"})
    assert store.pttl(P0.owner) <= 2000
    owners.hold(store, "a", {0: "look"})
    assert store.pttl(P0.owner) > 2000


@pytest.mark.parametrize("lasts_ms", [100 * LEASE_MS, None], ids=["after the clock was set back", "for ever"])
def test_a_lease_that_would_last_too_long_is_free(store: Redis, lasts_ms: int | None) -> None:
    store.set(P0.owner, "a", px=lasts_ms)

    assert owners.hold(store, "b", {0: "take"}) == {0: "b"}


def test_workers_are_there_for_as_long_as_they_say_so(store: Redis) -> None:
    seconds, _ = store.time()
    store.zadd(keys.WORKERS, {"dead": 1000 * seconds - LEASE_MS - 2000, "of a time to come": 1000 * seconds + 10**7})

    assert owners.register(store, "a") == {"a"}
    assert owners.register(store, "b") == {"a", "b"}
    assert owners.register(store, "a", leaves=True) == {"b"}


def test_a_worker_that_is_there_tells_its_version_unless_a_full_server_did_not_keep_it(store: Redis) -> None:
    seconds, _ = store.time()
    store.zadd(keys.WORKERS, {"dead": 1000 * seconds - LEASE_MS - 2000, "other": 1000 * seconds})
    ours = version("planner-worker")

    assert owners.register(store, "a") == {"a", "other"}
    assert owners.workers(store) == [("a", ours), ("other", None)]
    assert 0 < store.pttl(keys.worker_version("a")) <= LEASE_MS
    owners.register(store, "a", leaves=True)
    assert owners.workers(store) == [("other", None)]
    assert not store.exists(keys.worker_version("a"))


def test_a_worker_of_a_full_server_is_there_without_its_version(store: Redis) -> None:
    store.config_set("maxmemory", 1)
    try:
        assert owners.register(store, "a") == {"a"}
        assert owners.workers(store) == [("a", None)]
    finally:
        store.config_set("maxmemory", 0)


def test_who_may_not_know_the_workers_is_told_of_none(store: Redis, redis_url: str) -> None:
    owners.register(store, "a")
    with user(store, "controller", redis_url) as url, clients.connect(url) as client:
        assert owners.workers(client) == []
        assert fleet_view.read_backlog(client, 1) == [None]


# --- shares ---


@contextmanager
def attending(url: str, token: str, partitions: int) -> Iterator[Ownership]:
    """Have a worker keep its share of the partitions."""
    one = Ownership(Settings(redis_url=url), token, range(partitions))
    one.start()
    try:
        yield one
    finally:
        one.stop()


def test_workers_share_the_partitions_and_take_over_from_one_that_stops(
    store: Redis, redis_url: str, long_leases: float
) -> None:
    with attending(redis_url, "b", 4) as second:
        with attending(redis_url, "a", 4) as first:
            wait_until(lambda: len(first.owned) == len(second.owned) == 2, what="two each")
            wait_until(lambda: {first.of(number) for number in second.owned} == {Owner.ELSEWHERE}, what="each knows")
            began = time.monotonic()
        wait_until(lambda: len(second.owned) == 4, what="all of them")
        taken_s = time.monotonic() - began

    assert taken_s < long_leases - 5
    assert [owner_of(store, number) for number in range(4)] == [""] * 4
    assert not store.exists(keys.WORKERS, keys.worker_version("a"), keys.worker_version("b"))


def test_functions_that_are_lost_are_loaded_again(store: Redis, redis_url: str) -> None:
    with attending(redis_url, "a", 1) as one, clients.connect(redis_url) as client:
        wait_until(lambda: one.owned, what="an owner")
        store.function_flush()
        wait_until(lambda: functions.are_loaded(client), what="the functions are back")
        wait_until(lambda: one.of(0) is Owner.HERE, what="it goes on")


def test_who_may_not_know_the_owners_works_without(store: Redis, redis_url: str) -> None:
    with user(store, "producer", redis_url) as url, attending(url, "a", 1) as one:
        time.sleep(0.5)  # in which another would have taken it
        assert one.of(0) is Owner.NOBODY
        assert one.is_alive()


# --- who is told ---


def test_people_are_told_who_owns_a_partition(
    store: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch, long_leases: float
) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    deployment.join(store, 2)
    owners.hold(store, "host-1-a", {1: "take"})

    said = CliRunner().invoke(app, ["partitions"]).stdout
    document = CliRunner().invoke(app, ["partitions", "--json"]).stdout

    assert said.splitlines() == ["2", "Partition 1 is owned by host-1-a."]
    assert codec.loads(document) == {"partitions": 2, "owners": [None, "host-1-a"]}


def test_the_doctor_finds_outcomes_that_wait_where_nobody_owns_the_partition(
    store: Redis, redis_url: str, monkeypatch: pytest.MonkeyPatch, long_leases: float
) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    deployment.join(store, 1)
    store.xgroup_create(P0.outcomes, GROUP, "0", mkstream=True)
    seconds, _ = store.time()
    store.xadd(P0.outcomes, {"data": "{}"}, id=f"{1000 * (seconds - 60)}-0")

    def found() -> list[str]:
        said = codec.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
        return [one["check"] for one in said["findings"]]

    assert "partition.unowned" in found()
    owners.hold(store, "a", {0: "take"})
    assert "partition.unowned" not in found()


# --- workers ---


@contextmanager
def workers(
    url: str, tmp_path: Path, *commands: list[str], broker: str = "", **settings: str
) -> Iterator[list[RunningWorker]]:
    """Run workers, until they consume; they may have ended before the block does."""
    tmp_path.mkdir(exist_ok=True)
    with connect(url) as redis, ExitStack() as stack:
        running = []
        for number, command in enumerate(commands):
            log = tmp_path / f"worker-{number}.log"
            process = spawn(command, url, log, PLANNER_BROKER_URL=broker or url, **settings)
            stack.callback(kill, process)
            running.append(RunningWorker(url, redis, process, log))
        wait_until(lambda: all(map(consumes, running)), what="workers consume")
        yield running


def command(pool: str = "solo", **options: Any) -> list[str]:
    return launch.command(HASTE, pool=pool, **options)


def owns(worker: RunningWorker, number: int = 0) -> bool:
    return f"-{worker.process.pid}-" in owner_of(worker.redis, number)


def the_owner(found: list[RunningWorker]) -> RunningWorker:
    (owner,) = wait_until(lambda: list(filter(owns, found)), what="an owner")
    return owner


@pytest.mark.outages
@pytest.mark.parametrize("pool", [pytest.param("solo", marks=pytest.mark.long), "prefork"])
def test_another_worker_takes_over_at_once_from_an_owner_that_stops_and_soon_from_one_that_dies(
    redis_url: str, tmp_path: Path, pool: str
) -> None:
    lasting = launch.command({**HASTE, "worker.LEASE_MS": LASTING_MS}, pool=pool)
    with workers(redis_url, tmp_path, *[lasting] * 3) as (first, second, third), Fleet(redis_url):
        redis, left = first.redis, [first, second, third]
        for number, within_s in enumerate([HANDED_S, LASTING_MS / 1000 + TAKEN_S]):
            owner = the_owner(left)
            left.remove(owner)
            publish(redis, 10 * number, 5)
            if number:
                kill(owner.process)
            else:
                owner.process.terminate()
                owner.process.wait(60)
            began = time.monotonic()
            the_owner(left)

            assert time.monotonic() - began < within_s
            all_done(redis, 5 * (number + 1))
        assert ended(redis) == 10
        assert [Recount(redis, plan_id).faults() for plan_id in plans(redis)] == [[]] * 10


@pytest.mark.outages
def test_an_owner_that_was_stopped_finds_that_it_is_owner_no_more_and_changes_nothing(
    redis_url: str, tmp_path: Path
) -> None:
    with connect(redis_url) as redis, container(redis_url) as here:
        (plan_id,) = plan(here, redis, a_goal(3))
        (spec,) = specs(redis)
    with ExitStack() as stack:
        (first,) = stack.enter_context(workers(redis_url, tmp_path / "first", command(stop=plan_id)))
        wait_until(lambda: owns(first), what="the first owns it")
        (second,) = stack.enter_context(workers(redis_url, tmp_path / "second", command()))
        redis = first.redis
        report(redis, answer(spec))
        wait_until(lambda: is_stopped(first.process.pid), what="the owner stops in the middle of a decision")
        wait_until(lambda: owns(second), what="another owner")
        wait_until(lambda: applied(redis, 1) == [1], what="it applies the outcome")
        other = Recount(redis, plan_id)

        os.kill(first.process.pid, signal.SIGCONT)

        wait_until(lambda: first.logged("verdicts"), what="its commit is answered")
        assert first.logged("verdicts")[0]["verdicts"] == ["stale"]
        assert Recount(redis, plan_id).lines == other.lines
        with Fleet(redis_url):
            all_done(redis, 1, steps=3)
        assert Recount(redis, plan_id).faults() == []
        wait_until(lambda: first.logged("partitions given"), what="it finds that")
        assert first.process.poll() is None


@pytest.mark.outages
def test_two_workers_have_a_partition_each_and_apply_its_outcomes(redis_url: str, tmp_path: Path) -> None:
    with workers(redis_url, tmp_path, *[command()] * 2, PLANNER_PARTITIONS="2") as found:
        redis = found[0].redis
        wait_until(lambda: all(owns(one, 0) != owns(one, 1) for one in found), what="one each")
        for goal in goals_of_partitions(2, each=25, steps=20):
            redis.xadd(keys.GOALS, {"data": goal})

        def done(outcomes: int) -> bool:
            for number in range(2):
                fleet.answer(redis, read_specs(redis, number))
            return all(count >= outcomes for count in applied(redis, 2))

        wait_until(lambda: done(40), what="wake-ups of before there was an owner each are over")
        began = time.monotonic()

        def owners_read() -> bool:
            since_ms = 1000 * (time.monotonic() - began)
            return all(
                any(has_read(one, number, since_ms) for one in found if owns(one, number)) for number in range(2)
            )

        def has_read(one: RunningWorker, number: int, since_ms: float) -> bool:
            consumers: Any = redis.xinfo_consumers(Partition(number).outcomes, GROUP)
            # Before 7.2 a server says only when a consumer last asked.
            waits_ms = {each["name"].decode(): each.get("inactive", each["idle"]) for each in consumers}
            mine = [wait_ms for name, wait_ms in waits_ms.items() if f"-{one.process.pid}-" in name]
            return any(0 <= wait_ms < since_ms for wait_ms in mine)

        wait_until(lambda: done(60) and owners_read(), what="the owner of each partition reads its outcomes")
        wait_until(lambda: done(500), what="all outcomes applied")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "broker") as server:
        yield server


@pytest.mark.outages
@pytest.mark.parametrize("pool", ["solo", "prefork"])
def test_what_comes_while_the_pool_is_idle_is_applied_without_the_broker(
    redis_url: str, tmp_path: Path, broker: Server, pool: str
) -> None:
    quiet = launch.command({"worker.SWEEP_S": 600.0}, pool=pool)
    with workers(redis_url, tmp_path, quiet, broker=broker.url) as (one,), broker.client() as queues:
        wait_until(lambda: owns(one), what="an owner")
        publish(one.redis, 0, 1, steps=20)
        spec = first_step(one.redis)
        before = sent(queues)
        for _ in range(15):
            fleet.answer(one.redis, spec)
            spec = fleet.read(one.redis, 1, block_ms=10_000)
            assert spec

        assert sent(queues) - before < 3  # timers and goals have their own


def first_step(redis: Redis) -> list[dict[str, Any]]:
    wait_until(lambda: redis.exists(fleet.QUEUE), what="a step")
    return fleet.read(redis, 1, block_ms=10_000)


def sent(broker: Redis) -> int:
    """How many messages were sent over a broker."""
    stats: Any = broker.info("commandstats")
    return int(stats.get("cmdstat_lpush", {}).get("calls", 0))


@pytest.mark.outages
def test_much_work_goes_to_the_pool_of_the_owner_and_to_nobody_else(
    redis_url: str, tmp_path: Path, broker: Server
) -> None:
    lasting = launch.command({**HASTE, "worker.LEASE_MS": LASTING_MS}, pool="prefork")
    with workers(redis_url, tmp_path, *[lasting] * 2, broker=broker.url) as found:
        first = the_owner(found)
        (second,) = (one for one in found if one is not first)
        before = readers(first.redis)  # a worker whose pool does not answer in time yet does the upkeep itself
        publish(first.redis, 0, 200)
        wait_until(lambda: first.redis.zcard(P0.plans) == 200, what="planned")
        with Fleet(redis_url):
            all_done(first.redis, 200)

        names = readers(first.redis)
        assert f"{first.process.pid}" in {name.rpartition("-")[2] for name in names}
        assert len(names) > 1, "the pool has read, too"
        assert f"{second.process.pid}" not in {name.rpartition("-")[2] for name in names - before}


def readers(redis: Redis) -> set[str]:
    """The processes that have read outcomes, each by its host and its number."""
    consumers: Any = redis.xinfo_consumers(P0.outcomes, GROUP)
    return {one["name"].decode().rpartition("-")[0] for one in consumers}


@pytest.mark.outages
@pytest.mark.parametrize("when", When, ids=lambda when: when.name.lower())
def test_a_connection_that_the_owner_loses_while_it_applies_an_outcome_applies_it_once(
    redis_url: str, tmp_path: Path, when: When
) -> None:
    with (
        running_proxy(redis_url) as proxy,
        workers(proxy.url, tmp_path, command(), broker=redis_url) as (one,),
        connect(redis_url) as redis,
    ):
        wait_until(lambda: owns(one), what="an owner")
        publish(redis, 0, 1)
        specs = first_step(redis)
        trap = proxy.trap("^FCALL planner_commit", when)
        fleet.answer(redis, specs)

        assert trap.sprung.wait(60)
        with Fleet(redis_url):
            all_done(redis, 1)
        (plan_id,) = plans(redis)
        assert Recount(redis, plan_id).faults() == []


@pytest.mark.outages
def test_a_reply_that_the_poller_of_an_idle_owner_loses_delays_no_outcome(redis_url: str, tmp_path: Path) -> None:
    """Nothing is taken over from a consumer that lives, as long as this test could wait."""
    with (
        running_proxy(redis_url) as proxy,
        workers(proxy.url, tmp_path, command(), broker=redis_url, PLANNER_CLAIM_IDLE_S="600") as (one,),
        connect(redis_url) as redis,
    ):
        wait_until(lambda: owns(one), what="an owner")
        publish(redis, 0, 1)
        fleet.answer(redis, first_step(redis))
        specs = first_step(redis)
        wait_until(lambda: applied(redis, 1) == [1], what="the engine has nothing to do")
        trap = proxy.trap("^XREADGROUP .*outcomes", When.AFTER)
        assert trap.met.wait(60)  # the next read waits
        fleet.answer(redis, specs)

        assert trap.sprung.wait(60)
        wait_until(lambda: applied(redis, 1) == [2], 60, "the outcome is applied")


@pytest.fixture
def drain(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> IdleDrain:
    """The drain of a partition whose engine has compared the server."""
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setattr(partition_engines, "_engines", {})
    monkeypatch.setattr(partition_engines, "_containers", {})
    with container(redis_url) as here:
        here.context(0).engine.catch_up()
    return IdleDrain(P0)


def test_a_partition_whose_engine_cannot_apply_is_read_no_further(
    redis_url: str, redis: Redis, drain: IdleDrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(200):
        redis.xadd(P0.outcomes, {"data": b"{}"})
    applies = Mock(side_effect=OSError("the disk is full"))
    monkeypatch.setattr(Engine, "apply", applies)
    ownership = Mock()
    ownership.all.return_value = {0: Owner.HERE}
    wakeups = Mock(under_way=Mock(return_value=set()), state=Mock(return_value=WakeupState.FREE))
    reader = Reader(redis_url, Outage("store"), wakeups, ownership, Hands(), [P0])
    reader.start()
    wait_until(lambda: applies.call_count > 3, what="several tries")
    reader.stop()
    reader.join(10)

    pending: Any = redis.xpending(P0.outcomes, GROUP)
    assert pending["pending"] == MOST_AT_ONCE


def test_the_pool_is_asked_where_outcomes_come_faster_than_they_are_applied_and_not_for_a_lone_one(
    drain: IdleDrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "apply", Mock(side_effect=lambda *_: time.sleep(2 * BUSY_S)))

    for count, asks in ((1, False), (1, False), (2, True)):
        assert drain.take([(b"1-0", [b"data", b"{}"])] * count, drain.look) is asks


def test_the_pool_is_asked_for_a_partition_that_holds_up_the_others(
    drain: IdleDrain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "apply", Mock(side_effect=lambda *_: time.sleep(2 * SLOW_S)))

    assert drain.take([(b"1-0", [b"data", b"{}"])], drain.look)
