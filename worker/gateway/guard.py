"""The guard in front of all endpoints: it checks hosts, origins and sizes, and adds headers to every answer.

It belongs to no route, so it protects all endpoints, also those that are added later.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import time
import traceback
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from types import MappingProxyType
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schemas.traceparent import read_traceparent, trace_id_of
from worker.gateway.access import INSIDE, NO_KEY, ORIGIN, READS, Access, Context, Credentials
from worker.gateway.bodies import (
    GOAL_FORM,
    MAX_BYTES,
    WEBHOOKS,
    Bodies,
    Gone,
    limit_of,
    nests_deeply,
    replayed,
    too_large,
)
from worker.gateway.cookies import session_in
from worker.gateway.error_responses import HEALTH, MCP, POLLED, tell, tell_failure
from worker.gateway.problems import UNAUTHORIZED, Refusal
from worker.gateway.refusals import Refusals
from worker.gateway.shares import Kind, kind_of
from worker.telemetry import errors, metrics, tracing
from worker.telemetry.metrics import HERE
from worker.telemetry.tracing import SpanKind

log = logging.getLogger("planner.gateway")
failures = logging.getLogger("planner.gateway.failures")

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ERRORS = 400  # the first status of refusals and failures
UNSIGNED = ("/v1/token", WEBHOOKS)  # writes that show no key of ours
MOST_NAMES = 64  # of hosts whose canonical spelling is kept
REQUEST_ID = re.compile(r"[A-Za-z0-9][\w.:+/=-]{0,127}", re.ASCII)
JSON = "application/json"
CLOUD_EVENT = "application/cloudevents+json"
WRITE_S = 60.0  # a caller has this time to read a part of its answer

SAFE = (  # headers of every answer that sets no others
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)

STRICT = (b"strict-transport-security", b"max-age=31536000")  # where TLS ends here; else it is the proxy's

of_request: ContextVar[Mapping[str, str]] = ContextVar("of_request", default=MappingProxyType({}))


class OfRequest(logging.Filter):
    """Adds the ids of the current request to each log record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass."""
        for name, value in of_request.get().items():
            setattr(record, name, value)
        return True


class Guard:
    """Middleware around the application."""

    def __init__(self, app: ASGIApp, doors: Context) -> None:
        self._app = app
        self._doors = doors
        settings = doors.settings
        self._hosts = frozenset(map(_plain, (*LOOPBACK, settings.gateway_host, *settings.gateway_hosts)))
        self._bodies = Bodies()
        self._refusals = Refusals(doors.client)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # a websocket is not answered, which refuses it
        if self._is_behind_proxy(scope):
            scope["scheme"] = "https"  # as the caller sees it, also if the proxy does not report it
        ids = _ids(Headers(scope=scope))
        of_request.set(ids)
        if INSIDE not in scope:  # an inner request keeps the origin of its MCP call
            ORIGIN.set(f"http from {(scope.get('client') or ('a socket',))[0]}")
        ends_tls = scope["scheme"] == "https" and not self._is_behind_proxy(scope)
        answer = _Answer(send, ids["request_id"], (*SAFE, STRICT) if ends_tls else SAFE)
        with _span(scope, ids):
            if trace := tracing.traceparent():
                ids["trace_id"] = trace_id_of(trace)
            await self._take(scope, receive, answer)

    async def _take(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        try:
            await self._pass(scope, receive, answer)
        except (Gone, ClientDisconnect):  # ClientDisconnect: an endpoint reads a body that the guard did not
            return
        except Refusal as refusal:
            answer.closes = True  # the rest of the body is not read
            response = await tell(scope, refusal)
            await response(scope, receive, answer)
        except Exception as error:
            _report(error, scope)
            if answer.status:
                raise _Broken from None  # the server hangs up, and the caller sees that the answer has no end
            answer.closes = True
            response = await tell_failure(scope)
            await response(scope, receive, answer)
        finally:
            HERE.count(metrics.REQUESTS, str(answer.status or "gone"))
            _note(scope, answer)
            await self._refusals.note(scope)
            _tell_span(scope, answer)

    async def _pass(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        headers, path, caller = Headers(scope=scope), scope["path"], None
        self._check_host(headers, path)
        has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
        if has_body:
            _check_body(headers, path)
        if scope["method"] not in READS:
            _check_origin(headers)
            if path == MCP:  # whose calls lead to others, which count no more
                await self._caller(headers, counts=True)
            elif has_body and _is_keyed(path):
                caller = await self._caller(headers, counts=INSIDE not in scope)
                scope.setdefault("state", {})["caller"] = caller
        async with AsyncExitStack() as held:
            kind = kind_of(path, scope["query_string"])
            if caller and not kind.value.patience_s:  # so a flood of refused ones costs little
                await held.enter_async_context(self._doors.shares.held(kind, caller.key))
                scope["state"]["holds_share"] = True
            if has_body:
                limit = await self._limit(scope)
                if int(headers.get("content-length", "0")) > limit:
                    raise too_large(limit)
                body = await held.enter_async_context(self._bodies.read(receive, limit))
                is_json = "json" in headers.get("content-type", "") and not path.startswith(WEBHOOKS)
                if is_json and nests_deeply(body):  # of a webhook the signature comes first
                    raise Refusal("invalid_json", "The body is no JSON, or lists and objects nest too deeply.", 400)
                receive = replayed(body, receive)
                if not ("authorization" in headers or "cookie" in headers):
                    await held.enter_async_context(self._doors.shares.held(Kind.KEYLESS, None))
            await self._app(scope, receive, answer)

    async def _caller(self, headers: Headers, *, counts: bool) -> Access:
        """Return the caller of a write before its body is read. Raises Refusal."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            raise Refusal("no_key", NO_KEY, 401)
        return await self._doors.checks.find(Credentials(token.strip(), counts=counts))

    async def _limit(self, scope: Scope) -> int:
        """Return the maximum size of a body in bytes: only a signed-in user may send a large form."""
        if scope["path"] == GOAL_FORM and not await self._has_session(scope):
            return MAX_BYTES
        return limit_of(scope["path"], self._doors.settings, self._doors.webhooks)

    async def _has_session(self, scope: Scope) -> bool:
        session = session_in(HTTPConnection(scope))
        if not session:
            return False
        try:
            await self._doors.checks.find(Credentials(session=session, counts=False))
        except Refusal as refusal:
            if refusal.problem.status == UNAUTHORIZED:
                return False
            raise
        return True

    @staticmethod
    def _is_behind_proxy(scope: Scope) -> bool:
        """Return whether a proxy ends TLS for this caller; a caller that uses a local name has no proxy."""
        state = getattr(scope.get("app"), "state", None)
        if not getattr(state, "is_behind_proxy", False):
            return False
        return _plain_name(Headers(scope=scope).get("host", "")) not in LOOPBACK

    def _check_host(self, headers: Headers, path: str) -> None:
        host = headers.get("host", "")
        if path not in HEALTH and _plain_name(host) not in self._hosts:
            detail = f"No host {host!r} is served here; PLANNER_GATEWAY_HOSTS names those that are."
            raise Refusal("wrong_host", detail, 421)


