"""Tracing that its variables do not allow ends a program at its start, and no goal or outcome later on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PLANNER = [sys.executable, "-c", "from worker.start import planner; planner()"]
WORKER = [sys.executable, "-m", "worker.start", "--quiet", "--app", "worker", "worker", "--pool", "solo"]
CONTROLLER = [*PLANNER, "controller", "--exec", "true"]


@pytest.mark.long
@pytest.mark.outages  # three starts of a program
@pytest.mark.parametrize(
    ("argv", "wrong", "says"),
    [
        (WORKER, {"OTEL_BSP_MAX_QUEUE_SIZE": "100"}, "max_export_batch_size"),  # of which a batch is larger
        (WORKER, {"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "-1"}, "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"),
        (CONTROLLER, {"OTEL_BSP_SCHEDULE_DELAY": "0"}, "schedule_delay_millis"),
    ],
)
def test_what_the_sdk_cannot_use_is_said_at_the_start(argv: list[str], wrong: dict[str, str], says: str) -> None:
    given = {**os.environ, "PLANNER_TRACING": "true", **wrong}
    ended = subprocess.run(argv, env=given, capture_output=True, text=True, check=False, timeout=60)

    assert ended.returncode == 2
    assert f"PLANNER_TRACING: the OTEL_* variables cannot be used: {says}" in ended.stderr
    assert "Traceback" not in ended.stderr
