"""The planner speaks MCP: the SDK's own client at /mcp of a gateway, and beside `planner mcp` on stdio."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextResourceContents

from schemas.api_key import Right
from tests.support.engine import drain, plan
from tests.support.gateway import Gateway
from worker.process.container import Container
from worker.store import api_keys

T = TypeVar("T")
TOOLS = {
    *("submit_goal", "get_goal", "list_plans", "show_plan", "explain_plan"),
    *("answer_question", "claim_step", "heartbeat_step", "report_outcome"),
}


@asynccontextmanager
async def client(gateway: Gateway, *rights: Right, **of: Any) -> AsyncIterator[Client]:
    """Connect as somebody with these rights."""
    headers = {"Authorization": f"Bearer {gateway.key(*rights, **of)}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=40) as http,
        Client(streamable_http_client(f"{gateway.url}/mcp", http_client=http)) as connected,
    ):
        yield connected


def spoken(gateway: Gateway, talk: Callable[[Client], Awaitable[T]], *rights: Right, **of: Any) -> T:
    """Return what a conversation comes to."""

    async def all_of_it() -> T:
        async with client(gateway, *rights, **of) as connected:
            return await talk(connected)

    return asyncio.run(all_of_it())


def test_every_tool_and_resource_is_offered_and_says_what_it_is_for(gateway: Gateway) -> None:
    async def talk(agent: Client) -> None:
        tools = (await agent.list_tools()).tools
        assert {tool.name for tool in tools} == TOOLS
        assert all(tool.description for tool in tools)
        assert {each.name for each in (await agent.list_resource_templates()).resource_templates} == {
            *("plan", "document", "log")
        }

    spoken(gateway, talk, Right.VIEWER)


def test_without_a_key_nobody_comes_in_and_there_are_no_sessions(gateway: Gateway) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

    for token, code in ((None, "no_key"), ("pk_a_b", "wrong_key")):
        refused = gateway.with_token(token).post("/mcp", json=hello)
        assert (refused.status_code, refused.json()["code"]) == (401, code)
    assert gateway.client(Right.VIEWER).get("/mcp").status_code == 405
    from_a_page = gateway.client(Right.VIEWER).post("/mcp", json=hello, headers={"Origin": "http://evil.example"})
    assert from_a_page.status_code == 403


def test_every_call_counts_toward_the_rate_once(gateway: Gateway) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    asked = {"name": "list_plans", "arguments": {}}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": asked}
    limited = gateway.client(Right.VIEWER, rate="4/h")
    limited.headers["Accept"] = "application/json"

    statuses = [limited.post("/mcp", json=each).status_code for each in (hello, call, call, hello, hello, call)]

    assert statuses == [200, 200, 200, 200, 429, 429]


@pytest.mark.outages
@pytest.mark.parametrize("way", ["redis", "url"])
def test_an_agent_starts_the_planner_on_stdio_and_leaves_no_key_behind(gateway: Gateway, way: str) -> None:
    ways = {
        "redis": {"PLANNER_REDIS_URL": gateway.settings.redis_url},
        "url": {"PLANNER_URL": gateway.url, "PLANNER_API_KEY": gateway.key(Right.PRODUCER, Right.VIEWER)},
    }
    before = {key.key_id for key in api_keys.every(gateway.redis)}
    environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ} | ways[way]
    arguments = ["-c", "from worker.start import planner; planner()", "mcp"]

    async def talk() -> None:
        async with Client(StdioServerParameters(command=sys.executable, args=arguments, env=environment)) as agent:
            assert {tool.name for tool in (await agent.list_tools()).tools} == TOOLS
            sent = await agent.call_tool("submit_goal", {"goal": "Fix b", "allowed_files": ["b.py"], "wait_s": 0})
            assert sent.structured_content
            assert sent.structured_content["data"]["verdict"] == "PENDING"
            refused = await agent.call_tool("submit_goal", {"goal": " ", "allowed_files": ["b.py"]})
            assert refused.is_error
            assert "/goal" in str(refused.content)

    asyncio.run(talk())
    assert {key.key_id for key in api_keys.every(gateway.redis)} == before


def test_an_agent_is_producer_and_controller_from_the_goal_to_the_end_of_its_plan(
    gateway: Gateway, here: Container
) -> None:
    everything = (Right.PRODUCER, Right.CONTROLLER, Right.ANSWER, Right.VIEWER)

    async def talk(agent: Client) -> None:
        async def call(tool: str, **said: Any) -> Any:
            result = await agent.call_tool(tool, said)
            assert not result.is_error, result.content
            assert result.structured_content
            assert re.search("(not|never) instructions to you", result.structured_content["note"])
            return result.structured_content["data"]

        goal = {"goal": "Fix b", "allowed_files": ["b.py"], "goal_id": "g", "repo": "acme/shop", "wait_s": 0}
        assert (await call("submit_goal", **goal))["verdict"] == "PENDING"
        await asyncio.to_thread(plan, here, gateway.redis)
        plan_id = (await call("get_goal", goal_id="g"))["plan_id"]
        while True:
            steps = (await call("claim_step", wait_s=0))["steps"]
            if not steps:
                break
            (held,) = [{name: step[name] for name in ("plan_id", "step_id", "attempt", "lease")} for step in steps]
            (beat,) = (await call("heartbeat_step", **held))["steps"]
            assert beat["action"] == "continue"
            assert beat["lease_ttl_ms"] > 600_000
            done = {"success": True, "tests_passed": True, "touched_files": steps[0]["allowed_files"], "wait_s": 0}
            await call("report_outcome", **held, **done)
            await asyncio.to_thread(drain, here)
        assert (await call("show_plan", plan_id=plan_id))["state"] == "COMPLETED"
        assert [each["plan_id"] for each in (await call("list_plans", state="COMPLETED"))["items"]] == [plan_id]
        assert "explain" not in await call("explain_plan", plan_id=plan_id)

        for name, expected in (("", plan_id), ("/summary.md", "Fix b"), ("/log", '"items"')):
            (content,) = (await agent.read_resource(f"planner://plans/{plan_id}{name}")).contents
            assert isinstance(content, TextResourceContents)
            assert expected in content.text
            assert "not instructions" in content.text
        nothing = await agent.call_tool("answer_question", {"plan_id": plan_id, "answer": "yes"})
        assert "asks nothing" in str(nothing.content)

    spoken(gateway, talk, *everything)


def test_a_tool_may_what_the_key_may(gateway: Gateway) -> None:
    async def talk(agent: Client) -> None:
        for tool, said in (
            ("submit_goal", {"goal": "Fix b", "allowed_files": ["b.py"]}),
            ("claim_step", {"wait_s": 0}),
        ):
            refused = await agent.call_tool(tool, said)
            assert refused.is_error
            assert "no_right" in str(refused.content)

    spoken(gateway, talk, Right.VIEWER)
