"""What CI does with a checkout: ruff as SARIF, pytest as JUnit, really run."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from worker.cli import gaps, goals
from worker.cli.junit import Report
from worker.cli.sarif import Finding
from worker.demo import repository
from worker.demo.repository import Suite
from worker.sandbox import process

RUFF_S = 30.0


@dataclass(frozen=True, slots=True)
class Output:
    """What a checkout's checks found."""

    checkout: Path
    findings: tuple[Finding, ...]
    suite: Suite
    report: Report


def run(checkout: Path, log: Path, report: Path) -> Output:
    """Run both tools in `checkout`, which write into these two files."""
    checkout = checkout.resolve()
    argv = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "sarif", "--output-file", str(log)]
    process.run([*argv, "."], checkout, RUFF_S, lambda: True, merge=True)
    suite = repository.run_tests(checkout, report)
    findings = gaps.findings_of(log.read_bytes(), log.name, checkout)
    return Output(checkout, findings, suite, goals.report_of(report.read_bytes()))
