"""schemathesis over the whole OpenAPI, against a real gateway and a real worker: it finds nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.api_key import Right
from tests.conftest import RunningWorker
from tests.support.gateway import running_gateway

HOOKS = "tests.support.schemathesis_hooks"
WITHOUT_END = "/v1/events"  # its answer
# 422 is also for what no schema says: an Idempotency-Key that had another body, a step named to a command about plans.
# And outcomes are taken with fields and values that their schema does not have, as those over Redis are.
BEYOND_SCHEMAS = "positive_data_acceptance,negative_data_rejection"


def search(worker: RunningWorker, place: Path, *options: str) -> None:
    """Have schemathesis look for what is wrong, by all checks but those beyond schemas."""
    with running_gateway(worker.url, tenant_day_tokens=10**9) as gateway:
        key = gateway.key(Right.ADMIN)
        command = [str(Path(sys.executable).with_name("st")), "run", f"{gateway.url}/openapi.json"]
        command += ["--header", f"Authorization: Bearer {key}", "--exclude-path", WITHOUT_END, "--no-color"]
        command += ["--request-timeout", "60", "--suppress-health-check", "all"]
        command += ["--exclude-checks", BEYOND_SCHEMAS, *options]
        done = subprocess.run(
            command, env={**os.environ, "SCHEMATHESIS_HOOKS": HOOKS}, cwd=place, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5000:]


@pytest.mark.long
@pytest.mark.outages
def test_schemathesis_finds_nothing_at_first_sight(planner_worker: RunningWorker, tmp_path: Path) -> None:
    some = ("--include-path-regex", "/v1/(goals|plans|commands|queues)$")
    search(planner_worker, tmp_path, *some, "--phases", "fuzzing", "--max-examples", "1", "--seed", "1")


@pytest.mark.long
@pytest.mark.outages
def test_schemathesis_finds_nothing(planner_worker: RunningWorker, tmp_path: Path) -> None:
    search(planner_worker, tmp_path, "--phases", "examples,fuzzing", "--max-examples", "20", "--seed", "1")
