"""Puts the result of an attempt into the words of the wire."""

from __future__ import annotations

from schemas.base import Mode
from schemas.outcome import Metrics, Outcome
from worker.controller.attempt import Result
from worker.controller.spec import Spec

PATHS = 100  # a step may touch ten files; what touches more has failed anyway
PATH_CHARS = 512


def outcome(spec: Spec, result: Result, duration_ms: int, controller: str) -> Outcome:
    """Report `result` as the outcome of the attempt `spec`."""
    failure, changes = result.failure, result.changes
    told = failure or result.verification.finding
    return Outcome(
        step_id=spec.step_id,
        success=failure is None,
        tests_passed=result.verification.passed,
        touched_files=_paths(changes.touched) if changes else (),
        diff_hash=changes.diff_hash if changes else None,
        metrics=_metrics(spec, result, duration_ms),
        failure_evidence=told.evidence if told else None,
        plan_id=spec.plan_id,
        attempt=spec.attempt,
        lease=spec.lease,
        created_files=_paths(changes.created) if changes else (),
        growth_kb=changes.growth_kb if changes else 0,
        error_message=failure.message if failure else None,
        verify=result.verification.receipts,
        output=None if failure else result.report.output,
        controller=controller,
    )


def _metrics(spec: Spec, result: Result, duration_ms: int) -> Metrics:
    """One run of the agent is one patch cycle, unless it counted more; tokens it did not tell stay unknown."""
    report = result.report
    cycles = report.patch_cycles if report.patch_cycles is not None else int(spec.mode is Mode.PATCH)
    return Metrics(
        tokens_used=report.tokens_used, duration_ms=duration_ms, patch_cycles=cycles, tool_calls=report.tool_calls
    )


def _paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(path[:PATH_CHARS] for path in paths[:PATHS])
