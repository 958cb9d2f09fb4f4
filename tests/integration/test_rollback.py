"""Data that went back in time: workers that know better see it, and nothing of what was lost silently goes on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from schemas import codec
from tests.conftest import connect, running_worker, wait_until
from tests.support.engine import a_goal, container, drain, plan
from tests.support.messages import answer, report, specs
from tests.support.stored import P0, state
from worker.host import embedded_server
from worker.host.embedded_server import free_port
from worker.process.container import Container
from worker.store import keys
from worker.store.plans import PlanTalk


class Copy:
    """All data of a server as they were, to be put back."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._kept: dict[Any, Any] = {key: redis.dump(key) for key in redis.scan_iter()}

    def restore(self) -> None:
        self._redis.flushdb()
        for key, dumped in self._kept.items():
            self._redis.restore(key, 0, dumped)


@contextmanager
def a_worker(url: str, folder: Path) -> Iterator[Container]:
    with container(url, state_dir=folder) as made:
        yield made


def finish(redis: Redis, here: Container, plan_id: str) -> None:
    """Report what this plan has in flight, and have `here` apply it."""
    for spec in specs(redis):
        if spec["plan_id"] == plan_id:
            report(redis, answer(spec))
    drain(here)


def live(redis: Redis, plan_id: str) -> dict[str, Any]:
    raw: Any = redis.hget(P0.plan(plan_id).plan, "live")
    found: dict[str, Any] = codec.loads(raw)
    return found


def is_paused(redis: Redis, plan_id: str) -> bool:
    return "needs_reconcile" in live(redis, plan_id).get("paused", "")


def test_every_worker_names_the_plans_that_it_had_changed_since(redis_url: str, redis: Redis, tmp_path: Path) -> None:
    with a_worker(redis_url, tmp_path / "one") as one, a_worker(redis_url, tmp_path / "two") as two:
        first, second, third = plan(one, redis, a_goal(3), a_goal(3), a_goal(3))
        older = Copy(redis)
        finish(redis, one, first)
        finish(redis, two, second)
        older.restore()

        finish(redis, one, third)
        seen_by_one = {each: is_paused(redis, each) for each in (first, second, third)}
        finish(redis, two, third)

        assert seen_by_one == {first: True, second: False, third: False}
        assert [is_paused(redis, each) for each in (first, second, third)] == [True, True, False]
        assert live(redis, third)["counts"]["DONE"] == 2


def test_a_plan_that_needs_a_person_goes_on_when_it_is_resumed(redis_url: str, redis: Redis, tmp_path: Path) -> None:
    with a_worker(redis_url, tmp_path) as here:
        first, second = plan(here, redis, a_goal(2), a_goal(1))
        older = Copy(redis)
        finish(redis, here, first)
        older.restore()
        finish(redis, here, second)
        finish(redis, here, first)
        assert specs(redis) == []

        order = {"command_id": "r1", "command": "resume", "scope": "plan", "actor": "ada", "reason": "looked at it"}
        redis.xadd(P0.commands, {"data": codec.dumps({**order, "plan_id": first})})

        def resumed() -> bool:
            drain(here)
            return not is_paused(redis, first)

        wait_until(resumed)
        finish(redis, here, first)

        assert state(redis, first) == "COMPLETED"


def test_a_goal_that_meets_a_rollback_is_planned_all_the_same(redis_url: str, redis: Redis, tmp_path: Path) -> None:
    with a_worker(redis_url, tmp_path) as here:
        (first,) = plan(here, redis, a_goal(2))
        older = Copy(redis)
        finish(redis, here, first)
        older.restore()

        both = plan(here, redis, a_goal(1))

        assert len(both) == 2
        assert is_paused(redis, first)
        assert len(specs(redis)) == 2


def test_what_a_dead_process_knew_is_taken_up_by_the_next(redis_url: str, redis: Redis, tmp_path: Path) -> None:
    with a_worker(redis_url, tmp_path) as here:
        (first,) = plan(here, redis, a_goal(2))
        older = Copy(redis)
        finish(redis, here, first)
        here.context(0).commits.save()
    (kept,) = tmp_path.glob("commits-*.json")
    known = codec.loads(kept.read_bytes())
    kept.write_bytes(codec.dumps({**known, "started": "another process"}))
    older.restore()

    with a_worker(redis_url, tmp_path) as after:
        drain(after)
        assert is_paused(redis, first)
        assert kept not in tmp_path.glob("commits-*.json")


