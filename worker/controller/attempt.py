"""One attempt of one step: links, agent, allowlist, verification, commit; the first failure ends it."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from schemas.base import FailureCategory, Mode
from schemas.outcome import Metrics, Outcome, Released
from tasks.text.secrets import redact
from worker.agents.readers import Reading
from worker.controller import history, programs, wire
from worker.controller.agent_run import NO_AGENT_NEEDED, AgentReport, ask_agent, denied
from worker.controller.attempt_log import AttemptLog
from worker.controller.changes import Changes
from worker.controller.failed_changes import FailedChanges
from worker.controller.lease import LeaseClient
from worker.controller.places import Place
from worker.controller.programs import VerificationResult
from worker.controller.readiness import CannotWork
from worker.controller.setup import path_of
from worker.controller.wire import AttemptFailure, Spec
from worker.controller.worktree import Worktree
from worker.host.git import GitError
from worker.sandbox.process import Abandoned, Job, JobResult, Printed, ResourceLimits
from worker.sandbox.process import environment as without_secrets
from worker.telemetry import tracing
from worker.telemetry.tracing import Attributes

LINKS = "links lead out of the clone"
OF_A_TRACE = ("TRACEPARENT", "TRACESTATE", "BAGGAGE")  # variables
SHOWN_REFS = 20
PATHS = 100  # a step may touch ten files; what touches more has failed anyway
PATH_CHARS = 512
AGENT_BYTES = 8 * 1024 * 1024  # that are kept of what an agent prints, which may be each of its steps

log = logging.getLogger("planner.controller")


@dataclass(slots=True)
class Result:
    """What an attempt came to; `failure` is the first thing that went wrong."""

    report: AgentReport = field(default_factory=AgentReport)
    changes: Changes | None = None
    verification: VerificationResult = field(default_factory=VerificationResult)
    commit: str | None = None  # that the change landed as
    failure: AttemptFailure | None = None
    released: CannotWork | None = None  # why nobody could do it here: that is no failure


@dataclass(frozen=True, slots=True)
class AttemptRun:
    """The attempt that `spec` asks for, done at `place` by its agent for as long as `lease` is held."""

    spec: Spec
    raw: bytes  # the spec as it came: the agent may know more of its fields than we do
    place: Place
    lease: LeaseClient
    agent_timeout_s: float
    log: AttemptLog = field(default_factory=AttemptLog)  # of what is done, for people
    failed: FailedChanges | None = None  # what failed on this host before

    @property
    def tree(self) -> Worktree:
        """The clone."""
        return self.place.tree

    def run(self) -> Result:
        """Do the step; raises Abandoned if it is not wanted any more.

        What keeps us from beginning is a reason to hand it back; a trouble of our own later is a failed attempt.
        """
        result = Result()
        try:
            result.failure = self._begin()
            if not result.failure and not self._found(result):
                result.failure = result.failure or self._do(result)
            if moved := self.tree.moved_refs():  # they are nowhere but in the clone, so that alone is no failure
                log.warning("refs_moved", extra={**self.spec.ids, "refs": moved[:SHOWN_REFS]})
                line = f"refs made in the clone beside the plan's branch: {', '.join(moved[:SHOWN_REFS])}"
                result.failure = result.failure and wire.with_line(result.failure, line)
            if result.failure and result.report.reading.denied:
                result.failure = wire.with_line(result.failure, denied(result.report.reading))
        except Abandoned:
            raise
        except CannotWork as reason:
            result.released = reason
        except Exception as error:
            log.exception("attempt_error", extra=self.spec.ids)
            result.failure = wire.own_failure(error)
        finally:
            self._keep_diff(result.changes)
        return result

    def _keep_diff(self, changed: Changes | None) -> None:
        """Put what was changed into the log, also where that is refused; nothing that goes wrong there counts."""
        if not (changed or self.log.began):
            return
        try:
            self.log.diff = self.tree.diff(changed)
        except (GitError, OSError, RecursionError, subprocess.TimeoutExpired) as error:
            self.log.diff = f"# the changes cannot be shown: {error!r}\n".encode(errors="replace")

    def _keep_failed(self, changes: Changes) -> None:
        """Keep a change that failed its verification, for the next attempts that are told of it."""
        if self.failed and changes.diff_hash:
            with suppress(GitError, OSError, subprocess.TimeoutExpired):
                self.failed.keep(changes.diff_hash, self.tree.diff(changes))

    def _do(self, result: Result) -> AttemptFailure | None:
        """Do one stage after the other, and put what each comes to into `result`; return the first failure."""
        spec, tree = self.spec, self.tree
        result.report = self._ask_agent()
        if trouble := result.report.trouble:
            raise trouble
        if failure := result.report.failure:
            return failure
        # Before the verification, so that what the verification writes is no change, and only allowed code is run.
        result.changes = changes = tree.changes(allowed_files(spec))
        if failure := violation(spec, changes):
            return failure
        if result.report.blocked:  # nothing that it left is verified or landed
            return wire.advice(f"the agent cannot go on: {result.report.blocked}")
        if spec.verify_tools and spec.mode is not Mode.TEST:
            tree.drop_caches()
            self._set_up()
        verification = self._verify()
        altered = () if verification.failure else tree.altered_files()
        result.verification = verification
        if verification.failure:
            self._keep_failed(changes)
        if altered:
            what = f"the verification changed what it verified, so that cannot be landed: {', '.join(altered)}"
            return wire.advice(what)
        if changes.touched and not verification.failure:
            commit = tree.land(spec.step_id, changes, history.message(spec), self.lease.confirm)
            result.commit = commit
            log.info("change_landed", extra={**spec.ids, "commit": commit})
        return verification.failure

    def _begin(self) -> AttemptFailure | None:
        """Put the clone where the step begins; a link out of it is refused before anybody follows it."""
        spec, tree = self.spec, self.tree
        try:
            tree.reset(spec.plan_id, spec.context.base_sha, at=spec.verified_at)
        except CannotWork:
            raise
        except (GitError, OSError, subprocess.TimeoutExpired) as error:
            raise CannotWork(str(error)) from error
        verified = (path_of(word) for tool in spec.verify_tools for word in tool.argv)
        results = self.place.setup.results if self.place.setup else ()
        followed = dict.fromkeys((*spec.allowed_files, *filter(None, verified), *results))
        if leading_out := tree.links_out(followed):
            return wire.path_failure(FailureCategory.SANDBOX_VIOLATION, LINKS, leading_out)
        try:
            self._set_up()
        except OSError as error:
            raise CannotWork(f"the setup: {error}") from error
        if missing := programs.missing_programs(spec.verify_tools, self._variables.get("PATH")):
            raise CannotWork(f"programs that are missing here: {', '.join(missing)}")
        return None

    def _set_up(self) -> None:
        """Have what the setup command makes lie in the clone as it was made; raises OSError."""
        setup = self.place.setup
        if not setup:
            return

        def run() -> None:
            done = self._run_as_agent(setup.argv, setup.timeout_s, b"", self._without_login(without_secrets()))
            if done.exit_code:
                tail = f"{done.stdout}\n{done.stderr}".strip()[-wire.TRACE_CHARS :]
                raise CannotWork(f"the setup ended with {done.exit_code}: {tail}")

        self.tree.set_up(setup, run)

    @property
    def _variables(self) -> dict[str, str]:
        """Return the environment that the operator names for this repository, `{clone}` being the clone."""
        root = str(self.tree.root)
        return {name: value.replace("{clone}", root) for name, value in self.place.environment.items()}

    def _found(self, result: Result) -> bool:
        """Verify what an earlier attempt landed before it died: it is this one's if it holds, else it is taken off."""
        spec, tree = self.spec, self.tree
        if spec.mode is not Mode.PATCH or not (landed := tree.landed(spec.step_id)):
            return False
        if not violation(spec, landed):
            verification = self._verify()
            if not verification.failure:
                log.info("change_found", extra={**spec.ids, "commit": landed.tree})
                result.report = NO_AGENT_NEEDED
                result.changes, result.verification = landed, verification
                return True
        tree.take_off(spec.step_id, self.lease.confirm)
        result.failure = self._begin()
        return False

    def _ask_agent(self) -> AgentReport:
        if self.spec.mode is Mode.TEST:
            return NO_AGENT_NEEDED
        program = self.place.program
        name = program.name if program else "none"
        about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
        with self._span(f"invoke_agent {name}", about):
            report = ask_agent(
                *(program, self.spec, self.raw, self._run_agent, self.agent_timeout_s),
                confined=self.place.agent.confines,
                known=self.failed.shown(self.spec.context.failed_diffs) if self.failed else (),
            )
            used = {
                "gen_ai.usage.input_tokens": report.reading.input_tokens,
                "gen_ai.usage.output_tokens": report.reading.output_tokens,
                "gen_ai.usage.cache_read.input_tokens": report.reading.cached_tokens,
                "planner.tokens": report.reading.tokens_used,
            }
            tracing.add({name: count for name, count in used.items() if count is not None})
        found = report.reading
        ended = {
            "session": found.session,
            "turns": found.turns,
            "tokens": found.tokens_used,
            "cost_usd": found.cost_usd,
        }
        log.info(
            "agent_ended", extra={**self.spec.ids, **{name: each for name, each in ended.items() if each is not None}}
        )
        if not found.denied:
            return report
        self.log.denied = told = tuple(redact(each, self.log.secrets) for each in found.denied)
        log.info("agent_denied", extra={**self.spec.ids, "denied": told})
        return replace(report, reading=replace(found, denied=told))

    def _verify(self) -> VerificationResult:
        search = self._variables.get("PATH")
        with self._span("verify", {"planner.tools": " ".join(tool.tool for tool in self.spec.verify_tools)}):
            done = programs.verify(self.spec.verify_tools, self._run_tool, str(self.tree.root), search)
            tracing.add({"planner.success": done.failure is None})
            return done

    def _span(self, name: str, about: Attributes) -> AbstractContextManager[None]:
        """Make a part of the attempt a span of its plan's trace, where there is one."""
        return tracing.span(name, attributes=about) if self.spec.traceparent else nullcontext()

    def _run_agent(self, argv: Sequence[str], timeout_s: float, stdin: bytes) -> JobResult:
        program = self.place.program
        given = program.variables_of_run() if program else {}
        given = {name: value for name, value in given.items() if name not in OF_A_TRACE}  # which is another one
        if self.spec.traceparent and (ours := tracing.traceparent(self.spec.traceparent)):
            given["TRACEPARENT"] = ours
        return self._run_as_agent(argv, timeout_s, stdin, given, self.log.add_agent)

    def _run_as_agent(
        self,
        argv: Sequence[str],
        timeout_s: float,
        stdin: bytes,
        given: Mapping[str, str],
        record: Callable[[Printed], object] | None = None,
    ) -> JobResult:
        env, limits = {**given, **self._variables}, ResourceLimits(kept=AGENT_BYTES)
        job = Job(argv, self.tree.root, timeout_s, self.lease.is_wanted, stdin, env=env, limits=limits, record=record)
        return self.place.agent.run(job, writable=self.tree.writable)

    def _run_tool(self, argv: Sequence[str], timeout_s: float) -> JobResult:
        env = self._without_login(programs.environment(argv, self.tree.root)) | self._variables
        record = partial(self.log.add_tool, argv)
        job = Job(argv, self.tree.root, timeout_s, self.lease.is_wanted, merge=True, env=env, record=record)
        return self.place.tool.run(job, writable=self.tree.writable)

    def _without_login(self, env: Mapping[str, str]) -> dict[str, str]:
        """Leave out what only the agent needs: a setup and tests run code of the repository."""
        login = self.place.program.login if self.place.program else frozenset()
        return {name: value for name, value in env.items() if name not in login}


