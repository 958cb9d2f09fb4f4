"""Several goals are drafted at once by one worker: one that hangs holds up no other, none is lost or asked twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from schemas import codec
from tests.conftest import connect, wait_until
from tests.support.drafting import PLAN, a_goal, drafting, environment, passing, phases
from tests.support.llm_server import Reply, llm_server
from tests.support.scripted import Fleet
from worker.store import keys

ANSWER = Reply(codec.dumps(PLAN).decode())
HANGS = Reply(codec.dumps(PLAN).decode(), waits=True)
ALL = None  # the queues of a worker


def publish(fleet: Fleet, name: str, **fields: Any) -> dict[str, bytes]:
    """Send a goal; returns its entry."""
    body = {
        **a_goal(goal=f"Fix the rounding of amounts in {name}"),
        "queue": fleet.queues[0],
        "goal_id": name,
        **fields,
    }
    entry = {"data": codec.dumps(body)}
    fleet.redis.xadd(keys.GOALS, entry)  # type: ignore[arg-type]
    return entry


def answered(fleet: Fleet, *names: str, timeout: float = 60) -> list[Any]:
    return [wait_until(lambda each=name: fleet.verdict(each), timeout=timeout, what=name) for name in names]  # type: ignore[misc]


@pytest.mark.long
@pytest.mark.outages
@pytest.mark.parametrize(
    "pool",
    ["solo", "prefork", "threads"],
)
def test_a_drafter_that_hangs_holds_up_nothing_else_of_its_one_worker(
    pool: str, redis_url: str, tmp_path: Path
) -> None:
    with llm_server(HANGS, HANGS, ANSWER) as llm, connect(redis_url) as client:
        fleet = Fleet(client)
        given = environment(llm, DRAFTS_AT_ONCE="3", LLM_TIMEOUT_S="120")
        with drafting(redis_url, tmp_path, ALL, pool=pool, **given) as (worker,):
            again = publish(fleet, "hangs")
            publish(fleet, "hangs-too")
            wait_until(lambda: len(llm.calls) == 2, what="both are asked")
            consumers: Any = client.xinfo_consumers(keys.GOALS, keys.GROUP)  # the watchdog tells them from the others
            drafting_now = [one["name"].endswith(b"-drafts") for one in consumers if one["pending"]]
            assert drafting_now == [True, True]
            for name in ("one", "two"):
                publish(fleet, name)
            publish(fleet, "plain", drafter="none")
            told = answered(fleet, "one", "two", "plain")
            view = fleet.work(told[0].plan_id, passing)  # its outcomes are applied meanwhile
            assert fleet.verdict("hangs") is None

            for _ in range(2):  # who hears nothing sends it again
                client.xadd(keys.GOALS, again)
            wait_until(
                lambda: client.hget(keys.GOALS_STATS, "duplicate") == b"2", what="these are no goals of their own"
            )
            publish(fleet, "hangs", drafter="none")
            wait_until(lambda: client.xlen(keys.GOALS_DEAD) == 1, what="the conflict is told")
            worker.process.terminate()
            wait_until(lambda: b"Warm shutdown" in worker.log.read_bytes(), what="the worker waits for both")
            llm.go_on.set()
            told += answered(fleet, "hangs", "hangs-too")

    assert [each.verdict for each in told] == ["PLANNED"] * 5
    assert view.state == "COMPLETED"
    assert len(llm.calls) == 4
    assert [name for each in told for name, _ in phases(client, each.plan_id)] == ["drafted"] * 4


@pytest.mark.outages
@pytest.mark.parametrize("pool", ["solo", "prefork", pytest.param("threads", marks=pytest.mark.long)])
def test_no_goal_is_lost_or_planned_twice_when_the_worker_is_killed_while_it_drafts(
    pool: str, redis_url: str, tmp_path: Path
) -> None:
    names = [f"goal-{number}" for number in range(7)]
    with llm_server(HANGS) as llm, connect(redis_url) as client:
        fleet = Fleet(client)
        given = environment(llm, DRAFTS_AT_ONCE="3", CLAIM_IDLE_S="1", LLM_TIMEOUT_S="60")
        with drafting(redis_url, tmp_path, ALL, pool=pool, **given) as (first,):
            for name in names:
                publish(fleet, name)
            wait_until(lambda: len(llm.calls) == 3 and client.exists(keys.GOALS_DRAFTS), what="the others wait")
            first.kill()
            (tmp_path / "next").mkdir()
            llm.script[:] = [ANSWER]
            with drafting(redis_url, tmp_path / "next", ALL, pool=pool, **{**given, "PLANNER_CLAIM_IDLE_S": "5"}):
                told = answered(fleet, *names, timeout=90)
                views = [fleet.work(each.plan_id, passing) for each in told]

    assert {each.verdict for each in told} == {"PLANNED"}
    assert {view.state for view in views} == {"COMPLETED"}
    assert len({each.plan_id for each in told}) == client.zcard(keys.Partition(0).plans) == 7
    assert Counter(llm.prompts).most_common(1)[0][1] == 1  # no question was asked twice
    assert Counter(name for each in told for name, _ in phases(client, each.plan_id)) == {"drafted": 4, "fallback": 3}
    pending: Any = client.xpending(keys.GOALS, keys.GROUP)
    assert (client.xlen(keys.GOALS), pending["pending"]) == (0, 0)
    assert not client.keys("*:drafts*")
