"""Commands over HTTP: to one plan and to many, by whom they may be given, and what becomes of one that comes twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from schemas.api_key import Right
from tests.conftest import wait_until
from tests.support.gateway import Gateway
from tests.support.planner import Planner, asking, executing, obeying
from tests.support.scripts.campaign import EXPLORATION, FILES, a_goal


@pytest.fixture
def plan_id(planner: Planner) -> Iterator[str]:
    """A plan whose planner obeys commands as a worker does; nothing else may use its engine meanwhile."""
    made = executing(planner)
    with obeying(planner.container):
        yield made


def test_a_command_is_taken_at_once_and_waited_for_where_that_is_asked(gateway: Gateway, planner: Planner) -> None:
    plan_id, operator = executing(planner), gateway.client(Right.OPERATOR)
    path = f"/v1/plans/{plan_id}/commands"

    sent = operator.post(path, json={"command": "pause", "reason": "lunch", "actor": "ann"})
    with obeying(planner.container):
        waited = operator.post(f"{path}?wait=20", json={"command": "resume"})
        approval = {"command": "approve", "step_id": "fix-b", "command_id": "a-1"}
        refused, again = (operator.post(f"{path}?wait=20", json=approval) for _ in range(2))
        missing = operator.post(path, json={"command": "skip", "step_id": "none"})

    assert (sent.status_code, list(sent.json())) == (202, ["command_id"])
    assert (waited.status_code, waited.json()["type"]) == (200, "dev.planner.command.obeyed.v1")
    assert waited.json()["data"]["command_id"] == waited.json()["command_id"]
    assert (refused.status_code, refused.json()["code"]) == (409, "command_refused")
    assert "does not wait for an approval" in refused.json()["detail"]
    assert (again.status_code, again.json()) == (409, refused.json())
    assert (missing.status_code, missing.json()["code"]) == (404, "no_such_step")


def test_nobody_commands_in_the_name_of_another(gateway: Gateway, plan_id: str) -> None:
    operator, path = gateway.client(Right.OPERATOR), f"/v1/plans/{plan_id}/commands?wait=20"

    named = operator.post(path, json={"command": "pause", "actor": "ann"}).json()["data"]["actor"]
    unnamed = operator.post(path, json={"command": "resume"}).json()["data"]["actor"]

    assert named == f"ann ({unnamed})"
    assert unnamed.startswith("key ")


def test_a_command_that_comes_again_is_obeyed_once_and_its_key_is_for_one_body(gateway: Gateway, plan_id: str) -> None:
    operator, path = gateway.client(Right.OPERATOR), f"/v1/plans/{plan_id}/commands?wait=20"
    headers, body = {"Idempotency-Key": "top-up-1"}, {"command": "top_up", "value": {"tokens": 5}}

    first, again = (operator.post(path, json=body, headers=headers) for _ in range(2))
    other = operator.post(path, json={**body, "value": {"tokens": 6}}, headers=headers)
    named = operator.post(path, json={**body, "value": {"tokens": 6}, "command_id": "top-up-1"})

    assert (first.status_code, first.json()["command_id"]) == (200, "top-up-1")
    assert (again.status_code, again.json()["type"]) == (200, "dev.planner.command.known.v1")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert (named.status_code, named.json()["code"]) == (409, "command_refused")


WIDE: list[tuple[dict[str, Any], dict[str, Any], int]] = [
    ({}, {"scope": "all"}, 200),
    ({}, {"scope": "repository", "target": "acme/shop"}, 200),
    ({"queues": ["gpu"]}, {"scope": "queue", "target": "gpu"}, 200),
    ({"queues": ["default"]}, {"scope": "queue", "target": "gpu"}, 403),
    ({"tenant": "acme"}, {"scope": "tenant", "target": "acme"}, 200),
    ({"tenant": "acme", "queues": ["gpu"]}, {"scope": "queue", "target": "gpu"}, 200),
    ({"tenant": "acme"}, {"scope": "queue", "target": "default"}, 403),
    ({"tenant": "acme"}, {"scope": "tenant", "target": "other"}, 403),
    ({"tenant": "acme"}, {"scope": "repository", "target": "acme/shop"}, 403),
    ({"tenant": "acme"}, {"scope": "all"}, 403),
    ({"repositories": ["acme/shop"]}, {"scope": "repository", "target": "acme/shop"}, 200),
    ({"repositories": ["acme/shop"]}, {"scope": "repository", "target": "acme/else"}, 403),
    ({"repositories": ["acme/shop"]}, {"scope": "all"}, 403),
]


@pytest.mark.parametrize(("of", "about", "status"), WIDE)
def test_a_wide_command_reaches_as_far_as_its_key(
    gateway: Gateway, planner: Planner, of: dict[str, Any], about: dict[str, Any], status: int
) -> None:
    operator = gateway.client(Right.OPERATOR, **of)

    with obeying(planner.container):
        answer = operator.post("/v1/commands?wait=20", json={"command": "pause", **about})

    assert answer.status_code == status


def test_no_tenant_raises_its_own_day_budget(gateway: Gateway) -> None:
    ours = gateway.client(Right.OPERATOR, tenant="acme")
    body = {"command": "top_up", "scope": "tenant", "target": "acme", "value": {"tokens": 10}}

    assert ours.post("/v1/commands", json=body).status_code == 403


def test_the_right_to_answer_is_no_right_to_consent(gateway: Gateway, planner: Planner) -> None:
    plan_id = asking(planner)
    path = f"/v1/plans/{plan_id}/commands?wait=20"
    informed, operator = gateway.client(Right.ANSWER), gateway.client(Right.OPERATOR)

    consent = {"command": "answer", "value": "yes"}
    planner.report("look", plan_id)
    refused = [
        informed.post(path, json=consent),
        informed.post(path, json={"command": "approve", "step_id": "change"}),
        informed.post("/v1/commands", json={"command": "answer", "scope": "plan", "plan_id": plan_id, "value": "yes"}),
        gateway.client(Right.VIEWER, Right.PRODUCER).post(path, json=consent),
    ]

    assert {(each.status_code, each.json()["code"]) for each in refused} == {(403, "no_right")}
    with obeying(planner.container):
        assert operator.post(path, json=consent).status_code == 200


def test_all_that_is_wrong_with_a_command_is_told(gateway: Gateway, planner: Planner) -> None:
    operator, path = gateway.client(Right.OPERATOR), f"/v1/plans/{executing(planner)}/commands"

    def told(body: Any, path: str = path) -> tuple[int, str, list[str]]:
        answer = operator.post(path, json=body)
        return answer.status_code, answer.json()["code"], [each["pointer"] for each in answer.json()["errors"]]

    assert told({"command": "stop", "actor": 5, "until": 3}) == (
        422, "invalid_message", ["/command", "/actor", "/until"],
    )  # fmt: skip
    assert told([]) == (422, "invalid_message", [""])
    assert told({"command": "halt", "scope": "all"}) == (422, "invalid_message", ["/scope"])
    assert told({"command": "approve"}) == (422, "unsupported_scope", ["/scope"])
    assert told({"command": "halt", "plan_id": f"plan_00-{0:032x}"}) == (409, "command_refused", [])
    assert told({"command": "pause", "scope": "tenant"}, "/v1/commands") == (422, "invalid_message", ["/target"])


def test_the_right_to_answer_is_for_the_question_that_was_asked(gateway: Gateway, planner: Planner) -> None:
    both = {"candidates": [{"path": path, "relevance": "high"} for path in FILES[:2]]}
    unclear, unconfirmed = (
        planner.submit(**a_goal(objective, drafter="none", exploration={**EXPLORATION, **delta}), steps=None)
        for objective, delta in (("Keep sessions in Redis or in memory", {}), ("Add sessions", {"delta": both}))
    )
    informed, operator = gateway.client(Right.ANSWER), gateway.client(Right.OPERATOR)

    def answer(who: Any, plan_id: str, **more: str) -> Any:
        return who.post(f"/v1/plans/{plan_id}/commands?wait=20", json={"command": "answer", "value": "A", **more})

    waits = [planner.view(plan_id).waiting for plan_id in (unclear, unconfirmed)]
    assert [each and each.kind for each in waits] == ["clarify", "confirm"]
    with obeying(planner.container):
        assert answer(informed, unconfirmed).status_code == 403
        late = answer(operator, unconfirmed, question="clarify")
        assert (late.status_code, "does not ask that now" in late.json()["detail"]) == (409, True)
        assert answer(informed, unclear).status_code == 200


def test_a_command_is_answered_by_the_event_of_its_own_plan(gateway: Gateway, planner: Planner) -> None:
    ours, theirs = (planner.submit(tenant=tenant) for tenant in ("acme", "beta"))
    body = {"command": "pause", "command_id": "nightly"}
    answers: dict[str, Any] = {}

    def wait_for(tenant: str, plan_id: str) -> None:
        client = gateway.client(Right.OPERATOR, tenant=tenant)
        answers[tenant] = client.post(f"/v1/plans/{plan_id}/commands?wait=20", json={**body, "reason": tenant})

    waiting = [threading.Thread(target=wait_for, args=each) for each in (("acme", ours), ("beta", theirs))]
    for thread in waiting:
        thread.start()
    wait_until(lambda: gateway.redis.xlen(planner.container.context(0).partition.commands) == 2)
    with obeying(planner.container):
        for thread in waiting:
            thread.join(25)

    told = {tenant: (each.json()["data"]["plan_id"], each.json()["data"]["reason"]) for tenant, each in answers.items()}
    assert told == {"acme": (ours, "acme"), "beta": (theirs, "beta")}


def test_an_answer_whose_reply_was_lost_may_come_again(gateway: Gateway, planner: Planner) -> None:
    plan_id = planner.submit(
        **a_goal("Keep sessions in Redis or in memory", drafter="none", exploration=EXPLORATION), steps=None
    )
    informed, path = gateway.client(Right.ANSWER), f"/v1/plans/{plan_id}/commands?wait=20"
    body = {"command": "answer", "value": "A", "command_id": "a-1"}

    with obeying(planner.container):
        first, again = (informed.post(path, json=body) for _ in range(2))
        late = informed.post(path, json={**body, "command_id": "a-2"})

    assert (first.status_code, first.json()["type"]) == (200, "dev.planner.command.obeyed.v1")
    assert (again.status_code, again.json()["type"]) == (200, "dev.planner.command.known.v1")
    assert (late.status_code, late.json()["code"]) == (409, "command_refused")


def test_a_command_that_is_not_waited_for_tells_where_to_look(gateway: Gateway, planner: Planner) -> None:
    plan_id, operator = executing(planner), gateway.client(Right.OPERATOR)

    wide = operator.post("/v1/commands", json={"command": "pause", "scope": "all"})
    narrow = operator.post(f"/v1/plans/{plan_id}/commands", json={"command": "pause", "plan_id": None, "scope": None})

    assert (wide.status_code, wide.headers["location"]) == (202, "/v1/events?types=command.*")
    assert (narrow.status_code, narrow.headers["location"]) == (202, f"/v1/plans/{plan_id}")


def test_the_id_of_a_wide_command_is_for_one_body_and_for_one_tenant(gateway: Gateway, planner: Planner) -> None:
    ours, theirs = (gateway.client(Right.OPERATOR, tenant=tenant) for tenant in ("acme", "beta"))
    path, headers = "/v1/commands?wait=20", {"Idempotency-Key": "w1"}
    body = {"command": "pause", "scope": "tenant", "target": "acme"}

    with obeying(planner.container):
        first, again = (ours.post(path, json=body, headers=headers) for _ in range(2))
        other = ours.post(path, json={**body, "command": "cancel"}, headers=headers)
        named = ours.post(path, json={**body, "command": "cancel", "command_id": "w1"})
        beta = theirs.post(path, json={**body, "target": "beta"}, headers=headers)

    told = [(each.status_code, each.json()["type"].split(".")[3]) for each in (first, again, beta)]
    assert told == [(200, "obeyed"), (200, "known"), (200, "obeyed")]
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert (named.status_code, named.json()["code"]) == (409, "command_refused")