@contextmanager
def another_host(patch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    """Be a process of that host for as long as the block lasts."""
    with patch.context() as there:
        there.setattr("socket.gethostname", lambda: name)
        yield


def test_a_container_that_was_recreated_knows_what_the_one_before_it_had_changed(
    redis_url: str, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with another_host(monkeypatch, "older"), a_worker(redis_url, tmp_path) as here:
        first, second = plan(here, redis, a_goal(2), a_goal(2))
        older = Copy(redis)
        finish(redis, here, first)
        here.context(0).commits.save()
    older.restore()

    with another_host(monkeypatch, "newer"), a_worker(redis_url, tmp_path) as after:
        finish(redis, after, second)
        finish(redis, after, first)

        assert [is_paused(redis, each) for each in (first, second)] == [True, False]
        assert live(redis, second)["counts"]["DONE"] == 1
        assert [spec["step_id"] for spec in specs(redis) if spec["plan_id"] == first] == []  # nothing is handed out


def test_a_recreated_container_pauses_every_plan_where_the_one_before_it_had_forgotten_some(
    redis_url: str, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.store.commits.REMEMBERED", 1)
    with another_host(monkeypatch, "older"), a_worker(redis_url, tmp_path) as here:
        each = plan(here, redis, a_goal(2), a_goal(2), a_goal(2))
        older = Copy(redis)
        for plan_id in each[:2]:
            finish(redis, here, plan_id)
        here.context(0).commits.save()
    older.restore()

    with another_host(monkeypatch, "newer"), a_worker(redis_url, tmp_path) as after:
        drain(after)

        assert [is_paused(redis, plan_id) for plan_id in each] == [True, True, True]


def test_what_another_host_knew_is_told_once(
    redis_url: str, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with another_host(monkeypatch, "older"), a_worker(redis_url, tmp_path) as here:
        (first,) = plan(here, redis, a_goal(2))
        older = Copy(redis)
        finish(redis, here, first)
        here.context(0).commits.save()
    older.restore()

    with another_host(monkeypatch, "newer"):
        for _ in range(2):
            with a_worker(redis_url, tmp_path) as after:
                drain(after)

    assert [record.message for record in caplog.records].count("data rolled back") == 1
    assert {codec.loads(path.read_bytes())["host"] for path in tmp_path.glob("commits-*.json")} == {"newer"}


def test_a_sweep_sees_a_rollback_though_no_outcome_comes_and_no_connection_was_lost(
    redis_url: str, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.store.commits.COMPARE_S", 0.0)
    with a_worker(redis_url, tmp_path) as here:
        first, second = plan(here, redis, a_goal(2), a_goal(2))
        older = Copy(redis)
        finish(redis, here, first)
        older.restore()

        here.context(0).engine.sweep(here.name)

        assert [is_paused(redis, each) for each in (first, second)] == [True, False]


def test_a_process_that_idles_has_written_down_its_last_commit_within_seconds(
    redis_url: str, redis: Redis, tmp_path: Path
) -> None:
    with a_worker(redis_url, tmp_path) as here:
        (first,) = plan(here, redis, a_goal(2))
        finish(redis, here, first)
        known = here.context(0).commits.known

        def written() -> bool:
            return any(codec.loads(path.read_bytes())["known"] == known for path in tmp_path.glob("commits-*.json"))

        wait_until(written, what="the file is up to date")


def test_a_process_that_knows_less_sees_it_too(redis_url: str, redis: Redis, tmp_path: Path) -> None:
    """Otherwise its own commits would hide the loss from the one that knows more."""
    with a_worker(redis_url, tmp_path) as one, a_worker(redis_url, tmp_path) as two:
        first, second = plan(one, redis, a_goal(3), a_goal(9))
        older = Copy(redis)
        finish(redis, one, first)
        one.context(0).commits.save()
        drain(two)
        older.restore()
        for each in (one, two):
            each.client.connection_pool.disconnect()  # as a server does that restarts

        for _ in range(5):
            finish(redis, two, second)
        finish(redis, one, first)

        assert is_paused(redis, first)


def test_what_was_lost_is_told_although_the_connection_breaks_again(
    redis_url: str, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_worker(redis_url, tmp_path) as here:
        first, second = plan(here, redis, a_goal(2), a_goal(2))
        older = Copy(redis)
        finish(redis, here, first)
        older.restore()

        def broken(*_: Any) -> None:
            raise RedisConnectionError("gone")

        with monkeypatch.context() as patch:
            patch.setattr(PlanTalk, "begin", broken)
            report(redis, answer(specs(redis)[1]))
            with pytest.raises(RedisConnectionError):
                drain(here)
            here.client.connection_pool.disconnect()
        finish(redis, here, second)

        assert is_paused(redis, first)


def test_a_process_that_starts_later_tells_of_no_rollback(
    redis_url: str, redis: Redis, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with a_worker(redis_url, tmp_path / "one") as here:
        first, second = plan(here, redis, a_goal(2), a_goal(1))
        older = Copy(redis)
        finish(redis, here, first)
        older.restore()
        finish(redis, here, second)
    caplog.clear()

    with a_worker(redis_url, tmp_path / "two") as later:
        drain(later)

    assert [record.message for record in caplog.records] == []


def test_a_server_with_other_data_is_not_mistaken_for_a_rollback(redis_url: str, redis: Redis, tmp_path: Path) -> None:
    with a_worker(redis_url, tmp_path) as here:
        finish(redis, here, plan(here, redis, a_goal(1))[0])
        here.context(0).commits.save()
    redis.flushdb()

    with a_worker(redis_url, tmp_path) as other:
        (plan_id,) = plan(other, redis, a_goal(1))
        finish(redis, other, plan_id)

        assert state(redis, plan_id) == "COMPLETED"


@pytest.mark.parametrize("stored", [b"", b"{", b'{"born": 1}'])
def test_a_state_file_that_is_damaged_is_passed_over(
    redis_url: str, redis: Redis, tmp_path: Path, stored: bytes
) -> None:
    with a_worker(redis_url, tmp_path) as here:
        drain(here)
        born: Any = redis.hget(P0.commits, "born")
    damaged = tmp_path / f"commits-0-{born.decode()}-x.json"
    damaged.write_bytes(stored)

    with a_worker(redis_url, tmp_path) as after:
        drain(after)
        assert not damaged.exists()


@pytest.mark.outages
def test_a_worker_process_sees_that_its_server_came_back_with_an_older_file(tmp_path: Path) -> None:
    data, older, port = tmp_path / "data", tmp_path / "older", free_port()
    with (
        embedded_server.valkey(data, port) as url,
        connect(url) as redis,
        running_worker(url, tmp_path / "log", PLANNER_STATE_DIR=str(tmp_path / "state")) as worker,
    ):
        for _ in range(2):
            redis.xadd(keys.GOALS, {"data": codec.dumps(a_goal(2))})
        wait_until(lambda: len(specs(redis)) == 2, what="both plans started")
        first, second = specs(redis)
        redis.config_set("appendfsync", "always")
        redis.set("flush", 1)
        shutil.copytree(data, older)
        report(redis, answer(first))
        wait_until(lambda: live(redis, first["plan_id"])["counts"].get("DONE") == 1, what="its outcome is applied")
        with suppress(RedisError):
            redis.shutdown(nosave=True)
        shutil.rmtree(data)
        shutil.copytree(older, data)
        with embedded_server.valkey(data, port):
            wait_until(lambda: _answers(redis), what="the server is back")
            assert live(redis, first["plan_id"])["counts"].get("DONE") is None

            wait_until(lambda: is_paused(redis, first["plan_id"]), what="the plan is marked")
            wait_until(lambda: worker.logged("data rolled back"), what="it is said")
            assert not is_paused(redis, second["plan_id"])
            worker.process.terminate()
            worker.process.wait(60)


def _answers(redis: Redis) -> bool:
    try:
        return bool(redis.ping())
    except RedisError:
        return False
