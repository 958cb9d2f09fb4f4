"""What a gateway answers while Redis hangs and its threads wait: that it lives, and that others come again."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import httpx
import pytest
from anyio import to_thread
from fastapi import FastAPI, Request
from redis.exceptions import ConnectionError as RedisConnectionError

from worker.gateway import access, key_checks
from worker.gateway.access import Context
from worker.gateway.claiming import ClaimDesk
from worker.gateway.event_hub import EventHub
from worker.gateway.guard import Guard
from worker.gateway.key_checks import KeyChecks
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


def test_a_write_is_told_to_come_again_while_no_key_can_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(access, "callers_of", lambda *_: over.wait(HANGS_S))
    monkeypatch.setattr(key_checks, "PATIENCE_S", 0.05)
    client = connect("redis://localhost:1")
    walled = Guard(
        FastAPI(), Context(Settings(), client, EventHub("redis://localhost:1", 1), ClaimDesk(lambda: client))
    )

    async def posted() -> list[httpx.Response]:
        async with reached(walled) as caller:
            try:
                return await asyncio.gather(*(caller.post("/v1/goals", json={}, headers=HEADERS) for _ in range(30)))
            finally:
                over.set()

    answers = asyncio.run(posted())

    assert {(each.status_code, each.json()["code"], each.headers["Retry-After"]) for each in answers} == {
        (503, "busy", "2")
    }


def test_a_caller_who_hangs_up_while_a_door_reads_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    client, sent = connect("redis://localhost:1"), list[Any]()

    async def door(scope: Any, receive: Any, _: Any) -> None:
        await Request(scope, receive).body()

    async def gone() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/reads", "headers": [(b"host", b"localhost")]}
    walled = Guard(door, Context(Settings(), client, EventHub("redis://localhost:1", 1), ClaimDesk(lambda: client)))

    asyncio.run(walled(scope | {"scheme": "http", "query_string": b""}, gone, send))

    assert sent == []
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_keys_that_wait_to_be_checked_are_checked_together_and_each_in_the_next_look() -> None:
    looks: list[list[str]] = []
    begun, over = threading.Event(), threading.Event()

    def look_up(asked: list[str]) -> list[str | Refusal]:
        looks.append(asked)
        begun.set()
        over.wait(HANGS_S)
        return [Refusal("wrong_key", "This key is wrong.", 401) if each == "wrong" else each for each in asked]

    async def asked() -> list[Any]:
        checks = KeyChecks(look_up)
        first = asyncio.create_task(checks.find("first"))
        await asyncio.to_thread(begun.wait, HANGS_S)
        flood = [asyncio.create_task(checks.find("wrong")) for _ in range(key_checks.MOST - 1)]
        last = asyncio.create_task(checks.find("last"))
        gone = asyncio.create_task(checks.find("gone"))
        await asyncio.sleep(0)
        gone.cancel()
        over.set()
        return await asyncio.gather(first, last, *flood, return_exceptions=True)

    first, last, *flood = asyncio.run(asked())

    assert (first, last) == ("first", "last")
    assert all(isinstance(each, Refusal) for each in flood)
    assert [len(look) for look in looks] == [1, key_checks.MOST]


def test_a_look_that_fails_is_the_failure_of_who_waited_alone() -> None:
    def look_up(asked: list[str]) -> list[str | Refusal]:
        if asked == ["no redis"]:
            raise RedisConnectionError
        if asked == ["broken"]:
            raise ValueError
        return list(asked)

    async def asked() -> list[Any]:
        checks = KeyChecks(look_up)
        names = ("no redis", "broken", "fine")
        return [(await asyncio.gather(checks.find(name), return_exceptions=True))[0] for name in names]

    refused, broken, fine = asyncio.run(asked())

    assert isinstance(refused, Refusal)
    assert refused.problem.code == "no_redis"
    assert (type(broken), fine) == (ValueError, "fine")
