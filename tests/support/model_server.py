"""A server of the two APIs that agents' programs call models by: Anthropic's Messages and OpenAI's Responses.

Both send streams of events over real HTTP. A function of the test decides the model's response from the request and
from the results of the tools.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from schemas import codec

FRESH, WRITTEN, CACHED, PRINTED = 100, 20, 1000, 50  # tokens of each answer: new, put into the cache, from it, out
Events = list[tuple[str, dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request to the model: the first words of the conversation, and the later results of its tools."""

    prompt: str
    results: tuple[str, ...]
    tools: frozenset[str]
    schema: Any = None


@dataclass(frozen=True, slots=True)
class Says:
    """One response of the model: text, the use of a tool, or the provider's refusal."""

    text: str = ""
    tool: str | None = None
    given: dict[str, Any] = field(default_factory=dict)
    status: int = 200
    kind: str = ""


Model = Callable[[Asked], Says]


@dataclass(slots=True)
class ModelServer:
    """The server as its test sees it."""

    url: str
    model: Model
    asked: list[Asked] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)  # each question as it came: its headers, then its body
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def model_server(model: Model) -> Iterator[ModelServer]:
    """Run a server on a free port of this machine."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    httpd.daemon_threads = True
    server = ModelServer(f"http://127.0.0.1:{httpd.server_address[1]}", model)
    httpd.models = server  # type: ignore[attr-defined]
    thread = threading.Thread(target=httpd.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join(10)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        body = codec.loads(raw)
        path = self.path.partition("?")[0]
        if path == "/v1/messages":
            self._answer(raw, _asked_by_messages(body), _message, {"type": "error"})
        elif path == "/v1/responses":
            self._answer(raw, _asked_by_responses(body), _response, {})
        else:
            self._document(404, {"error": {"message": "not here"}})

    def _answer(self, raw: bytes, asked: Asked, events: Callable[[Says], Events], error: dict[str, Any]) -> None:
        server: ModelServer = self.server.models  # type: ignore[attr-defined]
        with server.lock:
            server.asked.append(asked)
            server.heard.append(f"{self.headers}{raw.decode()}")
        said = server.model(asked)
        if said.status != 200:
            self._document(said.status, {**error, "error": {"type": said.kind, "message": said.text}})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for name, data in events(said):
            self.wfile.write(b"event: %s\ndata: %s\n\n" % (name.encode(), codec.dumps({"type": name, **data})))
        self.close_connection = True

    def _document(self, status: int, document: dict[str, Any]) -> None:
        encoded = codec.dumps(document)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *_: Any) -> None:
        """Stay silent."""


def _asked_by_messages(body: dict[str, Any]) -> Asked:
    words, results = [], []
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "text" and message["role"] == "user":
                words.append(block["text"])
            elif block["type"] == "tool_result":
                results.append(_plain(block.get("content")))
    tools = {tool["name"]: tool for tool in body.get("tools", [])}
    schema = tools.get("StructuredOutput", {}).get("input_schema")
    return Asked("\n".join(words), tuple(results), frozenset(tools), schema)


def _asked_by_responses(body: dict[str, Any]) -> Asked:
    words, results = [], []
    for item in body["input"]:
        if item["type"] == "message" and item["role"] == "user":
            words += [part["text"] for part in item["content"] if part["type"] == "input_text"]
        elif item["type"] == "function_call_output":
            results.append(_plain(item["output"]))
    tools = frozenset(str(tool.get("name") or tool["type"]) for tool in body.get("tools", []))
    return Asked("\n".join(words), tuple(results), tools, body.get("text", {}).get("format", {}).get("schema"))


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else codec.dumps(content).decode()


def _message(said: Says) -> Events:
    usage = {
        "input_tokens": FRESH,
        "cache_creation_input_tokens": WRITTEN,
        "cache_read_input_tokens": CACHED,
        "output_tokens": 1,
    }
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "stub", "content": [], "usage": usage}
    if said.tool:
        block: dict[str, Any] = {"type": "tool_use", "id": f"toolu_{id(said)}", "name": said.tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": codec.dumps(said.given).decode()}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": said.text}
    stop = {"stop_reason": "tool_use" if said.tool else "end_turn", "stop_sequence": None}
    return [
        ("message_start", {"message": {**message, "stop_reason": None, "stop_sequence": None}}),
        ("content_block_start", {"index": 0, "content_block": block}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": stop, "usage": {"output_tokens": PRINTED}}),
        ("message_stop", {}),
    ]


def _response(said: Says) -> Events:
    if said.tool:
        item: dict[str, Any] = {"type": "function_call", "id": f"fc_{id(said)}", "call_id": f"call_{id(said)}"}
        item |= {"name": said.tool, "arguments": codec.dumps(said.given).decode()}
    else:
        content = [{"type": "output_text", "text": said.text}]
        item = {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
    usage = {
        "input_tokens": FRESH + WRITTEN + CACHED,
        "input_tokens_details": {"cached_tokens": CACHED},
        "output_tokens": PRINTED,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": FRESH + WRITTEN + CACHED + PRINTED,
    }
    return [
        ("response.created", {"response": {"id": "resp_1"}}),
        ("response.output_item.added", {"output_index": 0, "item": item}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": {"id": "resp_1", "output": [item], "usage": usage}}),
    ]
