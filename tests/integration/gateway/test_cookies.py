"""The session's cookie: with TLS, also before a proxy that says nothing of it, it is marked; loopback goes without."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from redis import Redis

from schemas.api_key import Right
from tests.support.gateway import Gateway, running_gateway
from worker.gateway.app import create_app
from worker.gateway.cookies import PLAIN, SECURE
from worker.settings.settings import Settings

SITE = "planner.example"


def with_mirror(settings: Settings) -> FastAPI:
    """Make the gateway's application with a door that says from where a caller comes."""
    app = create_app(settings)

    @app.get("/mirror")
    async def _mirror(request: Request) -> str:
        return request.client.host if request.client else ""

    return app


@pytest.fixture
def proxied(redis_url: str, redis: Redis) -> Iterator[Gateway]:
    with running_gateway(redis_url, with_mirror, behind_proxy=True, gateway_hosts=(SITE,)) as running:
        yield running


def sign_in(gateway: Gateway, host: str, scheme: str) -> str:
    """Sign in by this name; returns the cookie that is set."""
    headers = {"Host": host, "Origin": f"{scheme}://{host}"}
    form = {"key": gateway.key(Right.VIEWER)}
    answer = gateway.with_token(None).post("/sign-in", data=form, headers=headers)
    assert answer.status_code == 303
    return answer.headers["set-cookie"]


def test_behind_a_proxy_the_cookie_is_secure_though_the_proxy_does_not_say_that_it_has_tls(proxied: Gateway) -> None:
    cookie = sign_in(proxied, SITE, "https")

    assert cookie.startswith(f"{SECURE}=")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=lax"} <= set(cookie.split("; "))
    assert "Domain" not in cookie
    session = cookie.partition(";")[0].partition("=")[2]
    shown = {name: _status(proxied, SITE, f"{name}={session}") for name in (SECURE, PLAIN)}
    assert shown == {SECURE: 200, PLAIN: 401}  # a neighbour of the host can set the latter


def test_who_comes_from_a_page_with_tls_gets_the_cookie_marked_though_nobody_told_the_gateway(
    redis_url: str, redis: Redis
) -> None:
    with running_gateway(redis_url, gateway_hosts=(SITE,)) as gateway:
        cookie = sign_in(gateway, SITE, "https")
        assert cookie.startswith(f"{SECURE}=")
        assert _status(gateway, SITE, cookie.partition(";")[0]) == 200


def test_on_this_machine_alone_a_session_goes_without_tls(gateway: Gateway, proxied: Gateway) -> None:
    for each in (gateway, proxied):
        host = each.url.removeprefix("http://")
        cookie = sign_in(each, host, "http")
        assert cookie.startswith(f"{PLAIN}=")
        assert "Secure" not in cookie
        assert _status(each, host, cookie.partition(";")[0]) == 200


def _status(gateway: Gateway, host: str, cookie: str) -> int:
    return gateway.with_token(None).get("/", headers={"Host": host, "Cookie": cookie}).status_code


def test_where_tls_ends_here_browsers_come_with_it_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def asked(url: str) -> httpx.Headers:
        app = create_app(Settings(redis_url="redis://localhost:1/0"))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=url) as client:
            return (await client.get("/healthz")).headers

    name = "strict-transport-security"
    assert asyncio.run(asked("https://localhost"))[name].startswith("max-age=")
    assert name not in asyncio.run(asked("http://localhost"))


def test_what_a_caller_says_of_itself_is_believed_of_the_proxy_alone(
    proxied: Gateway, redis_url: str, redis: Redis
) -> None:
    said: dict[str, Any] = {"X-Forwarded-For": "203.0.113.9, 198.51.100.7"}
    assert proxied.with_token(None).get("/mirror", headers=said).json() == "198.51.100.7"  # which the proxy saw
    with running_gateway(redis_url, with_mirror, behind_proxy=True, gateway_proxies=("10.0.0.2",)) as other:
        assert other.with_token(None).get("/mirror", headers=said).json() == "127.0.0.1"
    with running_gateway(redis_url, with_mirror) as without:
        assert without.with_token(None).get("/mirror", headers=said).json() == "127.0.0.1"
