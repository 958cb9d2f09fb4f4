"""The wall before all doors, over real sockets: hosts, origins, sizes, slow callers, and what an answer says."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI, Request
from redis import Redis

from schemas.api_key import ApiKey
from tests.support.gateway import running_gateway
from worker.gateway import access, bodies, connections, error_responses
from worker.gateway.access import Access, Credentials
from worker.gateway.app import create_app
from worker.gateway.known_keys import KnownKeys
from worker.gateway.problems import Refusal
from worker.settings.settings import Settings
from worker.store import api_keys

SECRET = "hunter2-in-the-body"
KEY = {"Authorization": "Bearer pk_none_none"}
JSON = KEY | {"Content-Type": "application/json"}
HEAD = (
    b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\n"
    b"Authorization: Bearer pk_none_none\r\nContent-Type: application/json\r\n"
)


def with_doors(settings: Settings) -> FastAPI:
    """Make the gateway's application with doors of these tests' own: one says what reached it, one fails."""
    app = create_app(settings)

    @app.post("/v1/echo")
    async def _echo(request: Request) -> dict[str, int]:
        return {"bytes": len(await request.body())}

    @app.post("/v1/fail")
    async def _fail(request: Request) -> None:
        raise ValueError((await request.body()).decode())

    @app.get("/fails")
    async def _page() -> None:
        raise ValueError(SECRET)

    return app


def known(client: Redis, _: KnownKeys, requests: Sequence[Credentials]) -> list[Access | Refusal]:
    """Know the key of these tests alone: what is behind the wall asks for no right."""
    caller = Access(ApiKey(key_id="none", rights=()), client, api_keys.Shown("none", b""))
    wrong = Refusal("wrong_key", "This key is wrong.", 401)
    return [caller if f"Bearer {each.token}" == KEY["Authorization"] else wrong for each in requests]


@pytest.fixture(scope="module")
def url(server_url: str) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(access, "callers_of", known)
        with running_gateway(server_url, with_doors, gateway_hosts=("Planner.Example",), may_fail=True) as running:
            yield running.url


def test_an_answer_does_not_wait_for_the_callers_acknowledgement(server_url: str) -> None:
    with running_gateway(server_url) as running:  # its connections inherit what is set at its listener
        assert running.listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def spoken(url: str, *pieces: bytes, pause_s: float = 0.0) -> bytes:
    """Send pieces over a connection of its own; returns all that is answered until the gateway hangs up."""
    with socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=10) as line:
        for piece in pieces:
            line.sendall(piece)
            time.sleep(pause_s)
        answered = b""
        while more := line.recv(65536):
            answered += more
        return answered


def problem(answer: httpx.Response) -> tuple[int, str]:
    """The status and the code of a problem, which every refusal is."""
    assert answer.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = answer.json()
    assert found["status"] == answer.status_code
    assert found["detail"]
    return answer.status_code, found["code"]


def test_a_failure_is_a_page_to_a_browser_unless_pages_are_what_fails(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

    page = httpx.get(f"{url}/fails", headers=browser)
    program = httpx.get(f"{url}/fails")
    monkeypatch.setattr(error_responses, "refused", None)
    without = httpx.get(f"{url}/fails", headers=browser)

    assert (page.status_code, page.headers["content-type"]) == (500, "text/html; charset=utf-8")
    assert error_responses.FAILED in page.text
    assert SECRET not in page.text
    assert page.headers["x-request-id"]
    assert [problem(each) for each in (program, without)] == [(500, "internal_error")] * 2


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"Host": "evil.example"}, b"{}", (421, "wrong_host")),
        ({"Host": "localhost.evil.example"}, b"{}", (421, "wrong_host")),
        ({"Host": "user@localhost"}, b"{}", (421, "wrong_host")),
        ({"Origin": "http://evil.example"}, b"{}", (403, "foreign_origin")),
        ({"Origin": "null"}, b"{}", (403, "foreign_origin")),
        ({"Origin": "http://localhost:1"}, b"{}", (403, "foreign_origin")),
        ({"Sec-Fetch-Site": "cross-site"}, b"{}", (403, "foreign_origin")),
        ({"Content-Encoding": "gzip"}, gzip.compress(b"0" * 10_000_000), (415, "compressed")),
        ({"Content-Type": "text/plain"}, b"{}", (415, "wrong_media_type")),
        ({"Content-Type": "application/json; charset=utf-16"}, b"{}", (415, "wrong_media_type")),
        ({}, b"0" * 2_000_000, (413, "too_large")),
        ({"Authorization": "Bearer pk_none_other"}, b"[" * 500_000, (401, "wrong_key")),
        ({}, b"[" * 500_000, (400, "invalid_json")),
        ({}, b'{"a":' * 101 + b"1" + b"}" * 101, (400, "invalid_json")),
        ({}, b'["' + b'\\"' * 500_000, (200, "")),
        ({}, b"[" + b"[]," * 5000 + b'"[[[[' + b"[" * 200 + b'"]', (200, "")),
        ({"Host": "planner.example:80"}, b"{}", (200, "")),
        ({"Host": "LOCALHOST."}, b"{}", (200, "")),
    ],
)
def test_the_wall_refuses_what_no_door_should_see(
    url: str, headers: dict[str, str], body: bytes, expected: tuple[int, str]
) -> None:
    answer = httpx.post(f"{url}/v1/echo", content=body, headers=JSON | headers, timeout=30)

    assert (answer.status_code, "") == expected if expected[0] == 200 else problem(answer) == expected
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_token_is_exchanged_as_json_alone(url: str) -> None:
    answer = httpx.post(f"{url}/v1/token", content=b'{"token": "t"}', headers={"Content-Type": "text/plain"})

    assert problem(answer) == (415, "wrong_media_type")


def test_every_answer_has_an_id_that_the_caller_may_choose_and_no_body_is_logged(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with caplog.at_level(logging.INFO), httpx.Client(base_url=url, headers=JSON | {"traceparent": trace}) as client:
        assert client.get("/healthz", headers={"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"
        assert len(client.get("/healthz", headers={"X-Request-Id": "a\tb" * 99}).headers["x-request-id"]) == 32
        assert problem(client.get("/nothing")) == (404, "not_found")
        assert problem(client.delete("/healthz")) == (405, "no_such_method")
        assert problem(client.post("/v1/fail", content=f'"{SECRET}"')) == (500, "internal_error")
        unsigned = httpx.post(f"{url}/v1/echo", content=b"{}")
        assert (problem(unsigned), unsigned.headers["www-authenticate"]) == ((401, "no_key"), "Bearer")

    records = [vars(record) for record in caplog.records]
    assert SECRET not in str(records)
    failure = next(each for each in records if each["msg"] == "request failed")
    assert "test_walls" in failure["places"]
    assert (failure["method"], failure["route"], failure["key_id"]) == ("POST", "/v1/fail", "none")


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20_000, 431),
        (b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    ],
)
def test_what_is_no_http_is_told_so(url: str, said: bytes, status: int) -> None:
    head, _, body = spoken(url, said).partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 %d" % status)
    assert b"application/problem+json" in head
    assert b'"detail"' in body


def test_a_body_is_not_read_beyond_the_limit_and_its_sender_reads_why(url: str) -> None:
    chunk = b"10000\r\n" + b"0" * 65536 + b"\r\n"

    answered = spoken(url, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 40)

    assert answered.startswith(b"HTTP/1.1 413")
    assert answered.count(b"HTTP/1.1") == 1


def test_of_a_body_that_shows_nobodys_key_nothing_is_read(url: str) -> None:
    nobody = HEAD.replace(b"pk_none_none", b"pk_none_other")

    assert spoken(url, nobody + b"Content-Length: 900000\r\n\r\n").startswith(b"HTTP/1.1 401")


def test_a_refused_caller_who_has_hung_up_is_no_failure() -> None:
    class Gone:
        """A transport whose other end has gone."""

        def __init__(self) -> None:
            self.closed: list[str] = []

        def is_closing(self) -> bool:
            return False

        def can_write_eof(self) -> bool:
            return True

        def write_eof(self) -> None:
            raise OSError(107, "Transport endpoint is not connected")

        def resume_reading(self) -> None:
            pass

        def abort(self) -> None:
            self.closed.append("abort")

        close = abort

    async def refuse() -> list[str]:
        gone = Gone()
        connections.Lingering(cast("Any", gone), cast("Any", SimpleNamespace(still_comes=True))).close()
        await asyncio.sleep(0.05)
        return gone.closed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "LINGER_S", 0.01)
        assert asyncio.run(refuse()) == ["abort"]


def test_slow_callers_are_sent_away(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 1.0)
    monkeypatch.setattr(bodies, "GRACE_S", 1.0)

    assert spoken(url, HEAD).startswith(b"HTTP/1.1 408")
    assert spoken(url, HEAD + b"Content-Length: 9\r\n\r\n", b"12").startswith(b"HTTP/1.1 408")
    assert spoken(url) == b""  # who asks nothing is told nothing


def test_the_oldest_slow_caller_gives_way_and_others_are_served(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_HEADS", 3)
    address = (urlsplit(url).hostname, urlsplit(url).port)
    with ExitStack() as opened:
        slow = []
        for _ in range(5):
            slow.append(opened.enter_context(socket.create_connection(address, timeout=10)))
            slow[-1].sendall(b"GET / HTTP/1.1\r\n")
            assert httpx.get(f"{url}/healthz", timeout=30).status_code == 200
        assert slow[0].recv(100).startswith(b"HTTP/1.1 408")


def dribble(url: str, first: bytes, over: threading.Event, begun: threading.Barrier) -> None:
    """Be 250 callers that begin a request and send a byte of it each second."""
    with ExitStack() as opened:
        address = (urlsplit(url).hostname, urlsplit(url).port)
        lines = [opened.enter_context(socket.create_connection(address, timeout=10)) for _ in range(250)]
        for line in lines:
            line.sendall(first)
        begun.wait(30)
        while not over.wait(1):
            for line in lines:
                with suppress(OSError):
                    line.sendall(b"1")


@pytest.mark.long
@pytest.mark.outages
def test_a_thousand_slow_clients_stop_nobody(url: str) -> None:
    over, answers = threading.Event(), []
    begun = threading.Barrier(5)  # while they come, all at once, one who came before them may be the oldest of 500
    body = HEAD + b"Content-Length: 1000\r\n\r\n"
    threads = [threading.Thread(target=dribble, args=(url, said, over, begun)) for said in (HEAD, HEAD, body, body)]
    for thread in threads:
        thread.start()
    try:
        begun.wait(30)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            began = time.monotonic()
            assert httpx.post(f"{url}/v1/echo", content=b"{}", headers=JSON, timeout=10).status_code == 200
            answers.append(time.monotonic() - began)
    finally:
        over.set()
        for thread in threads:
            thread.join()

    assert max(answers) < 5
    assert sorted(answers)[len(answers) // 2] < 0.5
