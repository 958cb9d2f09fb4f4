"""Sends errors to Sentry, without texts from outside; other code reports them with the module `errors`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import sentry_sdk
from sentry_sdk.integrations.celery import CeleryIntegration
from sentry_sdk.integrations.logging import ignore_logger

from worker.host.code_version import CODE_VERSION
from worker.telemetry.logs import IDS

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


@cache  # a solo worker is its own child: both signals come to the same process
def set_up(dsn: str, pid: int) -> None:
    """Report the errors of this process, whose id is `pid`. A forked process has to call it again."""
    ignore_logger("planner.gateway.failures")  # beside which the exception itself is reported
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


def report(error: Exception, extras: Mapping[str, str]) -> None:
    """Report an error that was caught."""
    sentry_sdk.capture_exception(error, extras=dict(extras))


@contextmanager
def reported_as(task: str) -> Iterator[None]:
    """Let Sentry name errors in the block after `task`, instead of the Celery task that this thread runs."""
    with sentry_sdk.new_scope() as scope:
        scope.span = None  # which is that of the other, and would be renamed
        scope.set_transaction_name(task)
        yield


def without_evidence(event: Any, _: Any) -> Any:
    """Return the event without all that could quote a message: texts, arguments and local variables.

    Ids, types and places in the code stay. If this function fails, Sentry does not send the event.
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
    """Return an exception's type and places in the code; its text only if such errors never quote a message."""
    kept: dict[str, Any] = {name: error[name] for name in ("type", "module", "mechanism") if name in error}
    if f"{error.get('module')}.".startswith(TELLING):
        kept["value"] = _cut(error.get("value"))
    frames = (error.get("stacktrace") or {}).get("frames", ())
    kept["stacktrace"] = {"frames": [{k: v for k, v in frame.items() if k != "vars"} for frame in frames]}
    return kept


def _cut(value: Any) -> Any:
    return value if isinstance(value, int | float | None) else str(value)[:MAX_TEXT]
