"""Traces goals and plans if PLANNER_TRACING is set; otherwise it imports no exporter.

Names and attributes follow OpenTelemetry's conventions for messaging and for generative AI. Attributes contain ids,
counts and the planner's own words, never texts of a goal, an outcome or a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from types import ModuleType

from tasks.base.errors import PlannerError
from worker.settings.telemetry import TelemetrySettings

Attributes = Mapping[str, str | int | float | bool]


class CannotTrace(PlannerError):
    """The OTEL_* variables are invalid, so no spans can be exported."""


class SpanKind(Enum):
    """The kind of a span, by its name in OpenTelemetry."""

    INTERNAL = "INTERNAL"
    SERVER = "SERVER"
    CLIENT = "CLIENT"
    PRODUCER = "PRODUCER"
    CONSUMER = "CONSUMER"


NO_ATTRIBUTES: Attributes = {}

spans_module: ModuleType | None = None  # `worker.telemetry.spans` once this program traces


def start(settings: TelemetrySettings, service: str) -> None:
    """Trace this program from now on, under the given service name, if the settings enable it.

    Forked children trace too, each with a separate exporter from its first span on. Raises CannotTrace for invalid
    OTEL_* variables: no goal or outcome may meet that error.
    """
    global spans_module
    if settings.tracing:
        try:
            from worker.telemetry import spans

            spans.set_up(service)
        except Exception as error:  # some variables are read by the import already
            raise CannotTrace(f"PLANNER_TRACING: the OTEL_* variables cannot be used: {error}") from error
        spans_module = spans


def stop() -> None:
    """Send the remaining spans, for a few seconds at most."""
    if spans_module:
        spans_module.shut_down()


def is_on() -> bool:
    """Return whether this program traces."""
    return spans_module is not None


def span(
    name: str,
    kind: SpanKind = SpanKind.INTERNAL,
    parent: str | None = None,
    attributes: Attributes = NO_ATTRIBUTES,
) -> AbstractContextManager[None]:
    """Open a span for the block: a child of `parent` (a traceparent), else of the current span, else a new trace."""
    return spans_module.span(name, kind.value, parent, attributes) if spans_module else nullcontext()


def add(attributes: Attributes) -> None:
    """Add attributes to the current span."""
    if spans_module:
        spans_module.add(attributes)


def rename(name: str) -> None:
    """Give the current span its final name."""
    if spans_module:
        spans_module.rename(name)


def traceparent(given: str | None = None) -> str | None:
    """Return the traceparent of the current span, else the `given` one."""
    return spans_module.traceparent(given) if spans_module else given


def note(name: str, kind: SpanKind, parent: str, began_ns: int, attributes: Attributes = NO_ATTRIBUTES) -> str:
    """Record a span that ends now, and return its traceparent; without tracing, return `parent`."""
    found: str = spans_module.note(name, kind.value, parent, began_ns, attributes) if spans_module else parent
    return found


def messaging(operation: str, destination: str, attributes: Attributes = NO_ATTRIBUTES) -> Attributes:
    """Return the OpenTelemetry messaging attributes of an operation (`send` or `process`) on a stream."""
    return {
        "messaging.system": "redis",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": destination,
        **attributes,
    }
