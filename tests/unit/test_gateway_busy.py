"""What a gateway answers while Redis hangs and its threads wait: that it lives, and that others come again."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx
import pytest
from anyio import to_thread
from fastapi import FastAPI

from worker.gateway import guard
from worker.gateway.guard import Guard
from worker.gateway.problems import Refusal
from worker.gateway.routes import health
from worker.settings.settings import Settings
from worker.store.clients import connect

HEADERS = {"Authorization": "Bearer pk_none_none", "Content-Type": "application/json"}
HANGS_S = 20.0


def reached(app: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")


def test_a_process_says_that_it_lives_while_no_thread_is_free() -> None:
    app = FastAPI()
    app.include_router(health.router)

    async def asked() -> int:
        threads = to_thread.current_default_thread_limiter()
        threads.total_tokens = 1
        async with threads, reached(app) as client, asyncio.timeout(HANGS_S):
            return (await client.get("/healthz")).status_code

    assert asyncio.run(asked()) == 200


def test_a_write_is_told_to_come_again_while_many_keys_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    over, begun = threading.Event(), threading.Semaphore(0)

    def hangs(*_: Any, **__: Any) -> None:
        begun.release()
        over.wait(HANGS_S)
        raise Refusal("wrong_key", "This key is wrong.", 401)

    monkeypatch.setattr(guard, "caller_of", hangs)
    monkeypatch.setattr(guard, "CHECK_S", 0.05)
    walled = Guard(FastAPI(), Settings(), connect("redis://localhost:1"))

    async def posted() -> tuple[httpx.Response, list[int]]:
        async with reached(walled) as client:
            many = [asyncio.create_task(post(client)) for _ in range(guard.MOST_CHECKS)]
            for _ in many:
                await asyncio.to_thread(begun.acquire, timeout=HANGS_S)
            try:
                late = await asyncio.wait_for(post(client), HANGS_S / 2)
            finally:
                over.set()
            return late, [each.status_code for each in await asyncio.gather(*many)]

    late, checked = asyncio.run(posted())

    assert (late.status_code, late.json()["code"], late.headers["Retry-After"]) == (503, "busy", "2")
    assert checked == [401] * guard.MOST_CHECKS


async def post(client: httpx.AsyncClient) -> httpx.Response:
    return await client.post("/v1/goals", json={}, headers=HEADERS)
