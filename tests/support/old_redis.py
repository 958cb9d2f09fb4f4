"""A server that answers like Redis 6.2: it reports that version, and lacks functions and the other commands of 7.0."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import hiredis

VERSION = "6.2.14"
HELLO = [b"server", b"redis", b"version", VERSION.encode(), b"proto", 2, b"id", 3, b"mode", b"standalone"]
INFO = f"redis_version:{VERSION}\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n"


def _reply(words: list[bytes]) -> bytes:
    match words[0].upper():
        case b"PING":
            return b"+PONG\r\n"
        case b"HELLO":
            return _encoded(HELLO)
        case b"INFO":
            return _encoded(INFO.encode())
        case b"CLIENT" | b"SELECT" | b"AUTH":
            return b"+OK\r\n"
        case unknown:
            return f"-ERR unknown command `{unknown.decode()}`, with args beginning with: \r\n".encode()


def _encoded(value: Any) -> bytes:
    if isinstance(value, list):
        return b"*%d\r\n" % len(value) + b"".join(map(_encoded, value))
    return b":%d\r\n" % value if isinstance(value, int) else b"$%d\r\n%s\r\n" % (len(value), value)


class _Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        reader = hiredis.Reader()
        with suppress(ConnectionError):  # a client that has ended
            while chunk := self.request.recv(65_536):
                reader.feed(chunk)
                while (words := reader.gets()) is not False:
                    self.request.sendall(_reply(words))


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@contextmanager
def old_redis() -> Iterator[str]:
    """Run such a server; yields its URL."""
    with _Server(("127.0.0.1", 0), _Connection) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"redis://127.0.0.1:{server.server_address[1]}/0"
        finally:
            server.shutdown()