class _Broken(Exception):
    """The application failed in the middle of an answer."""


class _Answer:
    """The answer to a request, with the headers that every answer has."""

    def __init__(self, send: Send, request_id: str, usual: Sequence[tuple[bytes, bytes]]) -> None:
        self._send = send
        self._usual = usual
        self._id = request_id.encode()
        self._began = time.perf_counter()
        self.status = 0
        self.closes = False  # whether the connection ends with this answer

    @property
    def taken_ms(self) -> int:
        """Milliseconds since the request arrived."""
        return round((time.perf_counter() - self._began) * 1000)

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            there = {name.lower() for name, _ in headers}
            headers.append((b"x-request-id", self._id))
            headers += [each for each in self._usual if each[0] not in there]
            if self.closes:
                headers.append((b"connection", b"close"))
            message["headers"] = headers
        try:
            async with asyncio.timeout(WRITE_S):
                await self._send(message)
        except TimeoutError:
            raise Gone from None


def _ids(headers: Headers) -> dict[str, str]:
    given = headers.get("x-request-id", "")
    ids = {"request_id": given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex}
    if found := read_traceparent(headers.get("traceparent")):
        ids["trace_id"] = trace_id_of(found)
    return ids


def _name(host: str) -> str:
    """Return the name in a `Host` header or an origin, without its port; empty if there is none."""
    try:
        return urlsplit(f"//{host}").hostname or "" if "@" not in host and "/" not in host else ""
    except ValueError:
        return ""


