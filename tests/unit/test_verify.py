"""The reference controller's verification: what it proves, and what it tells besides."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from worker.controller.spec import Tool
from worker.controller.verify import verify

PRINTS = "print('src/a.py:3: error: Incompatible return value type  [return-value]'); raise SystemExit({})"


@pytest.mark.parametrize(("code", "found"), [(0, False), (1, True)])
def test_an_exit_code_that_passes_and_is_not_zero_tells_what_was_found(code: int, found: bool, tmp_path: Path) -> None:
    argv = (sys.executable, "-c", PRINTS.format(code))

    done = verify([Tool(tool="mypy", argv=argv, timeout_s=30, pass_codes=(0, 1))], tmp_path, lambda: True)

    assert done.passed
    assert (done.finding is not None) is found
    assert done.finding is None or "Incompatible return value" in (done.finding.evidence.stack_trace_head or "")
