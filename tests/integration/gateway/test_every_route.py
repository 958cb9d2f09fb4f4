"""Every route of the gateway, asked with a key that lacks the right, and with ids of another tenant and repository."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import httpx
import pytest
from redis import Redis

from schemas.api_key import Right
from tests.conftest import connect
from tests.support.engine import a_goal, container, plan
from tests.support.gateway import Gateway, running_gateway
from worker.gateway.app import create_app
from worker.store.keys import Partition

P, C, A, O, V, ADMIN = Right  # noqa: E741
READERS = {P, A, O, V}
OPEN: dict[tuple[str, str], set[Right]] = {
    ("GET", "/healthz"): set(Right),
    ("GET", "/readyz"): set(Right),
    ("GET", "/openapi.json"): set(Right),
    ("POST", "/v1/token"): set(Right),  # shows a token of its own
    ("POST", "/v1/webhooks/{source}"): set(Right),  # is signed
    ("GET", "/static/{version}/{name}"): set(Right),
    ("GET", "/errors"): set(Right),
}
FORMS = {
    ("POST", "/sign-in"),
    ("POST", "/sign-out"),
    ("POST", "/plans/{plan_id}/acts/{act}"),
    ("POST", "/acts/{act}"),
    ("POST", "/acts/selected"),
    ("POST", "/goals/new"),
    ("POST", "/dead/replay"),
}  # of the page: test_page.py, test_page_acts.py, test_page_goals.py, test_page_dead.py
PLAN_READS = (
    "",
    "/steps",
    "/steps/{step_id}",
    "/steps/{step_id}/transcript",
    "/log",
    "/goal",
    "/explain",
    "/export",
    "/summary.md",
    "/result",
    "/changes.diff",
    "/graph.mmd",
    "/graph.svg",
)
MAY: dict[tuple[str, str], set[Right]] = {
    ("POST", "/v1/goals"): {P},
    ("GET", "/v1/goals"): {P, V, O},
    ("GET", "/"): READERS,
    ("GET", "/live"): READERS,
    ("GET", "/fleet"): {V, O},
    ("GET", "/spend"): {V, O},
    ("GET", "/plans/{plan_id}"): READERS,
    **{("GET", "/plans/{plan_id}" + rest): READERS for rest in ("/document", "/timeline", "/steps/{step_id}")},
    ("GET", "/plans/{plan_id}/acts/{act}"): {O},  # of pause
    ("GET", "/acts/{act}"): {O},
    ("GET", "/acts/selected"): {O},
    ("GET", "/review"): READERS,
    ("GET", "/help"): READERS,
    ("GET", "/goals"): {P, V, O},
    ("GET", "/goals/new"): {P},
    ("GET", "/dead"): {O},
    ("GET", "/dead/replay"): {O},
    ("GET", "/v1/plans"): READERS,
    **{("GET", "/v1/plans/{plan_id}" + rest): READERS for rest in PLAN_READS},
    ("POST", "/v1/plans/{plan_id}/commands"): {O, A},
    ("POST", "/v1/commands"): {O, A},
    ("GET", "/v1/dead"): {O},
    ("POST", "/v1/dead:replay"): {O},
    ("GET", "/v1/queues"): {V, O},
    ("GET", "/v1/stats"): {V, O},
    ("GET", "/v1/controllers"): {V, O},
    ("GET", "/v1/budgets"): {V, O},
    ("GET", "/v1/events"): READERS,
    ("GET", "/metrics"): {V},
    ("POST", "/v1/steps:claim"): {C},
    ("POST", "/v1/steps:heartbeat"): {C},
    ("POST", "/v1/outcomes"): {C},
    ("POST", "/v1/attachments"): {C},
}
ENDLESS = {"/v1/events", "/live"}  # test_events.py, test_broadcast.py
NO_PLAN = f"plan_00-{'0' * 32}"
NOTHING: dict[str, str] = {}
OTHER = {"tenant": "initech", "queue": "initech-q", "goal_id": "their-goal"}


@pytest.fixture(scope="module")
def redis(server_url: str) -> Iterator[Redis]:
    with connect(server_url) as client:
        client.flushall()
        client.function_flush()
        yield client


@pytest.fixture(scope="module")
def gateway(redis: Redis, server_url: str) -> Iterator[Gateway]:
    with running_gateway(server_url) as made:
        yield made


@pytest.fixture(scope="module")
def theirs(gateway: Gateway, redis: Redis) -> str:
    """A plan of another tenant, with a step on that tenant's queue; returns its id."""
    gateway.key(Right.CONTROLLER, tenant="initech", queues=("initech-q",))
    with container(gateway.settings.redis_url) as here:
        return plan(here, redis, a_goal(1, **OTHER, context={"repo": "initech/till"}))[0]


def walk(routes: Any) -> Iterator[tuple[str, str]]:
    for route in routes:
        if hasattr(route, "original_router"):
            yield from walk(route.original_router.routes)
        else:
            yield sorted(route.methods)[0], route.path


def routes(gateway: Gateway) -> list[tuple[str, str]]:
    """List every route of the application, each with its method."""
    found = list(walk(create_app(gateway.settings).routes))
    assert len(found) > 20
    return found


def ask(client: httpx.Client, method: str, path: str, of: str, body: Any = None) -> tuple[int, str]:
    """Ask a route about this plan; returns the status and what was said. Of a stream that never ends, nothing."""
    place = path.format(plan_id=of, step_id="s-0", source="github", version="0", name="page.css", act="pause")
    with client.stream(method, place, json=body if method == "POST" else None) as answer:
        endless = "event-stream" in answer.headers["Content-Type"]
        return answer.status_code, "" if endless else answer.read().decode()


