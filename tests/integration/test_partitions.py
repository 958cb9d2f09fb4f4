"""Several partitions: a plan's id says where it lives, and an outcome in the wrong place finds its way."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner

from schemas import codec
from tests.bench import fleet
from tests.conftest import connect, running_worker, wait_until
from tests.support.engine import a_goal, container, create_group, plan
from tests.support.messages import answer, read_specs
from worker.cli.commands.app import app
from worker.process.container import Container
from worker.process.launch import worker_command
from worker.store import deployment, keys
from worker.store.deployment import WrongDeployment
from worker.store.keys import Partition, bucket, partition_of

PARTITIONS = 3


def completed(redis: Redis) -> int:
    """Count the plans that are COMPLETED, wherever they live."""
    ids: list[Any] = [i for n in range(PARTITIONS) for i in redis.zrange(Partition(n).plans, 0, -1)]
    homes = [Partition(partition_of(i.decode(), PARTITIONS)).plan(i.decode()).plan for i in ids]
    return sum(redis.hget(home, "state") == b"COMPLETED" for home in homes)


@pytest.mark.outages
def test_plans_spread_over_partitions_and_misplaced_outcomes_are_forwarded(redis_url: str, tmp_path: Path) -> None:
    with (
        connect(redis_url) as redis,
        running_worker(redis_url, tmp_path / "worker.log", PLANNER_PARTITIONS=str(PARTITIONS)),
    ):
        for number in range(18):
            goal = codec.loads(fleet.goal(number, 2)) | {"context": {"repo": f"acme/shop-{number}"}}
            redis.xadd(keys.GOALS, {"data": codec.dumps(goal)})

        def turn() -> bool:
            """Answer what waits, always to the partition beside the right one."""
            for number in range(PARTITIONS):
                specs = read_specs(redis, number)
                astray = Partition((number + 1) % PARTITIONS).outcomes
                fleet.answer(redis, [{**spec, "reply_to": astray} for spec in specs])
            return completed(redis) == 18

        wait_until(turn, timeout=60, what="all plans COMPLETED")

        used = [redis.zcard(Partition(number).plans) for number in range(PARTITIONS)]
        assert sum(used) == 18
        assert all(used)


def an_outcome(redis: Redis, number: int) -> tuple[str, dict[str, bytes]]:
    """An outcome of the one step that waits in this partition, and its plan."""
    (spec,) = read_specs(redis, number)
    return spec["plan_id"], answer(spec)


def planned_in(redis: Redis, here: Container, number: int) -> None:
    """Have a plan of one step made in this partition."""
    for tried in range(100):
        if partition_of(f"plan_{bucket(f'acme/shop-{tried}')}-", PARTITIONS) == number:
            plan(here, redis, a_goal(1, context={"repo": f"acme/shop-{tried}"}))
            return


def test_an_outcome_finds_its_plan_where_that_lies_whatever_the_number_of_partitions_is(redis_url: str) -> None:
    with connect(redis_url) as redis, container(redis_url, partitions=PARTITIONS) as here:
        planned_in(redis, here, 1)
        plan_id, outcome = an_outcome(redis, 1)
        other = next(n for n in range(4, 200) if partition_of(plan_id, n) not in (1, *range(PARTITIONS)))
        redis.xadd(Partition(1).outcomes, outcome)

        with container(redis_url, partitions=other) as wrong:
            while wrong.context(1).engine.drain():
                pass

        assert redis.hget(Partition(1).plan(plan_id).plan, "state") == b"COMPLETED"
        assert redis.xlen(Partition(partition_of(plan_id, other)).outcomes) == 0


def test_what_comes_to_the_wrong_partition_is_sent_on_and_judged_there(redis_url: str) -> None:
    with connect(redis_url) as redis, container(redis_url, partitions=PARTITIONS) as here:
        planned_in(redis, here, 1)
        plan_id, outcome = an_outcome(redis, 1)
        for number in (2, 1):
            create_group(here, Partition(number).outcomes)
        redis.xadd(Partition(2).outcomes, outcome)

        for number in (2, 1):
            while here.context(number).engine.drain():
                pass

        assert redis.hget(Partition(1).plan(plan_id).plan, "state") == b"COMPLETED"
        assert redis.hget(Partition(2).stats, "forwarded") == b"1"
        assert [redis.xlen(Partition(number).outcomes) for number in (1, 2)] == [0, 0]


def test_an_outcome_is_sent_on_once_although_pending_entries_are_read_again(redis_url: str) -> None:
    with connect(redis_url) as redis, container(redis_url, partitions=PARTITIONS) as here:
        planned_in(redis, here, 1)
        _, outcome = an_outcome(redis, 1)
        create_group(here, Partition(2).outcomes)
        engine = here.context(2).engine
        engine.apply((), engine.pending_look)
        redis.xadd(Partition(2).outcomes, outcome)

        engine.apply(engine.router.inbox.read(), engine.pending_look)
        here.client.connection_pool.disconnect()
        engine.sweep(here.name)

        assert redis.xlen(Partition(1).outcomes) == 1
        assert redis.xlen(Partition(2).outcomes) == 0


def refused(url: str, partitions: int, log: Path) -> tuple[int, str]:
    """Start a worker with another number; returns its exit code and what it said."""
    variables = {**os.environ, "PLANNER_REDIS_URL": url, "PLANNER_PARTITIONS": str(partitions)}
    with log.open("wb") as file:
        process = subprocess.run(worker_command(pool="solo"), env=variables, stdout=file, stderr=file, timeout=60)
    return process.returncode, log.read_text()


@pytest.mark.outages
def test_a_worker_with_another_number_of_partitions_does_not_start(redis_url: str, tmp_path: Path) -> None:
    with connect(redis_url) as redis:
        deployment.join(redis, PARTITIONS)

        code, said = refused(redis_url, 2, tmp_path / "log")

        assert code == 1
        assert "PLANNER_PARTITIONS is 2 here, and this server has 3" in said
        assert redis.exists(Partition(0).outcomes) == 0


@pytest.mark.outages
def test_a_worker_ends_when_its_server_is_given_another_number(redis_url: str, tmp_path: Path) -> None:
    reasons: list[str] = []
    with (
        connect(redis_url) as redis,
        suppress(AssertionError),  # of `running_worker`, whose worker should end with 0
        running_worker(redis_url, tmp_path / "worker.log") as worker,
    ):
        wait_until(lambda: redis.hget(keys.DEPLOYMENT, "partitions") == b"1", what="its number is on the server")
        redis.hset(keys.DEPLOYMENT, "partitions", 2)
        wait_until(lambda: worker.process.poll() is not None, 60, "the worker ends")
        reasons += [record["reason"] for record in worker.logged("watchdog ends the worker")]

    assert len(reasons) == 1
    assert "this server has 2" in reasons[0]


@pytest.mark.outages
def test_a_server_that_was_emptied_is_told_the_number_again(redis_url: str, tmp_path: Path) -> None:
    with connect(redis_url) as redis, running_worker(redis_url, tmp_path / "worker.log"):
        redis.flushall()

        wait_until(lambda: redis.hget(keys.DEPLOYMENT, "partitions") == b"1")


def test_a_server_without_the_number_takes_the_one_that_fits_its_plans(redis_url: str) -> None:
    with connect(redis_url) as redis, container(redis_url, partitions=PARTITIONS) as here:
        planned_in(redis, here, 1)

        with pytest.raises(WrongDeployment, match="it is in partition 1: set PLANNER_PARTITIONS"):
            deployment.join(redis, 1)
        assert redis.exists(keys.DEPLOYMENT) == 0
        deployment.join(redis, PARTITIONS)

        assert redis.hgetall(keys.DEPLOYMENT) == {b"partitions": b"3", b"layout": b"1"}


def test_commands_and_controllers_refuse_another_number_with_a_sentence(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setenv("PLANNER_PARTITIONS", "2")
    with connect(redis_url) as redis:
        deployment.join(redis, PARTITIONS)

    listed = CliRunner().invoke(app, ["plans"])
    worked = CliRunner().invoke(app, ["controller", "--workdir", str(tmp_path), "--once"])

    assert listed.exit_code == 2
    assert "this server has 3: set PLANNER_PARTITIONS=3" in " ".join(listed.output.split())
    assert worked.exit_code == 1


def test_the_number_is_changed_where_nothing_is_left(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    with connect(redis_url) as redis, container(redis_url, partitions=PARTITIONS) as here:
        deployment.join(redis, PARTITIONS)
        planned_in(redis, here, 1)

        kept = CliRunner().invoke(app, ["partitions", "5"])
        redis.delete(Partition(1).plans)
        redis.xadd(Partition(1).outcomes, {"data": "{}"})
        waiting = CliRunner().invoke(app, ["partitions", "5"])
        redis.delete(Partition(1).outcomes)
        changed = CliRunner().invoke(app, ["partitions", "5", "--json"])

        assert (kept.exit_code, waiting.exit_code, changed.exit_code) == (1, 1, 0)
        assert "This server has plans" in kept.output
        assert "Messages wait in planner:{1}:outcomes" in waiting.output
        assert codec.loads(changed.stdout) == {"partitions": 5, "owners": [None] * 5}
