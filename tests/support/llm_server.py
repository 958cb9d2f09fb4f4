"""A server of OpenAI's chat completions over real HTTP, which misbehaves as its test says.

Each call takes the next reply of the script; after the end of the script, each call takes the last one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from schemas import codec

PIECE = 24  # characters of one piece of a streamed answer
LONGEST_WAIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What one call gets."""

    text: str = ""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    error: str = "it broke"  # the message of a status that is not 200
    tokens: tuple[int, int] | None = (30, 12)  # of the prompt and of the answer; None: no usage is reported
    waits: bool = False  # until the server is told to go on
    cut_after: int | None = None  # pieces of a stream, or bytes of a body, after which the connection is lost
    finish: str = "stop"
    refuses_schema: int = 0  # the status of a call that brings a schema along


@dataclass(slots=True)
class LlmServer:
    """The server as its test sees it: the calls it received, and the calls in progress."""

    url: str
    script: list[Reply]
    calls: list[dict[str, Any]] = field(default_factory=list)  # the bodies, in order
    headers: list[dict[str, str]] = field(default_factory=list)  # of each call, in lower case
    go_on: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, body: dict[str, Any], headers: dict[str, str]) -> Reply:
        """Note a call, and find its reply."""
        with self._lock:
            self.calls.append(body)
            self.headers.append(headers)
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    @property
    def prompts(self) -> list[str]:
        """The prompts that the server received, in order."""
        return [call["messages"][-1]["content"] for call in self.calls]


@contextmanager
def llm_server(*script: Reply) -> Iterator[LlmServer]:
    """Run a server with this script, on a free port of this machine."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    httpd.daemon_threads = True
    server = LlmServer(f"http://127.0.0.1:{httpd.server_address[1]}/v1", list(script) or [Reply()])
    httpd.llm = server  # type: ignore[attr-defined]
    thread = threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.go_on.set()
        httpd.shutdown()
        httpd.server_close()
        thread.join(10)


class _Lost(Exception):
    """The connection is to be lost here."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        llm: LlmServer = self.server.llm  # type: ignore[attr-defined]
        body = codec.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = llm.take(body, {name.lower(): value for name, value in self.headers.items()})
        if reply.waits:
            llm.go_on.wait(LONGEST_WAIT_S)
        try:
            with suppress(BrokenPipeError, ConnectionResetError):
                self._answer(reply, body)
        except _Lost:
            self.close_connection = True

    def _answer(self, reply: Reply, body: dict[str, Any]) -> None:
        if reply.refuses_schema and "response_format" in body:
            error = {"error": {"message": "response_format is not supported"}}
            self._document(reply.refuses_schema, (), error, None)
        elif reply.status != 200:
            self._document(reply.status, reply.headers, {"error": {"message": reply.error}}, None)
        elif body.get("stream"):
            self._stream(reply, body)
        else:
            self._document(200, reply.headers, _completion(reply, body), reply.cut_after)

    def _document(
        self, status: int, headers: Sequence[tuple[str, str]], document: dict[str, Any], cut: int | None
    ) -> None:
        encoded = codec.dumps(document)
        self._head(status, (*headers, ("Content-Type", "application/json"), ("Content-Length", str(len(encoded)))))
        self.wfile.write(encoded[:cut])
        if cut is not None:
            raise _Lost

    def _stream(self, reply: Reply, body: dict[str, Any]) -> None:
        self._head(200, (*reply.headers, ("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")))
        for number, piece in enumerate(_pieces(reply, body)):
            if number == reply.cut_after:
                raise _Lost
            self._chunk(b"data: " + codec.dumps(piece) + b"\n\n")
        self._chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _head(self, status: int, headers: Sequence[tuple[str, str]]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Stay silent."""


def _completion(reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": reply.text}
    choice = {"index": 0, "message": message, "finish_reason": reply.finish}
    return {**_about("chat.completion", body), "choices": [choice], **_usage(reply)}


def _pieces(reply: Reply, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    about = _about("chat.completion.chunk", body)
    for at in range(0, len(reply.text), PIECE):
        delta = {"role": "assistant", "content": reply.text[at : at + PIECE]}
        yield {**about, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**about, "choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish}]}
    if body.get("stream_options", {}).get("include_usage"):
        yield {**about, "choices": [], **_usage(reply)}


def _about(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"id": "call-1", "object": kind, "created": 1_700_000_000, "model": body["model"]}


def _usage(reply: Reply) -> dict[str, Any]:
    if reply.tokens is None:
        return {}
    prompt, answer = reply.tokens
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}}
