"""A plan that delivers, on a real server: its own queue, a clock that stands still, and what its goal's record says."""

from __future__ import annotations

from typing import Any

from redis import Redis

from schemas import codec
from schemas.plan import GoalAnswer
from tests.conftest import wait_until
from tests.support.engine import a_goal, container, drain, plan
from tests.support.messages import answer, report, specs, work
from tests.support.stored import P0, state
from worker.process.container import Container
from worker.render.review import to_review
from worker.store import queries
from worker.store.step_activity import with_activity

GOAL = {**a_goal(2, limits={"wall_clock_s": 60}), "goal_id": "ci-1", "tenant": "acme"}
LANDED = {"target_sha": 40 * "1", "result_sha": 40 * "2", "conflicts": []}
DONE = {"branch": "planner/x", "pull_request": "https://git.example/acme/shop/pull/7"}


def delivering(here: Container, redis: Redis) -> tuple[str, dict[str, Any]]:
    """Play a plan until nothing is left but its delivery; returns its id and the spec of that."""
    (plan_id,) = plan(here, redis, {**GOAL, "delivery": {"pull_request": True}})
    while work(redis):
        drain(here)
    assert specs(redis) == []  # of the queue that agents read
    landing = waiting(redis)
    assert landing["step_id"] == "land"
    report(redis, answer(landing, output=LANDED))
    drain(here)
    return plan_id, waiting(redis)


def waiting(redis: Redis) -> dict[str, Any]:
    """The spec that waits in the queue of deliveries."""
    found: Any = redis.xrange(P0.steps("deliver"))
    ((_, fields),) = found
    spec: dict[str, Any] = codec.loads(fields[b"data"])
    return spec


def told(redis: Redis) -> GoalAnswer:
    found = queries.goal(redis, "ci-1", "acme")
    assert found is not None
    return found


def test_what_was_delivered_is_in_the_goals_record_the_view_and_the_event(here: Container, redis: Redis) -> None:
    plan_id, spec = delivering(here, redis)
    assert [each["step_id"] for each in spec["input"]["accepted"]] == ["s-0", "s-1"]
    assert told(redis).state is None

    report(redis, answer(spec, output={**DONE, "lines": 12}))
    drain(here)

    view = queries.plan(redis, 1, plan_id)
    assert view is not None
    for shown in (told(redis), view):
        assert (shown.state, shown.branch, shown.pull_request) == ("COMPLETED", *DONE.values())
        assert shown.undelivered is None
    assert [(each.what, each.minutes, each.where) for each in to_review([view])] == [
        ("review its branch", 2, DONE["pull_request"])
    ]
    last: Any = redis.xrevrange(P0.events, count=1)
    ((_, fields),) = last
    assert fields[b"type"] == b"dev.planner.plan.completed.v1"
    assert DONE.items() <= codec.loads(fields[b"data"]).items()


def test_a_change_that_its_repository_has_no_room_for_is_deliverable_and_stands_still_for_review(
    here: Container, redis: Redis
) -> None:
    plan_id, spec = delivering(here, redis)

    released = {"reason": "2 changes wait for review, and 2 may", "kind": "review"}
    report(redis, answer(spec, success=False, released=released, touched_files=[]))
    drain(here)

    view = queries.plan(redis, 1, plan_id)
    assert view is not None
    view = with_activity(redis, 1, view)
    assert view.delivery
    assert view.standing_still
    assert (view.delivery.state, view.standing_still.reason) == ("DELIVERABLE", "review")
    assert "2 changes wait for review" in view.standing_still.detail


def test_nobody_takes_it_and_the_plan_is_completed_without(redis_url: str, redis: Redis) -> None:
    with container(redis_url, delivery_wait_s=1) as here:
        plan_id, _ = delivering(here, redis)
        raw: Any = redis.hget(P0.plan(plan_id).plan, "live")
        assert "still" in codec.loads(raw)["times"]  # the wall clock stands still

        def is_over() -> bool:
            here.context(0).engine.sweep("me")
            return state(redis, plan_id) == "COMPLETED"

        wait_until(is_over, what="the end of the plan")
        here.context(0).engine.sweep("me")

        assert redis.xlen(P0.steps("deliver")) == 0
        assert (told(redis).state, told(redis).branch) == ("COMPLETED", None)
        assert (told(redis).undelivered or "").startswith("no controller of the queue 'deliver' delivered it by ")