def test_a_route_is_for_those_keys_that_have_its_right(gateway: Gateway, theirs: str) -> None:
    found = routes(gateway)
    clients = {right: gateway.client(right) for right in Right}
    nobody, stranger = gateway.with_token(None), gateway.with_token(f"pk_{'0' * 16}_{'0' * 64}")

    for (method, path), right in product((MAY | OPEN).keys() & set(found), Right):
        status, said = ask(clients[right], method, path, theirs, {"wait_s": 0})
        may = (MAY | OPEN)[method, path] | {ADMIN}
        assert (status == 403) == (right not in may), (method, path, right, said)
        assert status not in (401, 500), (method, path, right, said)
    for method, path in set(found) - OPEN.keys() - FORMS:  # also one that is not named here
        assert [ask(who, method, path, theirs, {})[0] for who in (nobody, stranger)] == [401, 401]


def requests_in(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.getMessage() == "request"]


@pytest.mark.parametrize("whose", [{"tenant": "acme"}, {"repositories": ("initech/web",)}], ids=str)
def test_what_belongs_to_another_is_not_there(
    gateway: Gateway, theirs: str, redis: Redis, caplog: pytest.LogCaptureFixture, whose: dict[str, Any]
) -> None:
    caplog.set_level(logging.INFO)
    token = gateway.key(Right.ADMIN, **whose)
    client = gateway.with_token(token)
    client.get("/v1/plans")  # when this is answered, what a test before asked is logged
    caplog.clear()
    before = redis.xlen(Partition(0).commands), redis.xlen("planner:commands"), redis.xlen("planner:goals")

    for method, path in set(routes(gateway)) - FORMS:
        if "{plan_id}" in path:
            missing = ask(client, method, path, NO_PLAN, {"command": "pause"})
            there = ask(client, method, path, theirs, {"command": "pause"})
            assert missing[0] == there[0] == 404
            assert there[1].replace(theirs, "") == missing[1].replace(NO_PLAN, "")
        elif method == "GET" and path not in ENDLESS and (method, path) in MAY:
            for query in (NOTHING, OTHER, {"goal_id": "their-goal"}, {"repo": "initech/till"}):
                answer = client.get(path, params=query)
                said = re.sub('value="[^"]*"', "", answer.text)  # a form of the page has what was asked for
                assert not re.search("initech-q|initech/till|" + theirs, said), (path, query, answer.text)
                statuses = (403,) if path == "/metrics" else (200, 404, 422)  # its figures are of all tenants together
                assert answer.status_code in statuses, (path, query)
    assert client.get("/v1/events", params={"plan": theirs}).status_code == 404
    assert before == (redis.xlen(Partition(0).commands), redis.xlen("planner:commands"), redis.xlen("planner:goals"))
    assert token.split("_")[2] not in caplog.text
    assert {token.split("_")[1]} == {getattr(record, "key_id", None) for record in requests_in(caplog)}


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/v1/goals", {"goal": "x", "tenant": "initech"}, 403),
        ("/v1/goals", {"goal": "x", "queue": "initech-q"}, 403),
        ("/v1/commands", {"command": "halt", "scope": "plan", "plan_id": "THEIRS"}, 404),
        ("/v1/commands", {"command": "skip", "scope": "step", "plan_id": "THEIRS", "step_id": "s-0"}, 404),
        ("/v1/commands", {"command": "halt", "scope": "tenant", "target": "initech"}, 403),
        ("/v1/commands", {"command": "halt", "scope": "repository", "target": "initech/till"}, 403),
        ("/v1/commands", {"command": "halt", "scope": "all"}, 403),
        ("/v1/commands", {"command": "pause", "scope": "queue", "target": "initech-q"}, 403),
        ("/v1/steps:claim", {"controller": "c", "queues": ["initech-q"], "wait_s": 0}, 403),
    ],
    ids=str,
)
def test_nothing_is_done_to_what_belongs_to_another(
    gateway: Gateway, theirs: str, redis: Redis, path: str, body: dict[str, Any], expected: int
) -> None:
    client = gateway.client(Right.ADMIN, tenant="acme")
    before = redis.xlen(Partition(0).commands), redis.xlen("planner:commands"), redis.xlen("planner:goals")

    answer = client.post(path, json={name: theirs if value == "THEIRS" else value for name, value in body.items()})

    assert answer.status_code == expected, answer.text
    assert before == (redis.xlen(Partition(0).commands), redis.xlen("planner:commands"), redis.xlen("planner:goals"))
    assert redis.xinfo_groups(Partition(0).steps("initech-q"))[0]["pending"] == 0


def test_a_lease_of_anothers_step_cannot_be_had_without_its_secret(gateway: Gateway, theirs: str, redis: Redis) -> None:
    client = gateway.client(Right.CONTROLLER, tenant="acme")
    step = {"step_id": "s-0", "attempt": 1, "lease": "guessed"}

    def beat(plan_id: str) -> dict[str, Any]:
        answer = client.post("/v1/steps:heartbeat", json={"controller": "c", "steps": [{"plan_id": plan_id, **step}]})
        (said,) = answer.json()["steps"]
        return {**said, "plan_id": ""}

    def report(plan_id: str) -> tuple[int, str]:
        answer = client.post("/v1/outcomes", json={"plan_id": plan_id, **step, "success": True})
        return answer.status_code, answer.text.replace(plan_id, "")

    before = {key: redis.hgetall(key) for key in redis.keys("*lease*")}
    assert report(theirs) == report(NO_PLAN)
    assert report(theirs)[0] == 404
    assert beat(theirs) == beat(NO_PLAN)
    assert before == {key: redis.hgetall(key) for key in redis.keys("*lease*")} != {}
