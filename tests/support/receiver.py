"""A receiver of callbacks on this machine: it keeps the requests, and answers as a test says."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple

from schemas import codec


class Call(NamedTuple):
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def said(self) -> dict[str, Any]:
        """Return the JSON object of the body."""
        found: dict[str, Any] = codec.loads(self.body)
        return found


@dataclass
class Receiver:
    """What came; each answer is a status and headers, the last one for all that come after it.

    `hold` keeps answers back until it is set, `before` is called before one is given. `raw` is written in the place of
    an answer, for as long as it yields.
    """

    port: int = 0
    url: str = ""
    connections: int = 0
    calls: list[Call] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=lambda: [(204, {})])
    hold: Event | None = None
    before: Callable[[], None] = lambda: None
    raw: Callable[[], Iterator[bytes]] | None = None

    def types(self) -> list[str]:
        """Return the event type of each message."""
        return [call.said["type"] for call in self.calls]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    receiver: Receiver

    def verify_request(self, *_: Any) -> bool:
        """Count the connection, also if no request follows."""
        self.receiver.connections += 1
        return True

    def handle_error(self, *_: Any) -> None:
        """Ignore the error: a caller may hang up."""


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        """Keep the request, and answer it."""
        receiver, length = self.server.receiver, int(self.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        receiver.calls.append(Call(self.path, headers, self.rfile.read(length)))
        receiver.before()
        if receiver.hold:
            receiver.hold.wait(30)
        with suppress(OSError):
            self._answer(receiver)

    def do_POST(self) -> None:
        """As for GET."""
        self.do_GET()

    def do_CONNECT(self) -> None:
        """As for GET."""
        self.do_GET()

    def _answer(self, receiver: Receiver) -> None:
        if receiver.raw:
            for part in receiver.raw():
                self.wfile.write(part)
            return
        status, headers = receiver.answers.pop(0) if len(receiver.answers) > 1 else receiver.answers[0]
        self.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write no log."""


@contextmanager
def receiving(host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """Listen while the block lasts."""
    server = (_Server6 if ":" in host else _Server)((host, port), _Handler)
    server.receiver = receiver = Receiver()
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    receiver.port = server.server_address[1]
    receiver.url = f"http://{f'[{host}]' if ':' in host else host}:{receiver.port}"
    try:
        yield receiver
    finally:
        if receiver.hold:
            receiver.hold.set()
        server.shutdown()
        thread.join()
        server.server_close()
