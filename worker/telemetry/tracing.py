"""Traces of goals and plans, where PLANNER_TRACING is set; without that no exporter is even imported.

Names and attributes are those of OpenTelemetry's conventions for messaging and for generative AI. Attributes hold ids,
counts and words of ours, never what a goal, an outcome or a model said.
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
    """The OTEL_* variables describe nothing that spans can be sent with."""


class SpanKind(Enum):
    """What a span is to others, by its name in OpenTelemetry."""

    INTERNAL = "INTERNAL"
    SERVER = "SERVER"
    CLIENT = "CLIENT"
    PRODUCER = "PRODUCER"
    CONSUMER = "CONSUMER"


NO_ATTRIBUTES: Attributes = {}

spans_module: ModuleType | None = None  # `worker.telemetry.spans` once this program traces


def start(settings: TelemetrySettings, service: str) -> None:
    """Trace what this program does from now on, as the service that is named, if the settings say so.

    Children that are forked from it trace too, each with an exporter of its own that it makes for its first span.
    Raises CannotTrace where the OTEL_* variables allow none: no goal or outcome shall meet that.
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
    """Send what was not sent yet, for a few seconds at the most."""
    if spans_module:
        spans_module.shut_down()


def is_on() -> bool:
    """Whether this program traces."""
    return spans_module is not None


def span(
    name: str,
    kind: SpanKind = SpanKind.INTERNAL,
    parent: str | None = None,
    attributes: Attributes = NO_ATTRIBUTES,
) -> AbstractContextManager[None]:
    """Make a span of the block: below `parent`, a traceparent, else below the span in hand, else a new trace."""
    return spans_module.span(name, kind.value, parent, attributes) if spans_module else nullcontext()


def add(attributes: Attributes) -> None:
    """Add to the span in hand."""
    if spans_module:
        spans_module.add(attributes)


def rename(name: str) -> None:
    """Give the span in hand the name that is known only now."""
    if spans_module:
        spans_module.rename(name)


def traceparent(given: str | None = None) -> str | None:
    """Return the traceparent of the span in hand; the one that was `given` where there is none."""
    return spans_module.traceparent(given) if spans_module else given


def note(name: str, kind: SpanKind, parent: str, began_ns: int, attributes: Attributes = NO_ATTRIBUTES) -> str:
    """Make a span that ends now, and return its traceparent; that of its parent where nothing is traced."""
    found: str = spans_module.note(name, kind.value, parent, began_ns, attributes) if spans_module else parent
    return found


def messaging(operation: str, destination: str, attributes: Attributes = NO_ATTRIBUTES) -> Attributes:
    """Return what is done with a message of which stream, as the conventions have it: `send` or `process`."""
    return {
        "messaging.system": "redis",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": destination,
        **attributes,
    }
