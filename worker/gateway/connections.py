"""Limits connections: a request's head must be small and arrive soon, so that slow callers lock out no others."""

from __future__ import annotations

import asyncio
import sys
import uuid
from asyncio import TimerHandle
from contextlib import suppress
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from schemas.envelope import Problem
from worker.gateway.problems import MEDIA_TYPE

HEAD_S = 10.0  # time for the head of a request
MOST_HEADS = 500  # heads on their way; above that, the oldest connection is closed
MOST_CONNECTIONS = 4096
LINGER_S = 2.0  # the rest of a refused request is discarded for so long, so that its caller reads the reason
FLUSH_S = 60.0  # a caller has this time to read the end of its answer

TOLD = {400: "The request is no HTTP/1.1.", 408: "The request did not come in time.", 431: "The headers are too large."}


class Lingering:
    """A transport that stays open while its caller still sends a body, or reads the rest of an answer.

    An immediate close would discard the answer that explains the refusal.
    """

    def __init__(self, transport: asyncio.Transport, protocol: Connection) -> None:
        self._transport = transport
        self._protocol = protocol
        self._closing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        """Return whether the transport reads no more requests."""
        return self._closing or self._transport.is_closing()

    def close(self) -> None:
        """Close when the answer is sent and the body is read, or when the time for that is over."""
        if self.is_closing():
            return
        self._closing = True
        loop = asyncio.get_running_loop()
        loop.call_later(FLUSH_S, self._transport.abort)
        if not self._protocol.still_comes:
            self._transport.close()
            return
        if self._transport.can_write_eof():
            with suppress(OSError):  # who has hung up reads nothing more, and the connection's end is on its way
                self._transport.write_eof()
        self._transport.resume_reading()
        loop.call_later(LINGER_S, self._transport.close)


class Connection(H11Protocol):
    """A connection of uvicorn with a limited time for a request's head.

    `heads` contains the connections of this process whose head is on its way. `idle` contains those that wait for a
    next request. In both the oldest is first.
    """

    def __init__(
        self, heads: dict[Connection, TimerHandle], idle: dict[Connection, None], *args: Any, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._heads, self._idle = heads, idle

    @property
    def still_comes(self) -> bool:
        """Return whether the caller still sends the body of a request that already has its answer."""
        return self.conn.their_state in (h11.SEND_BODY, h11.ERROR)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Serve the connection, or refuse it (503) if there are too many."""
        super().connection_made(Lingering(transport, self))  # type: ignore[arg-type]
        if len(self.connections) > MOST_CONNECTIONS and not self._make_room():
            self.refuse(503, "busy", "The gateway has as many connections as it may: try again soon.", retry_after=1)
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from all lists."""
        self._idle.pop(self, None)
        self._head_is_over()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on. Bytes that arrive after a refusal are discarded."""
        if self.transport.is_closing():
            return
        self._idle.pop(self, None)
        super().data_received(data)
        if self.transport.is_closing() or (self.cycle and not self.cycle.response_complete):
            self._head_is_over()
        elif self.timeout_keep_alive_task is None and self not in self._heads:
            self._await_head()

    def on_response_complete(self) -> None:
        """Keep the connection for the next request; it is idle until that arrives."""
        super().on_response_complete()
        if self.timeout_keep_alive_task and self.cycle.response_complete and not self.transport.is_closing():
            self._idle[self] = None

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that cannot be read; `msg` is uvicorn's reason."""
        status = getattr(sys.exc_info()[1], "error_status_hint", 400)
        self.refuse(status, "bad_request", TOLD.get(status, msg))

    def shutdown(self) -> None:
        """Close after the current answer; abort a connection that was refused, since it has its answer already."""
        if self.transport.is_closing():
            self.transport.abort()
        else:
            super().shutdown()

    def refuse(self, status: int, code: str, detail: str, retry_after: int | None = None) -> None:
        """Send a refusal without reading a request, and close."""
        body = Problem.of(code, detail, status=status).model_dump_json(exclude_none=True).encode()
        headers = [("content-type", MEDIA_TYPE), ("content-length", str(len(body))), ("connection", "close")]
        headers += [("x-request-id", uuid.uuid4().hex), ("x-content-type-options", "nosniff")]
        headers += [("retry-after", str(retry_after))] if retry_after is not None else []
        try:
            events = (h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage())
            self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        except h11.LocalProtocolError:  # in the middle of an answer
            self.transport.abort()
        else:
            self.transport.close()

    def give_up(self) -> None:
        """Stop waiting for a request."""
        self._head_is_over()
        if self.conn.trailing_data[0]:
            self.refuse(408, "too_slow", TOLD[408])
        else:  # nothing was asked
            self.transport.close()

    def _make_room(self) -> bool:
        """Close the connection that is idle for longest; if none is idle, a connection whose answer is not read."""
        found = next(iter(self._idle), None) or next(
            (each for each in self.connections if isinstance(each, Connection) and each.flow.write_paused), None
        )
        if found is None:
            return False
        self._idle.pop(found, None)
        self.connections.discard(found)
        found.transport.abort()
        return True

    def _await_head(self) -> None:
        self._heads[self] = self.loop.call_later(HEAD_S, self.give_up)
        if len(self._heads) > MOST_HEADS:
            next(iter(self._heads)).give_up()

    def _head_is_over(self) -> None:
        if timer := self._heads.pop(self, None):
            timer.cancel()
