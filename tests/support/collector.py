"""A collector of traces: takes OTLP over HTTP as OpenTelemetry's exporters send it, and keeps every span."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True, slots=True)
class TakenSpan:
    """One span; ids are hexadecimal, `parent` is empty for a root."""

    service: str
    name: str
    trace: str
    id: str
    parent: str
    kind: int
    attributes: dict[str, Any]
    failed: bool


class Collector(ThreadingHTTPServer):
    """An HTTP server that keeps the spans it receives; while `hangs` is set it answers no request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Door)
        self.spans: list[TakenSpan] = []
        self.received = b""
        self.hangs = Event()
        self.go_on = Event()

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that have one of our programs export here, soon after each span."""
        url = f"http://127.0.0.1:{self.server_port}"
        return {"PLANNER_TRACING": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "200"}

    def named(self, *begins: str) -> list[TakenSpan]:
        """Return the spans whose names begin with one of these prefixes."""
        return [span for span in list(self.spans) if span.name.startswith(begins)]

    def take(self, body: bytes) -> None:
        self.received += body
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            service = {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"]
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                found = {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}
                ids = span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()
                self.spans.append(TakenSpan(service, span.name, *ids, span.kind, found, span.status.code == 2))


class _Door(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.hangs.is_set():
            self.server.go_on.wait(60)
            return
        self.server.take(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Write no log."""


@contextmanager
def running_collector() -> Iterator[Collector]:
    with Collector() as collector:
        Thread(target=collector.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield collector
        collector.go_on.set()
        collector.shutdown()
