"""The result of an attempt, and the outcome that reports it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from schemas import codec
from schemas.base import FailureCategory, Mode
from schemas.integrity import Integrity
from schemas.outcome import MAX_TOUCHED, AtTarget, GivenInstructions, Judged, Metrics, Needs, Outcome, Released
from worker.agents.readers import Reading
from worker.controller import wire
from worker.controller.agent_run import AgentReport, denied
from worker.controller.changes import Changes
from worker.controller.programs import VerificationResult
from worker.controller.readiness import CannotWork, NotVerifiable
from worker.controller.wire import AttemptFailure, Spec

PATH_CHARS = 512
PATHS_BYTES = 64 * 1024  # of each list of files


@dataclass(slots=True)
class Result:
    """The result of an attempt; `failure` is the first failure."""

    report: AgentReport = field(default_factory=AgentReport)
    changes: Changes | None = None
    verification: VerificationResult = field(default_factory=VerificationResult)
    integrity: Integrity | None = None  # effects of the change on tests and checks
    judged: Judged | None = None  # by other tests than its own
    instructions: GivenInstructions | None = None  # the repository's own, that the agent was given
    discarded: tuple[str, ...] = ()  # files whose change was undone before the verification
    needs: Needs | None = None  # further files that the agent needs
    commit: str | None = None  # that the change landed as
    ref: str | None = None  # that has it
    failure: AttemptFailure | None = None
    released: CannotWork | None = None  # why the step could not be done here; no failure
    at_target: AtTarget | None = None  # the verification of the target branch's tip
    landed: dict[str, Any] | None = None  # commits of a landing, whether it passed or not

    @property
    def is_unbegun(self) -> bool:
        """Whether no agent worked, because this host could not have verified the step."""
        return self.verification.cannot_verify is not None and not self.verification.receipts

    @property
    def trouble(self) -> CannotWork | None:
        """The reason why the step could not be done or verified here."""
        cannot = self.verification.cannot_verify
        return self.released or (NotVerifiable(cannot.reason) if cannot else None)


def outcome(spec: Spec, result: Result, duration_ms: int, controller: str) -> Outcome:
    """Return `result` as the outcome of the attempt `spec`.

    One run of the agent is one patch cycle, unless the agent counted more. Tokens that it did not report stay unknown.
    """
    failure, changes, report = result.failure, result.changes, result.report
    shown = failure or result.verification.finding or _denied(result)
    if result.released:
        return _released(spec, result, result.released, duration_ms, controller)
    return Outcome(
        step_id=spec.step_id,
        success=failure is None,
        tests_passed=result.verification.passed,
        touched_files=_paths(changes.touched) if changes else (),
        touched_count=_count(changes.touched) if changes else None,
        diff_hash=changes.diff_hash if changes else None,
        metrics=_metrics(report.reading, duration_ms, int(spec.mode is Mode.PATCH and not result.is_unbegun)),
        failure_evidence=shown.evidence if shown else None,
        plan_id=spec.plan_id,
        attempt=spec.attempt,
        lease=spec.lease,
        created_files=_paths(changes.created) if changes else (),
        growth_kb=changes.growth_kb if changes else 0,
        error_message=failure.message if failure else _ran_by(spec, result),
        verify=result.verification.receipts,
        output=result.landed or (None if failure and not report.blocked else report.output),
        controller=controller,
        nothing_to_change=None if failure or (changes and changes.touched) else report.nothing_to_change,
        verified_at=_verified_at(spec, result),
        at_target=result.at_target,
        failing_tests=result.verification.failing.names,
        failing_tests_complete=result.verification.failing.complete and bool(result.verification.receipts),
        evaluation=None if failure or not report.reading.evaluation else dict(report.reading.evaluation),
        commit=result.commit,
        ref=result.ref,
        needs=result.needs,
        cannot_verify=result.verification.cannot_verify,
        patterns=True if spec.allowed_patterns else None,
        discarded_files=_paths(result.discarded),
        deleted_files=_paths(changes.deleted) if changes else (),
        integrity=result.integrity,
        judged=result.judged,
        instructions=result.instructions,
        agent=report.agent,
        model=report.model,
        changed_lines=_lines_to_cut(shown, changes) if changes else None,
    )


def too_many_calls(calls: int) -> Result:
    """Return the result of an attempt that the planner cancelled at so many tool calls."""
    why = f"the agent was stopped after {calls} tool calls: the limit is twice the task's budget"
    return Result(report=AgentReport(Reading(tool_calls=calls)), failure=wire.advice(why))


def _verified_at(spec: Spec, result: Result) -> str | None:
    """Return the commit that was verified, if it is not the tip of the plan's branch; None without a verification."""
    at: str | None = result.landed["target_sha"] if result.landed else spec.verified_at
    return at if result.verification.receipts else None


def _released(spec: Spec, result: Result, trouble: CannotWork, duration_ms: int, controller: str) -> Outcome:
    reason = str(trouble)[: wire.MESSAGE_CHARS]
    return Outcome(
        step_id=spec.step_id,
        success=False,
        metrics=_metrics(result.report.reading, duration_ms),
        plan_id=spec.plan_id,
        attempt=spec.attempt,
        lease=spec.lease,
        error_message=reason,
        controller=controller,
        released=Released(reason=reason, kind=trouble.kind),
    )


def _ran_by(spec: Spec, result: Result) -> str | None:
    """Return the program that verified the base: it may explain why a failure does not appear there."""
    return result.verification.ran_by or None if spec.verified_at else None


def _lines_to_cut(shown: AttemptFailure | None, changes: Changes) -> dict[str, int] | None:
    """Return the number of changed lines by file, if the planner will split a change with too many files; else None."""
    if shown is None or shown.evidence.category != FailureCategory.TOO_MANY_FILES:
        return None
    return {path: changes.lines.get(path, 0) for path in _paths(changes.touched)}


def _denied(result: Result) -> AttemptFailure | None:
    """Return the actions that the agent was not allowed to do, as advice; they may explain why it changed nothing."""
    return wire.advice(denied(result.report.reading)) if result.report.reading.denied else None


def _metrics(reading: Reading, duration_ms: int, cycles: int | None = None) -> Metrics:
    """Return the consumption of the attempt; `cycles` is used unless the agent counted its patch cycles."""
    return Metrics(
        tokens_used=reading.tokens_used,
        duration_ms=duration_ms,
        patch_cycles=cycles if reading.patch_cycles is None else reading.patch_cycles,
        tool_calls=reading.tool_calls,
        input_tokens=reading.input_tokens,
        output_tokens=reading.output_tokens,
        cached_tokens=reading.cached_tokens,
        cost_usd=reading.cost_usd,
    )


def _paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return as many paths as an outcome can contain."""
    room, kept = PATHS_BYTES, []
    for path in paths[:MAX_TOUCHED]:
        room -= len(codec.dumps(path[:PATH_CHARS])) + 1
        if room < 0:
            break
        kept.append(path[:PATH_CHARS])
    return tuple(kept)


def _count(paths: tuple[str, ...]) -> int | None:
    """Return the number of files if their list is truncated, else None."""
    return len(paths) if len(paths) > len(_paths(paths)) else None
