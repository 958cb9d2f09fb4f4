"""One attempt of one step: links, agent, allowlist, verification, commit; the first failure ends it."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from schemas import codec
from schemas.base import FailureCategory, Mode
from schemas.outcome import MAX_OUTPUT_BYTES, Metrics, Outcome
from worker.controller import programs, wire
from worker.controller.changes import Changes
from worker.controller.lease import Lease
from worker.controller.programs import AgentReport, Verification
from worker.controller.wire import AttemptFailure, Spec
from worker.controller.worktree import Worktree
from worker.sandbox.process import Abandoned, Finished, Job
from worker.sandbox.sandbox import Sandbox

LINKS = "links lead out of the clone"
SHOWN_REFS = 20
PATHS = 100  # a step may touch ten files; what touches more has failed anyway
PATH_CHARS = 512

log = logging.getLogger("planner.controller")


@dataclass(frozen=True, slots=True)
class Sandboxes:
    """What an agent may reach, and what the verification of its work may."""

    agent: Sandbox = field(default_factory=Sandbox)
    tool: Sandbox = field(default_factory=Sandbox)


@dataclass(frozen=True, slots=True)
class Result:
    """What an attempt came to; `failure` is the first thing that went wrong."""

    report: AgentReport = field(default_factory=AgentReport)
    changes: Changes | None = None
    verification: Verification = field(default_factory=Verification)
    failure: AttemptFailure | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """The attempt that `spec` asks for, done in `tree` by the agent `argv`.

    It goes on for as long as `lease` is held.
    """

    spec: Spec
    raw: bytes  # the spec as it came: the agent may know more of its fields than we do
    argv: Sequence[str]
    tree: Worktree
    lease: Lease
    agent_timeout_s: float
    sandboxes: Sandboxes = field(default_factory=Sandboxes)

    def run(self) -> Result:
        """Do the step; raises Abandoned if it is not wanted any more.

        A trouble of our own is a failed attempt.
        """
        result = Result()
        try:
            for stage in (self._prepare, self._ask_agent, self._take_changes, self._verify, self._land):
                result = stage(result)
                if result.failure:
                    break
            result = self._with_moved_refs(result)
        except Abandoned:
            raise
        except Exception as error:
            log.exception("attempt_error", extra=self.spec.ids)
            return replace(result, failure=wire.own_failure(error))
        return result

    def _prepare(self, result: Result) -> Result:
        """Refuse what a link in the commit would lead out of the clone, before anybody follows it."""
        self.tree.reset(self.spec.plan_id, self.spec.context.base_sha)
        verified = (_path(word) for tool in self.spec.verify_tools for word in tool.argv)
        paths = dict.fromkeys((*self.spec.allowed_files, *filter(None, verified)))
        return replace(result, failure=_links(self.tree.links_out(paths)))

    def _ask_agent(self, result: Result) -> Result:
        if self.spec.mode is Mode.TEST:
            return replace(result, report=AgentReport(tokens_used=0, patch_cycles=0, tool_calls=0))
        whole = self.spec.input is not None  # half an answer to a question of the plan's is none
        report = programs.ask_agent(self._run_agent, self.argv, self.raw, self.agent_timeout_s, whole=whole)
        return replace(result, report=report, failure=report.failure or _too_long(report))

    def _take_changes(self, result: Result) -> Result:
        """Before the verification, so that what the verification writes is no change, and only allowed code is run."""
        changes = self.tree.changes(allowed_files(self.spec))
        return replace(result, changes=changes, failure=violation(self.spec, changes))

    def _verify(self, result: Result) -> Result:
        if self.spec.verify_tools and self.spec.mode is not Mode.TEST:
            self.tree.drop_caches()
        verification = programs.verify(self.spec.verify_tools, self._run_tool)
        result = replace(result, verification=verification, failure=verification.failure)
        if result.failure is None and (altered := self.tree.altered_files()):
            told = f"the verification changed what it verified, so that cannot be landed: {', '.join(altered)}"
            return replace(result, failure=wire.advice(told))
        return result

    def _with_moved_refs(self, result: Result) -> Result:
        """Tell which refs the agent made in its clone. They are nowhere else, so that alone is no failure."""
        if not (moved := self.tree.moved_refs()):
            return result
        log.warning("refs_moved", extra={**self.spec.ids, "refs": moved[:SHOWN_REFS]})
        line = f"refs made in the clone beside the plan's branch: {', '.join(moved[:SHOWN_REFS])}"
        return replace(result, failure=result.failure and wire.with_line(result.failure, line))

    def _run_agent(self, argv: Sequence[str], timeout_s: float, stdin: bytes) -> Finished:
        job = Job(argv, self.tree.root, timeout_s, self.lease.is_wanted, stdin)
        return self.sandboxes.agent.run(job, writable=self.tree.writable)

    def _run_tool(self, argv: Sequence[str], timeout_s: float) -> Finished:
        job = Job(argv, self.tree.root, timeout_s, self.lease.is_wanted, merge=True, env=programs.environment())
        return self.sandboxes.tool.run(job, writable=self.tree.writable)

    def _land(self, result: Result) -> Result:
        if result.changes and result.changes.touched:
            self.lease.confirm()
            commit = self.tree.land(self.spec.plan_id, result.changes, _message(self.spec))
            log.info("change_landed", extra={**self.spec.ids, "commit": commit})
        return result


def allowed_files(spec: Spec) -> tuple[str, ...]:
    """Return the files that the step may change: none, unless it patches."""
    return spec.allowed_files if spec.mode is Mode.PATCH else ()


def violation(spec: Spec, changes: Changes) -> AttemptFailure | None:
    """Say which rule of the step `changes` break."""
    if changes.escaping:
        return _links(changes.escaping)
    allowed = allowed_files(spec)
    if outside := [path for path in changes.touched if path not in allowed]:
        return wire.path_failure(FailureCategory.ALLOWLIST_VIOLATION, "changed but not allowed", outside)
    if changes.unfit:
        return wire.advice(changes.unfit)
    most = spec.limits.max_diff_lines
    if most is not None and changes.diff_lines > most:
        return wire.advice(f"the change has {changes.diff_lines} lines, allowed are {most}: make a smaller one")
    return None


def _links(paths: Sequence[str]) -> AttemptFailure | None:
    return wire.path_failure(FailureCategory.SANDBOX_VIOLATION, LINKS, paths) if paths else None


def _path(word: str) -> str:
    """Return what a word of a command may mean as a path of the clone, "" if it means another place."""
    path = os.path.normpath(word.partition("::")[0].rpartition("=")[2])
    return "" if "\0" in path or path.startswith(("/", "..")) else path


def _too_long(report: AgentReport) -> AttemptFailure | None:
    if len(codec.dumps(report.output)) > MAX_OUTPUT_BYTES:
        return wire.advice(f"the output is larger than {MAX_OUTPUT_BYTES} bytes: make it shorter")
    return None


def _message(spec: Spec) -> str:
    title = " ".join(spec.title.split()) or spec.step_id
    return f"{title}\n\nPlan: {spec.plan_id}\nStep: {spec.step_id}\nAttempt: {spec.attempt}\n"


def outcome(spec: Spec, result: Result, duration_ms: int, controller: str) -> Outcome:
    """AgentReport `result` as the outcome of the attempt `spec`."""
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
