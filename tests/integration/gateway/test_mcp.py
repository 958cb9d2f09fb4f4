"""The gateway speaks MCP at /mcp: the SDK's own client over streamable HTTP, with a key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from schemas.api_key import Right
from tests.support.gateway import Gateway

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
