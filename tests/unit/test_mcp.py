"""The tools of MCP beside doors of the test's own: what they ask, and what they do not."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any, cast

import httpx
import pytest
from mcp.server.mcpserver.exceptions import ResourceError, ToolError

from worker.mcp import leases as renewing
from worker.mcp.doors import Doors
from worker.mcp.leases import Leases
from worker.mcp.tools import Tools

PLAN = "plan_00-" + "0" * 32
STEP = {"plan_id": "plan_1", "step_id": "s", "attempt": 1, "lease": "l"}


async def a_key() -> str:
    return "pk_a_b"


class Gateway:
    """Answers each path as it was told, and keeps what was asked."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        self.asked.append((request.method, request.url.path, body))
        assert request.headers["authorization"] == "Bearer pk_a_b"
        return httpx.Response(200, json=self.answers[request.url.path.rpartition("/")[2].replace(":", "_")])

    @property
    def doors(self) -> Doors:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self), base_url="http://planner")
        return Doors(client, a_key)


@pytest.mark.parametrize("kind", ["confirm", "decision", "approval", "one to come"])
def test_what_would_be_consent_is_not_answered(kind: str) -> None:
    gateway = Gateway(**{PLAN: {"waiting": {"kind": kind}}})
    context: Any = None

    with pytest.raises(ToolError, match="a person"):
        asyncio.run(Tools(gateway.doors, None, "c").answer_question(context, PLAN, "yes"))

    assert [method for method, _, _ in gateway.asked] == ["GET"]


@pytest.mark.parametrize(
    "plan_id", ["..", "../keys", "%2e%2e", "", "plan_1/../../queues", "plan_1?tenant=x", f"{PLAN}/"]
)
def test_what_is_no_id_of_a_plan_becomes_no_address(plan_id: str) -> None:
    gateway = Gateway()
    tools, context = Tools(gateway.doors, None, "c"), cast("Any", None)

    for call in (tools.show_plan, tools.explain_plan, partial(tools.answer_question, answer="A")):
        with pytest.raises(ToolError, match="no id of a plan"):
            asyncio.run(call(context, plan_id))
    for read in (tools.plan, tools.document, tools.log):
        with pytest.raises(ResourceError, match="no id of a plan"):
            asyncio.run(read(plan_id, context))

    assert gateway.asked == []


def test_a_number_of_any_size_reaches_the_door_that_judges_it() -> None:
    gateway = Gateway(outcomes={"accepted": 1})

    asyncio.run(gateway.doors.json(None, "POST", "/v1/outcomes", body={"tokens_used": 10**30, "summary": "ü"}))

    assert gateway.asked == [("POST", "/v1/outcomes", {"tokens_used": 10**30, "summary": "ü"})]


def test_an_answer_is_for_a_question_that_informs_whatever_is_asked_by_then() -> None:
    gateway = Gateway(**{PLAN: {"waiting": {"kind": "clarify"}}, "commands": {}})
    context: Any = None

    asyncio.run(Tools(gateway.doors, None, "c").answer_question(context, PLAN, "A"))

    assert [body["question"] for _, _, body in gateway.asked[1:]] == ["clarify"]


def test_what_is_held_is_renewed_until_it_is_reported_or_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renewing, "RENEW_S", 0.001)
    lost = {**STEP, "step_id": "t"}
    gateway = Gateway(steps_heartbeat={"steps": [{**STEP, "action": "continue"}, {**lost, "action": "stale"}]})
    held = Leases(gateway.doors)
    held.hold("c", [STEP, lost])

    async def some_rounds() -> None:
        renews = asyncio.create_task(held.renew_for_ever())
        while len(gateway.asked) < 2:
            await asyncio.sleep(0)
        held.forget("plan_1", "s")
        await asyncio.sleep(0.01)
        renews.cancel()

    asyncio.run(some_rounds())
    assert [body["steps"] for _, _, body in gateway.asked[:2]] == [[STEP, lost], [STEP]]
    assert len(gateway.asked) <= 3
