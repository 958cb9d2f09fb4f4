"""What CI does with a checkout: ruff as SARIF, pytest as JUnit, really run."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from worker.demo import repository
from worker.demo.repository import Suite
from worker.sandbox import process
from worker.sources import junit, sarif

RUFF_S = 30.0


@dataclass(frozen=True, slots=True)
class Output:
    """What a checkout's checks found."""

    checkout: Path
    findings: tuple[sarif.Finding, ...]
    suite: Suite
    report: junit.Report


def run(checkout: Path, log: Path, report: Path) -> Output:
    """Run both tools in `checkout`, which write into these two files."""
    checkout = checkout.resolve()
    argv = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "sarif", "--output-file", str(log)]
    process.run(process.Job([*argv, "."], checkout, RUFF_S, lambda: True, merge=True))
    suite = repository.run_tests(checkout, report)
    findings = sarif.read(log.read_bytes(), checkout)
    return Output(checkout, findings, suite, junit.read(report.read_bytes()))
