"""The settings of what the planner tells of itself to those who run it."""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, Field
from pydantic_settings import BaseSettings


class TelemetrySettings(BaseSettings):
    """Logs and reports of errors."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="INFO", description="least level logged")
    sentry_dsn: str | None = Field(
        default=None,
        validation_alias=AliasChoices("SENTRY_DSN", "sentry_dsn"),
        description="where errors are reported; nothing is without it",
    )
