"""Logs are JSON lines with a stable event name and ids; what goes to Sentry is named, all else stays."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from worker.telemetry import logs, sentry
from worker.telemetry.logs import JsonLines

SECRET = "hunter2"


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What the logger `planner.test` writes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    log = logging.getLogger("planner.test")
    log.addHandler(handler)
    yield stream
    log.removeHandler(handler)


log = logging.getLogger("planner.test")


def test_a_record_is_one_json_object_on_one_line(lines: io.StringIO) -> None:
    log.warning("step done", extra={"plan_id": "plan_00-1", "attempt": 2})

    (line,) = lines.getvalue().splitlines()
    record = json.loads(line)
    assert datetime.fromisoformat(record.pop("ts")).tzinfo
    assert record == {
        "level": "WARNING",
        "logger": "planner.test",
        "event": "step done",
        "plan_id": "plan_00-1",
        "attempt": 2,
    }


def test_an_exception_stays_on_the_line(lines: io.StringIO) -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        log.exception("decision failed")

    (line,) = lines.getvalue().splitlines()
    assert json.loads(line)["exception"].endswith("ValueError: two\nlines")


@pytest.mark.parametrize("value", ["half a pair \ud800", 1 << 80, {1, 2}, b"bytes", object(), {"nested": {3: 4}}])
def test_no_value_loses_the_line(lines: io.StringIO, value: Any) -> None:
    log.warning("odd", extra={"value": value})

    assert json.loads(lines.getvalue())["event"] == "odd"


def test_arguments_of_celery_tasks_are_left_out(lines: io.StringIO) -> None:
    log.warning("Task received", extra={"data": {"args": SECRET}})

    assert SECRET not in lines.getvalue()


def test_logs_of_every_logger_go_to_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    level = logging.root.level
    with monkeypatch.context() as patch:
        patch.setattr(logging.root, "handlers", [])
        logs.set_up_logs("INFO")
        logging.getLogger("anybody").info("hello")
        logging.getLogger("anybody").debug("not this")
        logging.getLogger("celery.app.trace").info("nor a line for every wakeup")
    logging.root.setLevel(level)

    assert [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()] == ["hello"]


# --- Sentry ---


def sent(**event: Any) -> dict[str, Any]:
    """What would leave of an event."""
    found: dict[str, Any] = sentry.without_evidence(event, {})
    return found


def test_only_what_is_named_leaves() -> None:
    event = sent(
        event_id="1", breadcrumbs=[SECRET], request={"data": SECRET}, user={"name": SECRET}, threads=[SECRET],
        extra={"plan_id": "p", "failure_id": "4f1c8e0b2a97", "kind": "task", "rule": "flaky", "evidence": SECRET,
               "celery-job": {"args": SECRET}, "sys.argv": [SECRET]},
        contexts={"runtime": {"name": "CPython"}, "task": {"args": SECRET}}, something_new=SECRET,
    )  # fmt: skip

    assert event == {
        "event_id": "1",
        "extra": {"plan_id": "p", "failure_id": "4f1c8e0b2a97", "kind": "task", "rule": "flaky"},
        "tags": {"plan_id": "p", "failure_id": "4f1c8e0b2a97", "kind": "task", "rule": "flaky"},
        "contexts": {"runtime": {"name": "CPython"}},
    }


@pytest.mark.parametrize("module", ["builtins", "pydantic_core._pydantic_core", "tasks.base.errors", "other", None])
def test_the_text_of_an_exception_stays_as_it_may_quote_a_message(module: str | None) -> None:
    frames = [{"function": "decide", "lineno": 3, "vars": {"view": SECRET}}]
    error = {"type": "E", "module": module, "value": SECRET, "stacktrace": {"frames": frames}}

    (left,) = sent(exception={"values": [error]})["exception"]["values"]

    assert left == {"type": "E", "module": module, "stacktrace": {"frames": [{"function": "decide", "lineno": 3}]}}


@pytest.mark.parametrize("module", ["redis.exceptions", "kombu.exceptions", "worker.store.functions"])
def test_the_text_of_a_server_s_error_leaves_cut(module: str) -> None:
    error = {"type": "E", "module": module, "value": "x" * 1000}

    (left,) = sent(exception={"values": [error]})["exception"]["values"]

    assert left["value"] == "x" * 200


def test_a_log_call_leaves_without_what_was_filled_in() -> None:
    event = sent(logentry={"message": "goal %s", "formatted": f"goal {SECRET}", "params": [SECRET]})

    assert event["logentry"] == {"message": "goal %s"}


def test_ids_are_cut_in_case_they_are_none() -> None:
    assert len(sent(extra={"goal_id": "x" * 10_000})["tags"]["goal_id"]) == 200