@lru_cache(MOST_NAMES)
def _plain_name(host: str) -> str:
    """Return the name in a `Host` header in its canonical spelling."""
    return _plain(_name(host))


def _plain(name: str) -> str:
    """Return a host in its canonical spelling, for comparisons."""
    try:
        return str(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return name.lower().rstrip(".")


def _check_origin(headers: Headers) -> None:
    """Refuse a write from a page of another site."""
    origins = headers.getlist("origin")
    if headers.get("sec-fetch-site") == "cross-site" or any(
        not _same(each, headers.get("host", "")) for each in origins
    ):
        raise Refusal("foreign_origin", "Pages of other sites may not write here.", 403)


def _same(origin: str, host: str) -> bool:
    try:
        parts, here = urlsplit(origin), urlsplit(f"//{host}")
        usual = {"http": 80, "https": 443}[parts.scheme]
        return _plain(parts.hostname or "") == _plain(here.hostname or "") and (parts.port or usual) == (
            here.port or usual
        )
    except (KeyError, ValueError):  # `null`, and texts that are no origin
        return False


def _check_body(headers: Headers, path: str) -> None:
    """Raise Refusal for a body that is compressed, of a wrong media type, or without a key, before it is read."""
    if "content-length" in headers and "transfer-encoding" in headers:  # a proxy may have believed the other one
        raise Refusal("bad_request", "A body has Content-Length or Transfer-Encoding, not both.", 400)
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise Refusal("compressed", "Send the body as it is, without Content-Encoding.", 415)
    if not path.startswith(("/v1/", MCP)) or path.startswith(WEBHOOKS):
        return
    if _is_keyed(path) and "authorization" not in headers:
        raise Refusal("no_key", NO_KEY, 401)
    kind, _, parameters = headers.get("content-type", "").partition(";")
    allowed = (JSON, CLOUD_EVENT) if path == "/v1/goals" else (JSON,)
    charset = re.search(r"charset=\"?([^\";\s]+)", parameters, re.IGNORECASE)
    if kind.strip().lower() not in allowed or (charset and charset[1].lower() not in ("utf-8", "utf8")):
        raise Refusal("wrong_media_type", f"Content-Type has to be {' or '.join(allowed)}, in UTF-8.", 415)


def _is_keyed(path: str) -> bool:
    return path.startswith(("/v1/", MCP)) and not path.startswith(UNSIGNED)


def _report(error: Exception, scope: Scope) -> None:
    """Log where the application failed, without the texts of exceptions: those may quote a body."""
    places = "".join(traceback.format_tb(error.__traceback__))
    caller = scope.get("state", {}).get("caller")
    about = {"method": scope["method"], "route": getattr(scope.get("route"), "path", None) or scope["path"]}
    about["key_id"] = caller.key.key_id if caller else ""
    failures.error("request failed", extra={"error": type(error).__name__, "places": places, **about})
    errors.report(error, of_request.get())


def _span(scope: Scope, ids: dict[str, str]) -> AbstractContextManager[None]:
    """Open a span for a request. A polled path gets one only if its caller has a trace."""
    given = read_traceparent(Headers(scope=scope).get("traceparent"))
    if not tracing.is_on() or (given is None and scope["path"] in POLLED):
        return nullcontext()
    about = {"http.request.method": scope["method"], "url.path": scope["path"], "planner.request_id": ids["request_id"]}
    return tracing.span(scope["method"], SpanKind.SERVER, given, about)


def _tell_span(scope: Scope, answer: _Answer) -> None:
    """Add the status and the route of the answer to the span of a request."""
    if not tracing.is_on():
        return
    tracing.add({"http.response.status_code": answer.status})
    if route := getattr(scope.get("route"), "path", ""):
        tracing.add({"http.route": route})
        tracing.rename(f"{scope['method']} {route}")


def _note(scope: Scope, answer: _Answer) -> None:
    is_poll = scope["path"] in POLLED and answer.status < ERRORS
    level = logging.DEBUG if is_poll else logging.INFO
    if log.isEnabledFor(level):
        extra = {"method": scope["method"], "path": scope["path"], "status": answer.status, "ms": answer.taken_ms}
        if caller := scope.get("state", {}).get("caller"):
            extra["key_id"] = caller.key.key_id
        log.log(level, "request", extra=extra)
