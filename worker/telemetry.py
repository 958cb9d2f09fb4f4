"""Logs as one JSON object a line, and Sentry where `SENTRY_DSN` is set. Evidence bodies go to neither."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

import sentry_sdk
from sentry_sdk.integrations.celery import CeleryIntegration

from schemas import codec
from worker.settings import Settings

IDS = ("goal_id", "plan_id", "step_id", "attempt", "message_id", "trace_id")
PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
NUDGES = ("celery.worker.strategy", "celery.app.trace")  # two lines for every nudge say nothing about plans
KEPT_IN_REPORTS = frozenset((*IDS, "stream", "entry", "code", "count", "verdict", "celery-job", "sys.argv"))


class JsonLines(logging.Formatter):
    """Writes a record as one line: time, level, logger, a stable `event`, and whatever stands in `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Encode `record`."""
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in PLAIN and name != "data"},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return codec.dumps(line, default=str).decode()


def set_up_logs(level: str) -> None:
    """Send every logger's records of `level` and above to stderr, as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in NUDGES:
        logging.getLogger(noisy).setLevel(logging.WARNING)


def set_up_sentry(settings: Settings) -> None:
    """Report errors of this process to Sentry; does nothing without a DSN. Called after the fork."""
    if settings.sentry_dsn:
        sentry_sdk.init(
            dsn=settings.sentry_dsn,
            integrations=[CeleryIntegration(propagate_traces=False)],
            send_default_pii=False,
            include_local_variables=False,
            max_breadcrumbs=0,
            before_send=_without_evidence,
        )


def _without_evidence(event: Any, _: Any) -> Any:
    """Drop all that could carry a message's body: only ids and the trace's places leave."""
    event["extra"] = {name: value for name, value in event.get("extra", {}).items() if name in KEPT_IN_REPORTS}
    for exception in event.get("exception", {}).get("values", ()):
        exception["value"] = str(exception.get("value", ""))[:200]
    return event
