"""The settings of logs, metrics, traces and error reports."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from typing import Literal

from pydantic import AliasChoices, Field

from worker.settings.environment import FromEnvironment


class TelemetrySettings(FromEnvironment):
    """Logs, metrics, traces, and reports of errors."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="INFO", description="least level logged")
    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65_535,
        description="port of a worker's metrics for Prometheus; 0 takes any free one, which the log names; "
        "nothing is counted unless set",
    )
    metrics_host: str = Field(default="127.0.0.1", min_length=1, description="the address of that port")
    tracing: bool = Field(default=False, description="export spans over OTLP, by the OTEL_* variables")
    sentry_dsn: str | None = Field(
        default=None,
        validation_alias=AliasChoices("SENTRY_DSN"),
        description="where errors are reported; nothing is without it",
    )


def missing(settings: TelemetrySettings) -> list[str]:
    """Return a sentence for each missing package that the settings require."""
    with suppress(ModuleNotFoundError):  # of its parent package
        if not settings.tracing or find_spec("opentelemetry.exporter.otlp.proto.http"):
            return []
    return ["PLANNER_TRACING: needs the extra `otel` (pip install 'planner-worker[otel]')."]
