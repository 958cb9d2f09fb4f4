"""Outcomes over HTTP: a real gateway on a real server, a worker's parts in this process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
from redis import Redis

from schemas import codec
from schemas.api_key import ApiKey, Right
from tests.conftest import wait_until
from tests.support.engine import a_goal, at_work, container, drain, plan
from tests.support.gateway import Gateway, running_gateway
from tests.support.messages import goals_of_partitions, publish, read_specs, specs
from tests.support.stored import P0, state
from worker.process.container import Container
from worker.store import api_keys
from worker.store.keys import Partition

NO_PLAN = "plan_00-" + 32 * "0"


def done(spec: dict[str, Any], **said: Any) -> dict[str, Any]:
    named = {name: spec[name] for name in ("step_id", "plan_id", "attempt", "lease")}
    return {**named, "success": True, "touched_files": spec["allowed_files"], **said}


def claimed(client: httpx.Client, count: int = 1) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while len(found) < count:
        body = {"controller": "ctl-7", "wait_s": 10, "max": count - len(found)}
        found += client.post("/v1/steps:claim", json=body).raise_for_status().json()["steps"]
    return found


def test_a_controller_over_http_does_a_plan_and_hears_each_verdict(
    here: Container, redis: Redis, controller: httpx.Client
) -> None:
    (plan_id,) = plan(here, redis, a_goal(2))
    with at_work(here):
        (first,) = claimed(controller)
        outcome = done(first)
        said = controller.post("/v1/outcomes?wait=10", json=outcome)
        assert (said.status_code, said.json()["accepted"], said.json()["verdicts"]) == (200, 1, ["applied"])
        assert len(said.json()["entries"]) == 1
        (second,) = claimed(controller)
        unknown = {**outcome, "plan_id": NO_PLAN}
        several = [outcome, done(second), {**done(second), "attempt": 7}, {**outcome, "step_id": "none"}, unknown]
        said = controller.post("/v1/outcomes?wait=10", json=several)
        assert said.json()["verdicts"] == ["duplicate", "applied", "refused", "unknown", "unknown"]
        assert controller.post("/v1/outcomes?wait=10", json=done(second, diff_hash="x")).json()["verdicts"] == ["late"]
    assert state(redis, plan_id) == "COMPLETED"


def test_each_verdict_is_that_of_its_outcome_where_two_partitions_give_the_same_entry(
    redis: Redis, redis_url: str
) -> None:
    for home in (Partition(0), Partition(1)):  # both go on behind this one
        redis.xadd(home.outcomes, {"data": b""}, id="99999999999999-1")
        redis.xdel(home.outcomes, "99999999999999-1")
    with container(redis_url, partitions=2) as two, running_gateway(redis_url, partitions=2) as gateway:
        for goal in goals_of_partitions(2, 1, 1):
            publish(redis, goal)
        while two.goal_consumer.drain():
            pass
        (first,), (second,) = read_specs(redis, 0), read_specs(redis, 1)
        sent = [done(first), {**done(second), "attempt": 7}]
        with ThreadPoolExecutor() as pool:
            asked = pool.submit(gateway.client(Right.CONTROLLER).post, "/v1/outcomes?wait=10", json=sent)

            def work() -> bool:
                for number in range(2):
                    while two.context(number).engine.drain():
                        pass
                return asked.done()

            wait_until(work, what="the verdicts")

    said = asked.result().json()
    assert len(set(said["entries"])) == 1
    assert (asked.result().status_code, said["verdicts"]) == (200, ["applied", "refused"])


def test_outcomes_without_wait_are_taken_as_they_are_whatever_their_numbers(
    here: Container, redis: Redis, controller: httpx.Client
) -> None:
    (plan_id,) = plan(here, redis, a_goal(1))
    (spec,) = claimed(controller)
    body = (
        b'{"step_id": "s-0", "success": true, "touched_files": ["src/f0.py"], '
        b'"metrics": {"duration_ms": 1e999}, "output": [1e400], '
    )
    named = ", ".join(f'"{name}": "{spec[name]}"' for name in ("plan_id", "lease"))
    raw = body + f'"attempt": 1, {named}}}'.encode()

    said = controller.post("/v1/outcomes", content=raw, headers={"Content-Type": "application/json"})

    assert said.status_code == 202, said.text
    assert said.headers["Location"] == f"/v1/plans/{plan_id}"
    there: Any = redis.xrange(P0.outcomes)
    assert said.json() == {"accepted": 1, "entries": [entry.decode() for entry, _ in there]}
    drain(here)
    assert state(redis, plan_id) == "COMPLETED"


def test_all_that_is_wrong_is_told_with_pointers_and_nothing_is_taken(redis: Redis, controller: httpx.Client) -> None:
    good = {"step_id": "s", "success": True, "plan_id": NO_PLAN, "attempt": 1, "lease": "x"}

    def refused(body: Any) -> tuple[int, set[str]]:
        said = controller.post("/v1/outcomes", json=body)
        return said.status_code, {each["pointer"] for each in said.json()["errors"]}

    lacking = {name: good[name] for name in ("step_id", "success")}
    assert refused(lacking) == (422, {"/plan_id", "/attempt", "/lease"})
    assert refused([good, lacking, {**good, "step_id": "A B"}, 5]) == (
        422,
        {"/1/plan_id", "/1/attempt", "/1/lease", "/2/step_id", "/3"},
    )
    assert refused([good] * 101) == (422, {""})
    assert refused([]) == (422, {""})
    assert refused([good, {**good, "output": "x" * 70_000}]) == (413, {"/1/output"})
    assert refused({**good, "output": "x" * 300_000}) == (413, {""})
    assert (
        controller.post("/v1/outcomes", content=b"{", headers={"Content-Type": "application/json"}).status_code == 400
    )
    assert redis.xlen(P0.outcomes) == 0 or redis.xinfo_stream(P0.outcomes)["entries-added"] == 0


def test_a_key_reports_what_it_was_given_and_of_others_only_what_it_may_see(
    here: Container, redis: Redis, gateway: Gateway, controller: httpx.Client
) -> None:
    api_keys.add(redis, ApiKey(key_id="gpus", rights=(Right.CONTROLLER,), tenant="acme", queues=("gpu",)))
    plan(here, redis, a_goal(1, tenant="acme", queue="gpu"), a_goal(1, goal_id="shared", tenant="acme"))
    (shared,) = specs(redis)
    (theirs,) = [each for each in _all_specs(redis) if each["queue"] == "gpu"]
    stranger = gateway.client(Right.CONTROLLER, tenant="other")

    guess = stranger.post("/v1/outcomes?wait=1", json={**done(theirs), "lease": "guess"})
    assert (guess.status_code, guess.json()["code"]) == (404, "no_such_attempt")
    missing = stranger.post("/v1/outcomes", json={**done(theirs), "plan_id": NO_PLAN})
    assert missing.json() == guess.json()
    assert controller.post("/v1/outcomes", json={**done(theirs), "lease": "guess"}).status_code == 403  # not its queue
    assert gateway.client(Right.VIEWER).post("/v1/outcomes", json=done(theirs)).status_code == 403
    assert redis.xlen(P0.outcomes) == 0

    (given,) = claimed(stranger)  # `default` is shared: whoever was given a step reports it
    assert given == shared
    assert stranger.post("/v1/outcomes", json=done(given)).status_code == 202


def _all_specs(redis: Redis) -> list[dict[str, Any]]:
    found: Any = redis.xrange(P0.steps("gpu"))
    return [codec.loads(fields[b"data"]) for _, fields in found]


def test_an_outcome_has_the_name_of_the_lease_whatever_it_says(
    here: Container, redis: Redis, controller: httpx.Client
) -> None:
    (plan_id,) = plan(here, redis, a_goal(1))
    (spec,) = claimed(controller)
    holder: Any = redis.hget(P0.lease_prefix(plan_id) + spec["step_id"], "controller")

    assert controller.post("/v1/outcomes", json=done(spec, controller="ctl-7")).status_code == 202

    there: Any = redis.xrange(P0.outcomes)
    ((_, fields),) = there
    assert codec.loads(fields[b"data"])["controller"] == holder.decode()
    assert holder.endswith(b"/ctl-7")
