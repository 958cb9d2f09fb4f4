"""Shares of what callers have in common: a key and a tenant hold so much at a time, and keep nobody else out."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from redis import Redis

from schemas.api_key import Right
from tests.conftest import wait_until
from tests.support.gateway import Gateway, running_gateway
from worker.gateway import connections, shares, visible
from worker.gateway.routes import plans
from worker.gateway.shares import Bounds, Kind, kind_of

BEAT = {"controller": "ctl", "steps": []}
CLAIM = {"controller": "ctl", "wait_s": 20}


@contextmanager
def bounded(monkeypatch: pytest.MonkeyPatch, kind: Kind, *bounds: float) -> Iterator[None]:
    """Have other bounds of a kind while the block lasts."""
    with monkeypatch.context() as patch:
        patch.setattr(kind, "_value_", Bounds(*bounds))  # type: ignore[arg-type]
        yield


@contextmanager
def streams(count: int, *clients: httpx.Client) -> Iterator[list[int]]:
    """Open streams of events, in turn with each client; yields the statuses."""
    with ExitStack() as opened:
        asked = [clients[at % len(clients)].stream("GET", "/v1/events") for at in range(count)]
        yield [opened.enter_context(each).status_code for each in asked]


@pytest.mark.parametrize(
    ("path", "query", "kind"),
    [
        ("/v1/plans", b"limit=5", Kind.REQUESTS),
        ("/v1/goals", b"wait=30", Kind.STREAMS),
        ("/v1/events", b"", Kind.STREAMS),
        ("/live", b"state=RUNNING", Kind.STREAMS),
        ("/v1/steps:claim", b"", Kind.CLAIMS),
        ("/v1/steps:heartbeat", b"", Kind.CONTROLLERS),
        ("/v1/outcomes", b"", Kind.CONTROLLERS),
        ("/v1/attachments", b"", Kind.CONTROLLERS),
        ("/v1/outcomes", b"wait=5", Kind.CLAIMS),
    ],
)
def test_what_a_request_holds_is_told_by_its_address(path: str, query: bytes, kind: Kind) -> None:
    assert kind_of(path, query) is kind


def test_no_tenant_alone_reaches_what_all_have_together() -> None:
    bounds = {kind: kind.value for kind in Kind if kind is not Kind.KEYLESS}

    assert all(each.of_key <= each.of_tenant <= each.of_all / 2 for each in bounds.values())
    assert sum(each.of_tenant + each.most_wait for each in bounds.values()) < connections.MOST_CONNECTIONS / 2
    in_threads = (Kind.REQUESTS, Kind.CONTROLLERS, Kind.KEYLESS)
    assert sum(each.value.of_all for each in in_threads) < shares.THREADS


def test_streams_of_a_key_and_of_a_tenant_are_bounded_and_others_have_theirs(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (gateway.client(Right.VIEWER, tenant="acme") for _ in range(2))
    other = gateway.client(Right.VIEWER, Right.CONTROLLER, tenant="other")
    with bounded(monkeypatch, Kind.STREAMS, 2, 3, 6):
        with streams(3, first) as of_key, streams(2, second) as of_tenant, streams(2, other) as of_other:
            assert (of_key, of_tenant, of_other) == ([200, 200, 429], [200, 429], [200, 200])
            refused = first.get("/v1/events")
            assert (refused.json()["code"], refused.headers["Retry-After"]) == ("too_many_at_once", "2")
            assert other.post("/v1/steps:claim", json=CLAIM | {"wait_s": 0}).status_code == 200
        assert wait_until(lambda: _is_let_in(first), what="streams that have ended leave their share")


def _is_let_in(client: httpx.Client) -> bool:
    with streams(1, client) as statuses:
        return statuses == [200]


def test_keys_without_a_tenant_share_nothing(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = gateway.client(Right.VIEWER), gateway.client(Right.VIEWER)
    with bounded(monkeypatch, Kind.STREAMS, 1, 1, 2), streams(1, first) as one, streams(2, second) as two:
        assert (one, two) == ([200], [200, 429])


def test_all_tenants_together_are_told_that_the_gateway_is_busy(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = [gateway.client(Right.VIEWER, tenant=name) for name in ("one", "two", "three")]
    with bounded(monkeypatch, Kind.STREAMS, 1, 1, 2), streams(3, *clients) as statuses:
        assert statuses == [200, 200, 503]


@pytest.mark.outages
def test_claims_that_wait_are_bounded_and_let_go_with_their_caller(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = (gateway.client(Right.CONTROLLER, tenant=name) for name in ("acme", "other"))
    with bounded(monkeypatch, Kind.CLAIMS, 2, 2, 4), ThreadPoolExecutor() as pool:
        waiting = [pool.submit(mine.post, "/v1/steps:claim", json=CLAIM | {"wait_s": 4}) for _ in range(2)]
        wait_until(lambda: gateway.context.claims.waiting("planner:{0}:steps:default") == 2, what="both wait")
        assert mine.post("/v1/steps:claim", json=CLAIM).status_code == 429
        assert other.post("/v1/steps:claim", json=CLAIM | {"wait_s": 0}).status_code == 200
        assert [each.result().status_code for each in waiting] == [200, 200]
        assert mine.post("/v1/steps:claim", json=CLAIM | {"wait_s": 0}).status_code == 200


def test_a_claim_above_its_share_is_refused_before_its_body_comes(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = gateway.client(Right.CONTROLLER, tenant="acme")
    head = (
        f"POST /v1/steps:claim HTTP/1.1\r\nHost: localhost\r\nAuthorization: {controller.headers['Authorization']}\r\n"
    )
    address = (urlsplit(gateway.url).hostname, urlsplit(gateway.url).port)
    with (
        bounded(monkeypatch, Kind.CLAIMS, 0, 0, 2),
        socket.create_connection(address, timeout=5) as line,
    ):
        line.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 40\r\n\r\n".encode())
        assert line.recv(1000).startswith(b"HTTP/1.1 429")


def test_slow_reads_of_a_tenant_take_no_turn_of_others_nor_of_controllers(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    over, real = threading.Event(), visible.list_plans

    def slow(doors: Any, sight: Any, *rest: Any) -> Any:
        if sight.tenant == "acme":
            over.wait(30)
        return real(doors, sight, *rest)

    monkeypatch.setattr(plans, "list_plans", slow)
    reader = gateway.client(Right.VIEWER, tenant="acme")
    other, controller = gateway.client(Right.VIEWER, tenant="other"), gateway.client(Right.CONTROLLER, tenant="acme")
    with ThreadPoolExecutor(120) as pool:
        asked = [pool.submit(reader.get, "/v1/plans") for _ in range(100)]
        try:
            began = time.monotonic()
            assert other.get("/v1/plans").status_code == 200
            assert controller.post("/v1/steps:heartbeat", json=BEAT).status_code == 200
            assert time.monotonic() - began < 4
        finally:
            over.set()
        assert {each.result().status_code for each in asked} <= {200, 429}


def test_a_turn_that_does_not_come_is_refused(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    over, real = threading.Event(), visible.list_plans
    monkeypatch.setattr(plans, "list_plans", lambda *of: over.wait(30) and real(*of))
    reader = gateway.client(Right.VIEWER)
    with bounded(monkeypatch, Kind.REQUESTS, 1, 1, 2, 0.2, 1), ThreadPoolExecutor() as pool:
        first = pool.submit(reader.get, "/v1/plans")
        try:
            time.sleep(0.5)
            assert reader.get("/v1/queues").status_code == 429
        finally:
            over.set()
        first.result()


@pytest.mark.long
@pytest.mark.outages
def test_a_fleet_of_five_hundred_with_one_key_sends_its_heartbeats_at_once(gateway: Gateway) -> None:
    shown = dict(gateway.client(Right.CONTROLLER, tenant="acme").headers)

    async def beat_at_once() -> list[int]:
        limits = httpx.Limits(max_connections=500)
        async with httpx.AsyncClient(base_url=gateway.url, headers=shown, limits=limits, timeout=30) as client:
            answers = await asyncio.gather(*(client.post("/v1/steps:heartbeat", json=BEAT) for _ in range(500)))
        return [each.status_code for each in answers]

    assert set(asyncio.run(beat_at_once())) == {200}


def test_a_connection_on_which_nothing_goes_on_gives_way(
    redis_url: str, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 8)
    with running_gateway(redis_url) as gateway, ExitStack() as opened:
        address = (urlsplit(gateway.url).hostname, urlsplit(gateway.url).port)
        idle = [opened.enter_context(socket.create_connection(address, timeout=10)) for _ in range(8)]
        for line in idle:
            line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert line.recv(1000).startswith(b"HTTP/1.1 200")
        controller = gateway.client(Right.CONTROLLER)
        assert controller.post("/v1/steps:heartbeat", json=BEAT).status_code == 200
        while idle[0].recv(1000):  # what was left of its answer; then the gateway has hung up
            pass
