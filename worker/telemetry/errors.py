"""Reports errors to Sentry if `SENTRY_DSN` is set; requires the extra `sentry`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from types import ModuleType

from tasks.base.errors import PlannerError
from worker.settings.settings import Settings

_sentry: ModuleType | None = None  # `worker.telemetry.sentry` once this program reports


class CannotReport(PlannerError):
    """SENTRY_DSN is set without the extra."""


def start(settings: Settings) -> None:
    """Report this process's errors to Sentry; does nothing without a DSN. Raises CannotReport.

    Called in the parent, before Celery builds its tasks, and again after a fork.
    """
    global _sentry
    if settings.sentry_dsn:
        try:
            from worker.telemetry import sentry
        except ModuleNotFoundError as error:
            hint = "SENTRY_DSN: needs the extra `sentry` (pip install 'planner-worker[sentry]')."
            raise CannotReport(hint) from error
        sentry.set_up(settings.sentry_dsn, os.getpid())
        _sentry = sentry


def reported_as(task: str) -> AbstractContextManager[None]:
    """Report errors in the block as errors of `task`, instead of the Celery task that this thread runs."""
    named: AbstractContextManager[None] = _sentry.reported_as(task) if _sentry else nullcontext()
    return named


def report(error: Exception, extras: Mapping[str, str]) -> None:
    """Report a caught error, with ids."""
    if _sentry:
        _sentry.report(error, extras)