def allowed_files(spec: Spec) -> tuple[str, ...]:
    """Return the files that the step may change: none, unless it patches."""
    return spec.allowed_files if spec.mode is Mode.PATCH else ()


def violation(spec: Spec, changes: Changes) -> AttemptFailure | None:
    """Say which rule of the step `changes` break."""
    if changes.escaping:
        return wire.path_failure(FailureCategory.SANDBOX_VIOLATION, LINKS, changes.escaping)
    allowed = allowed_files(spec)
    if outside := [path for path in changes.touched if path not in allowed]:
        return wire.path_failure(FailureCategory.ALLOWLIST_VIOLATION, "changed but not allowed", outside)
    if changes.unfit:
        return wire.advice(changes.unfit)
    most = spec.limits.max_diff_lines
    if most is not None and changes.diff_lines > most:
        return wire.advice(f"the change has {changes.diff_lines} lines, allowed are {most}: make a smaller one")
    return None


def outcome(spec: Spec, result: Result, duration_ms: int, controller: str) -> Outcome:
    """Return `result` as the outcome of the attempt `spec`.

    One run of the agent is one patch cycle, unless it counted more; tokens that it did not tell stay unknown.
    """
    failure, changes, report = result.failure, result.changes, result.report
    shown = failure or result.verification.finding or _denied(result)
    if result.released:
        return _released(spec, result, duration_ms, controller)
    return Outcome(
        step_id=spec.step_id,
        success=failure is None,
        tests_passed=result.verification.passed,
        touched_files=_paths(changes.touched) if changes else (),
        diff_hash=changes.diff_hash if changes else None,
        metrics=_metrics(report.reading, duration_ms, int(spec.mode is Mode.PATCH)),
        failure_evidence=shown.evidence if shown else None,
        plan_id=spec.plan_id,
        attempt=spec.attempt,
        lease=spec.lease,
        created_files=_paths(changes.created) if changes else (),
        growth_kb=changes.growth_kb if changes else 0,
        error_message=failure.message if failure else None,
        verify=result.verification.receipts,
        output=None if failure and not report.blocked else report.output,
        controller=controller,
        nothing_to_change=None if failure or (changes and changes.touched) else report.nothing_to_change,
        verified_at=spec.verified_at if result.verification.receipts else None,
        failing_tests=result.verification.failing.names,
        failing_tests_complete=result.verification.failing.complete and bool(result.verification.receipts),
        evaluation=None if failure or not report.reading.evaluation else dict(report.reading.evaluation),
        commit=result.commit,
    )


def _released(spec: Spec, result: Result, duration_ms: int, controller: str) -> Outcome:
    reason = str(result.released)[: wire.MESSAGE_CHARS]
    return Outcome(
        step_id=spec.step_id,
        success=False,
        metrics=_metrics(result.report.reading, duration_ms),
        plan_id=spec.plan_id,
        attempt=spec.attempt,
        lease=spec.lease,
        error_message=reason,
        controller=controller,
        released=Released(reason=reason),
    )


def _denied(result: Result) -> AttemptFailure | None:
    """Say of a success what its agent was not allowed to do: the reason, where it changed no file."""
    return wire.advice(denied(result.report.reading)) if result.report.reading.denied else None


def _metrics(reading: Reading, duration_ms: int, cycles: int | None = None) -> Metrics:
    """Return what the attempt used up; one run of the agent is as many patch `cycles`, unless it counted them."""
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
    return tuple(path[:PATH_CHARS] for path in paths[:PATHS])
