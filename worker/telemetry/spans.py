"""Records spans with OpenTelemetry's SDK and exports them over OTLP/HTTP; other code uses the module `tracing`.

A thread exports the spans from a bounded queue (OTEL_BSP_MAX_QUEUE_SIZE). So during an outage of the collector, only
spans are lost. The OTEL_* variables configure the exporter.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags, Tracer

from worker.host.code_version import CODE_VERSION
from worker.telemetry.outage import SaidSeldom
from worker.telemetry.tracing import Attributes

FLUSH_S = 3.0  # for spans that wait at the end of a process
NOISY = (  # about a collector that is away
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http._common",
    "opentelemetry.sdk._shared_internal",
    "urllib3.connectionpool",
)


class _Process:
    """The tracer of this process; the first span creates it."""

    def __init__(self) -> None:
        self.service = ""
        self.lock = threading.Lock()
        self.provider: TracerProvider | None = None
        self._tracer: Tracer | None = None
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Drop the tracer in a forked process, because the export thread exists only in the parent."""
        self.lock, self.provider, self._tracer = threading.Lock(), None, None

    def tracer(self) -> Tracer:
        """Return the tracer of this process; the first call creates it."""
        if self._tracer is None:
            with self.lock:
                if self._tracer is None:
                    self.provider = _provider(self.service)
                    self._tracer = self.provider.get_tracer("planner", CODE_VERSION)
        return self._tracer


_here = _Process()


def _provider(service: str) -> TracerProvider:
    ours = Resource.create({"service.name": service, "service.version": CODE_VERSION})
    provider = TracerProvider(resource=ours.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def set_up(service: str) -> None:
    """Set the service name for spans of this process and its children, unless OTEL_SERVICE_NAME names one.

    Raises the SDK's errors for invalid variables.
    """
    _provider(service).shutdown()  # the next one is made in the middle of the first goal or outcome
    _here.service = service
    for name in NOISY:
        logging.getLogger(name).addFilter(SaidSeldom())


def shut_down() -> None:
    """Export the waiting spans, and drop the tracer of this process."""
    provider = _here.provider
    _here.forget()
    if provider:
        sending = threading.Thread(target=provider.shutdown, name="spans", daemon=True)
        sending.start()
        sending.join(FLUSH_S)


@contextmanager
def span(name: str, kind: str, parent: str | None, attributes: Attributes) -> Iterator[None]:
    """Open a span for the block. Of an exception, the span records the type and never the text."""
    with _here.tracer().start_as_current_span(
        name,
        context=_context(parent),
        kind=SpanKind[kind],
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as made:
        try:
            yield
        except BaseException as error:
            made.set_status(Status(StatusCode.ERROR))
            made.set_attribute("error.type", type(error).__name__)
            raise


def add(attributes: Attributes) -> None:
    """Add attributes to the current span."""
    trace.get_current_span().set_attributes(attributes)


def rename(name: str) -> None:
    """Rename the current span."""
    trace.get_current_span().update_name(name)


def traceparent(given: str | None) -> str | None:
    """Return the traceparent of the current span, else the `given` one."""
    return _written(trace.get_current_span().get_span_context()) or given


def note(name: str, kind: str, parent: str, began_ns: int, attributes: Attributes) -> str:
    """Record a span that ends now, and return its traceparent."""
    made = _here.tracer().start_span(
        name, context=_context(parent), kind=SpanKind[kind], attributes=attributes, start_time=began_ns
    )
    made.end()
    return _written(made.get_span_context()) or parent


def _context(parent: str | None) -> Context | None:
    """Return the trace context of a traceparent; None, which means the current span, without one."""
    if parent is None:
        return None
    ids = int(parent[3:35], 16), int(parent[36:52], 16)
    named = SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(int(parent[53:], 16)))
    return trace.set_span_in_context(NonRecordingSpan(named), Context())


def _written(context: SpanContext) -> str | None:
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
