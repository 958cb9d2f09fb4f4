"""Logs as one JSON object a line, and Sentry where `SENTRY_DSN` is set.

Evidence bodies go to neither.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from typing import Any

import sentry_sdk
from sentry_sdk.integrations.celery import CeleryIntegration

from schemas import codec
from worker.host.code_version import CODE_VERSION
from worker.host.printable import escape_json
from worker.settings.settings import Settings

IDS = ("goal_id", "plan_id", "step_id", "attempt", "message_id", "trace_id", "request_id", "failure_id")
PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
# Lines of wake-ups and requests say nothing of plans, but URLs and headers, which may hold secrets; what an agent was
# refused has its words.
NOISY = ("celery.worker.strategy", "celery.app.trace", "httpx", "httpcore", "mcp")

# What may leave for Sentry. Everything that is not named here stays: a new release may collect more than this one.
REPORTED = frozenset(
    {
        *("event_id", "timestamp", "level", "platform", "logger", "logentry", "exception", "transaction", "tags"),
        *("extra", "contexts", "fingerprint", "release", "environment", "server_name", "sdk", "modules"),
    }
)
REPORTED_EXTRA = frozenset((*IDS, "stream", "entry", "code", "count", "verdict", "pid", "kind", "rule"))
REPORTED_CONTEXTS = frozenset(("runtime", "trace"))
TAGGED = ("goal_id", "plan_id", "step_id", "kind", "rule", "failure_id")  # what one searches by
TELLING = ("redis.", "kombu.", "worker.store.")  # errors whose text is a server's or ours, and quotes no message
MAX_TEXT = 200


class JsonLines(logging.Formatter):
    """Writes a record as one line of JSON.

    It has time, level, logger, a stable `event`, and whatever stands in `extra`.
    """

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


def set_up_sentry(settings: Settings) -> None:
    """Report this process's errors to Sentry; does nothing without a DSN.

    Called in the parent, before Celery builds its tasks, and again after a fork, since connections do not survive one.
    """
    if settings.sentry_dsn:
        _report(settings.sentry_dsn, os.getpid())


@cache  # a solo worker is its own child: both signals come to the same process
def _report(dsn: str, pid: int) -> None:
    sentry_sdk.init(
        dsn=dsn,
        release=f"planner-worker@{CODE_VERSION}",
        integrations=[CeleryIntegration(propagate_traces=False)],
        auto_enabling_integrations=False,  # such as Redis's, which notes every command with its arguments
        auto_session_tracking=False,
        send_default_pii=False,
        max_request_body_size="never",
        include_local_variables=False,
        max_breadcrumbs=0,
        before_send=without_evidence,
    )
    sentry_sdk.get_global_scope().set_extra("pid", pid)


@contextmanager
def reported_as(task: str) -> Iterator[None]:
    """Have Sentry name errors after `task`.

    It is done while Celery's own task of this thread is another one.
    """
    with sentry_sdk.new_scope() as scope:
        scope.span = None  # which is that of the other, and would be renamed
        scope.set_transaction_name(task)
        yield


def without_evidence(event: Any, _: Any) -> Any:
    """Keep ids, types and places; drop all that could quote a message: texts, arguments, local variables.

    An event that this fails for is not sent.
    """
    kept = {name: value for name, value in event.items() if name in REPORTED}
    extra = {name: _cut(value) for name, value in event.get("extra", {}).items() if name in REPORTED_EXTRA}
    kept["extra"] = extra
    kept["tags"] = {**event.get("tags", {}), **{name: extra[name] for name in TAGGED if name in extra}}
    kept["contexts"] = {name: value for name, value in event.get("contexts", {}).items() if name in REPORTED_CONTEXTS}
    if "logentry" in event:  # the words of the log call, never what was filled in
        kept["logentry"] = {"message": _cut(event["logentry"].get("message"))}
    if "exception" in event:
        kept["exception"] = {"values": [_bare(error) for error in event["exception"].get("values", ())]}
    return kept


def _bare(error: dict[str, Any]) -> dict[str, Any]:
    """Keep an exception's type and places; its text only where such errors quote no message."""
    kept: dict[str, Any] = {name: error[name] for name in ("type", "module", "mechanism") if name in error}
    if f"{error.get('module')}.".startswith(TELLING):
        kept["value"] = _cut(error.get("value"))
    frames = (error.get("stacktrace") or {}).get("frames", ())
    kept["stacktrace"] = {"frames": [{k: v for k, v in frame.items() if k != "vars"} for frame in frames]}
    return kept


def _cut(value: Any) -> Any:
    return value if isinstance(value, int | float | None) else str(value)[:MAX_TEXT]
