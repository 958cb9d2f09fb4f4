"""Runs one attempt of one step: checks links, runs the agent, checks the changed files, verifies and commits.

The first failure ends the attempt.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from schemas.base import FailureCategory, Mode
from schemas.outcome import AtTarget, Needs
from tasks.text.secrets import redact
from worker.controller import commit_message, programs, wire
from worker.controller.agent_run import NO_AGENT_NEEDED, AgentReport, ask_agent, denied
from worker.controller.attempt_log import AttemptLog
from worker.controller.attempt_programs import AttemptPrograms
from worker.controller.changes import Changes
from worker.controller.failed_changes import FailedChanges
from worker.controller.hygiene import leaks
from worker.controller.instructions import Instructions
from worker.controller.integrity import joined, look_at
from worker.controller.judges import Judges
from worker.controller.kept_changes import KeptChanges
from worker.controller.lease import LeaseClient
from worker.controller.mutation import Sampling
from worker.controller.permission import LINKS, Permission, too_many_files, violation
from worker.controller.places import Place
from worker.controller.programs import VerificationResult
from worker.controller.readiness import CannotWork, SetupFailed
from worker.controller.result import Result
from worker.controller.setup import paths_of
from worker.controller.wire import AttemptFailure, Spec, Tool
from worker.controller.worktree import Worktree
from worker.host.git import GitError
from worker.sandbox.process import Abandoned
from worker.telemetry import tracing
from worker.telemetry.tracing import Attributes

SHOWN_REFS = SHOWN_FILES = 20
# Categories of attempts that succeeded here and that the planner refused.
REFUSED = frozenset({FailureCategory.INTEGRITY, FailureCategory.TESTS_DIVERGE, FailureCategory.IMPORT_ERROR})

log = logging.getLogger("planner.controller")


@dataclass(frozen=True)
class AttemptRun:
    """The attempt of `spec`, run at `place` by its agent while `lease` is valid."""

    spec: Spec
    raw: bytes  # the spec as received: the agent may know fields that we do not
    place: Place
    lease: LeaseClient
    agent_timeout_s: float
    log: AttemptLog = field(default_factory=AttemptLog)  # a record of the attempt for people
    failed: FailedChanges | None = None  # changes that failed on this host before
    kept: KeptChanges | None = None  # verified changes with too many files for one step
    is_strict: bool = False  # a file that the step may not change is a violation, and is not put back
    mutants: int = 0  # number of mutants of a change; its tests run again on them

    @property
    def tree(self) -> Worktree:
        """The clone."""
        return self.place.tree

    def run(self) -> Result:
        """Do the step and return its result. Raises Abandoned if the step is no longer wanted.

        If this host cannot do the step, the result returns it to the planner. Trouble after the agent's start is a
        failed attempt.
        """
        result = Result()
        try:
            result.failure = self._begin(result)
            if not result.failure and not self._found(result):
                result.failure = result.failure or self._do(result)
            self._look_at_target(result)
            if moved := self.tree.moved_refs():  # they are nowhere but in the clone, so that alone is no failure
                log.warning("refs_moved", extra={**self.spec.ids, "refs": moved[:SHOWN_REFS]})
                line = f"refs made in the clone in addition to the plan's branch: {', '.join(moved[:SHOWN_REFS])}"
                if result.failure and not self._judges.hold_out:  # the names may reveal held-out tests
                    result.failure = wire.with_line(result.failure, line)
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

    def _look_at_target(self, result: Result) -> None:
        """Verify the tip of the target too, if the spec asks for it and it differs from the verified commit.

        An error here is logged, and does not fail the attempt.
        """
        spec, tree = self.spec, self.tree
        if spec.context.then_at != "target" or not spec.verified_at or not result.verification.receipts:
            return
        try:
            if tip := tree.target_tip(spec.verified_at):
                tree.reset(spec.plan_id, spec.context.base_sha, at=tip)
                self._set_up()
                result.at_target = AtTarget(target_sha=tip, verify=self._verify().receipts)
        except (CannotWork, GitError, OSError, subprocess.TimeoutExpired) as error:
            log.warning("target_not_verified", extra={**spec.ids, "reason": str(error)})

    def _keep_diff(self, changed: Changes | None) -> None:
        """Put the diff into the log, also of a refused change; an error here does not fail the attempt."""
        if not (changed or self.log.began):
            return
        try:
            self.log.diff = self.tree.diff(changed)
        except (GitError, OSError, RecursionError, subprocess.TimeoutExpired) as error:
            self.log.diff = f"# the changes cannot be shown: {error!r}\n".encode(errors="replace")

    def _keep_failed(self, changes: Changes) -> None:
        """Keep a change that failed its verification, so that later attempts can see it."""
        if self.failed and changes.diff_hash:
            with suppress(GitError, OSError, subprocess.TimeoutExpired):
                self.failed.keep(changes.diff_hash, self.tree.diff(changes))

    def _do(self, result: Result) -> AttemptFailure | None:
        """Run the stages in order and store their results in `result`. Return the first failure."""
        spec, tree = self.spec, self.tree
        result.report = self._ask_agent(result)
        if trouble := result.report.trouble:
            raise trouble
        if failure := result.report.failure:
            return failure
        # Before the verification: so its output is no change, and only allowed code runs.
        changes = self._take_changes(result)
        if failure := violation(self._permission, spec.limits, changes) or self._find_leaks(changes):
            return failure
        result.integrity = look_at(tree, changes, spec.context.failing_tests)
        if needs := result.report.needs:
            return self._judge_needs(result, needs)
        if result.report.blocked:  # its changes are neither verified nor landed
            return wire.advice(f"the agent cannot go on: {result.report.blocked}")
        if spec.verify_tools and spec.mode is not Mode.TEST:
            tree.make_anew()
            try:
                self._set_up()
            except SetupFailed as error:  # the setup succeeded at the beginning
                return wire.setup_failure(str(error))
        result.verification = verification = self._verify()
        if verification.failure:
            self._keep_failed(changes)
        elif altered := tree.altered_files():
            what = f"the verification changed files that it verified, so the change cannot land: {', '.join(altered)}"
            return wire.advice(what)
        return self._finish(result, changes)

    @cached_property
    def _judges(self) -> Judges:
        return Judges(self.spec, self.tree, self.place.holdout, self._set_up, partial(self._verify, named=()))

    def _finish(self, result: Result, changes: Changes) -> AttemptFailure | None:
        """Judge a change, and land it if it passed. Return the first failure.

        A change with too many files is stored on this host for the steps that the plan divides it into. Mutants run
        before held-out tests are in the clone.
        """
        spec, failure = self.spec, result.verification.failure
        if many := too_many_files(spec.limits, changes):
            if self.kept and not failure:
                kept = self.tree.entries(changes.touched)
                self.kept.keep(spec.plan_id, spec.step_id, kept, self.tree.taken())
            return many
        lands = bool(changes.touched) and not failure
        if lands and (count := max(self.mutants, spec.limits.mutants or 0) if spec.context.failing_tests else 0):
            run = partial(self._programs.run_tool, is_recorded=False)
            again = Sampling(self.tree, spec.verify_tools, run, self._programs.search)
            result.integrity = joined(result.integrity, again.find_survivors(changes, count))
        if refused := self._judges.judge(result):
            return refused
        if lands:
            result.commit = self.tree.land(spec.step_id, changes, commit_message.message(spec), self.lease.confirm)
            result.ref = self.tree.ref
            log.info("change_landed", extra={**spec.ids, "commit": result.commit})
        return failure

    @property
    def _was_refused(self) -> bool:
        """Return whether the planner has refused the last landed change, so that it must not be reused."""
        return (self.spec.context.previous_failure or {}).get("category") in REFUSED

    @cached_property
    def _programs(self) -> AttemptPrograms:
        return AttemptPrograms(self.spec, self.place, self.lease, self.log)

    @cached_property
    def _permission(self) -> Permission:
        return Permission.of(self.spec, is_strict=self.is_strict)

    def _take_changes(self, result: Result) -> Changes:
        """Return the changes of the agent, after files that the step may not change are restored.

        Files under a rule of safety are not restored. The restore happens before anything runs.
        """
        permission = self._permission
        changes = self.tree.changes(permission)
        undone = tuple(path for path in changes.touched if path not in changes.odd and permission.puts_back(path))
        if undone and not changes.escaping:
            self.tree.put_back(undone)
            result.discarded = undone
            log.info("changes_discarded", extra={**self.spec.ids, "files": undone[:SHOWN_FILES]})
            changes = self.tree.changes(permission)
        result.changes = changes
        return changes

    def _find_leaks(self, changes: Changes) -> AttemptFailure | None:
        """Refuse a change that contains a secret. The message names the files, never the secret."""
        found = dict(leaks(self.tree.added_lines(changes), self.log.secrets))
        if not found:
            return None
        what = f"the change holds {'; '.join(dict.fromkeys(found.values()))}"
        return wire.path_failure(FailureCategory.HYGIENE_VIOLATION, what, found)

    def _judge_needs(self, result: Result, needs: Needs) -> AttemptFailure:
        """Return the failure of an agent that needs further files; `result` gets the ones that it may not change."""
        others = tuple(path for path in needs.files if not self._permission.allows(path))
        if not others:
            return wire.advice(f"these files may be changed, so change them: {', '.join(needs.files)}")
        result.needs = needs.model_copy(update={"files": others})
        return wire.advice(f"the agent needs {', '.join(others)}: {needs.reason or 'it gave no reason'}")

    def _begin(self, result: Result) -> AttemptFailure | None:
        """Reset the clone to the commit where the step begins.

        A link out of the clone is refused before anything follows it.

        A step that could not be verified here does not begin.
        """
        spec, tree = self.spec, self.tree
        try:
            tree.reset(spec.plan_id, spec.context.base_sha, at=spec.verified_at)
            self._judges.prepare()
        except CannotWork:
            raise
        except (GitError, OSError, subprocess.TimeoutExpired) as error:
            raise CannotWork(str(error)) from error
        verified = (path for tool in spec.verify_tools for path in paths_of(tool))
        results = self.place.setup.results if self.place.setup else ()
        followed = dict.fromkeys((*spec.allowed_files, *filter(None, verified), *results))
        if leading_out := tree.links_out(followed):
            return wire.path_failure(FailureCategory.SANDBOX_VIOLATION, LINKS, leading_out)
        try:
            self._set_up()
        except OSError as error:
            raise CannotWork(f"the setup: {error}") from error
        search = self._programs.search
        missing = next((each for each in spec.verify_tools if programs.missing_programs([each], search)), None)
        if missing and not spec.verified_at:  # at the base, results of the earlier tools are reported
            hint = f"; it may help to start the controller with {self.place.proposed}" if self.place.proposed else ""
            result.verification = programs.unverifiable(missing, f"{missing.argv[0]} is missing here{hint}")
            return result.verification.failure
        self._programs.found_outside  # noqa: B018 (kept before the agent works)
        return None

    def _set_up(self) -> None:
        """Put the results of the setup command into the clone. Raises OSError.

        If the step asks for it, the command runs on the manifests and lock files as the attempt has left them.
        """
        setup = self.place.setup
        if setup:
            self.tree.set_up(setup, partial(self._programs.run_setup, setup), anew=self.spec.setup)

    def _found(self, result: Result) -> bool:
        """Verify a change that an earlier attempt landed before it died. Return whether the change passes.

        A change that does not pass is removed from the branch.
        """
        spec, tree = self.spec, self.tree
        if spec.mode is not Mode.PATCH or not (landed := tree.landed(spec.step_id)):
            return False
        limits = spec.limits
        if not self._was_refused and not (
            violation(self._permission, limits, landed) or too_many_files(limits, landed)
        ):
            result.verification = verification = self._verify()
            result.integrity = look_at(tree, landed, spec.context.failing_tests)
            if not verification.failure and not self._judges.judge(result):
                log.info("change_found", extra={**spec.ids, "commit": landed.tree})
                result.report, result.changes = NO_AGENT_NEEDED, landed
                return True
            result.verification, result.integrity, result.judged = VerificationResult(), None, None
        tree.take_off(spec.step_id, self.lease.confirm)
        result.failure = self._begin(result)
        return False

    def _ask_agent(self, result: Result) -> AgentReport:
        if self.spec.mode is Mode.TEST or self._place_piece():
            return NO_AGENT_NEEDED
        program, asked = self.place.program, self._read_instructions()
        result.instructions = asked.reported
        name = program.name if program else "none"
        about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
        self.tree.give_to_agent()
        with self._span(f"invoke_agent {name}", about):
            report = ask_agent(
                *(program, self.spec, self.raw, self._programs.run_agent, self.agent_timeout_s),
                confined=self.place.agent.confines,
                known=self.failed.shown(self.spec.context.failed_diffs) if self.failed else (),
                instructions=asked,
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

    def _read_instructions(self) -> Instructions:
        """Return the repository's instructions for agents. Raises CannotWork if the base commit cannot be read."""
        try:
            found = self.tree.instructions(self.spec, self.place.instructions)
        except CannotWork:
            raise
        except (GitError, subprocess.TimeoutExpired) as error:
            raise CannotWork(f"the repository's instructions: {error}") from error
        if found:
            about = {"files": found.files, "digest": found.digest, "trust": found.trust.value}
            log.info("instructions_given", extra={**self.spec.ids, **about})
        return found

    def _place_piece(self) -> bool:
        """Put the kept files of a chunk into the clone, if this host has them and the step has not failed before."""
        spec, named = self.spec, self._permission.named
        if not (self.kept and spec.piece_of) or spec.context.previous_failure:
            return False
        files = self.kept.piece(spec.plan_id, spec.piece_of, named, self.tree.entries(named))
        if files is None or self.tree.links_out(files):
            return False
        self.tree.place(files)
        log.info("piece_placed", extra={**spec.ids, "files": sorted(files)})
        return True

    def _verify(self, tools: Sequence[Tool] | None = None, *, named: Sequence[str] | None = None) -> VerificationResult:
        """Verify with the tools of the step, or with `tools`; `named` are test names, by default the failing tests."""
        tools = self.spec.verify_tools if tools is None else tools
        with self._span("verify", {"planner.tools": " ".join(tool.tool for tool in tools)}):
            done = programs.verify(
                *(tools, self._programs.run_tool, str(self.tree.root), self._programs.search),
                named=self.spec.context.failing_tests if named is None else named,
                at_base=self.spec.verified_at is not None,
                is_lost=self._programs.is_lost,
                isolation=self.place.isolation,
            )
            tracing.add({"planner.success": done.failure is None})
            return done

    def _span(self, name: str, about: Attributes) -> AbstractContextManager[None]:
        """Open a span for a part of the attempt, if its plan has a trace."""
        return tracing.span(name, attributes=about) if self.spec.traceparent else nullcontext()
