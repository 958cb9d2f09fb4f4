"""Logs as one JSON object a line, without the bodies of evidence."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from schemas import codec
from worker.host.printable import escape_json

IDS = ("goal_id", "plan_id", "step_id", "attempt", "message_id", "trace_id", "request_id", "failure_id")
PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# Lines of wake-ups and requests have no plans, but URLs and headers, which may contain secrets; an agent's
# refusals contain its words.
NOISY = ("celery.worker.strategy", "celery.app.trace", "httpx", "httpcore", "mcp")


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON with time, level, logger, a stable `event`, and the fields in `extra`."""

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
        try:
            return escape_json(codec.dumps(line, default=str).decode())
        except TypeError:  # half a surrogate pair, or an integer beyond 64 bits; no line is lost for that
            return json.dumps(line, default=str)


def set_up_logs(level: str) -> None:
    """Send every logger's records of `level` and above to stderr, as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)
