"""One attempt of one step: agent, allowlist, verification, commit; in that order, and the first failure ends it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from schemas import codec
from schemas.base import FailureCategory, Mode
from schemas.outcome import MAX_OUTPUT_BYTES
from worker.controller import agent, evidence
from worker.controller.agent import Report
from worker.controller.changes import Changes
from worker.controller.evidence import Failure
from worker.controller.lease import Lease
from worker.controller.patience import Abandoned
from worker.controller.spec import Spec
from worker.controller.verify import Verification, verify
from worker.controller.worktree import Worktree

log = logging.getLogger("planner.controller")


@dataclass(frozen=True, slots=True)
class Result:
    """What an attempt came to; `failure` is the first thing that went wrong."""

    report: Report = field(default_factory=Report)
    changes: Changes | None = None
    verification: Verification = field(default_factory=Verification)
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """The attempt that `spec` asks for, done in `tree` by the agent `argv` for as long as `lease` is held."""

    spec: Spec
    raw: bytes  # the spec as it came: the agent may know more of its fields than we do
    argv: Sequence[str]
    tree: Worktree
    lease: Lease
    agent_timeout_s: float

    def run(self) -> Result:
        """Do the step. A trouble of our own is a failed attempt; raises Abandoned if it is not wanted any more."""
        result = Result()
        try:
            for stage in (self._ask_agent, self._take_changes, self._verify, self._land):
                result = stage(result)
                if result.failure:
                    break
        except Abandoned:
            raise
        except Exception as error:
            log.exception("attempt_error", extra=self.spec.ids)
            return replace(result, failure=evidence.of_error(error))
        return result

    def _ask_agent(self, result: Result) -> Result:
        self.tree.reset(self.spec.plan_id, self.spec.context.base_sha)
        if self.spec.mode is Mode.TEST:
            return replace(result, report=Report(tokens_used=0, patch_cycles=0, tool_calls=0))
        whole = self.spec.input is not None  # half an answer to a question of the plan's is none
        report = agent.work(self.argv, self.raw, self.tree.root, self.agent_timeout_s, self.lease.wanted, whole=whole)
        return replace(result, report=report, failure=report.failure or _too_long(report))

    def _take_changes(self, result: Result) -> Result:
        """Before the verification, so that what the verification writes is no change, and only allowed code is run."""
        changes = self.tree.changes(self.spec.allowed_files)
        return replace(result, changes=changes, failure=violation(self.spec, changes))

    def _verify(self, result: Result) -> Result:
        verification = verify(self.spec.verify_tools, self.tree.root, self.lease.wanted)
        return replace(result, verification=verification, failure=verification.failure)

    def _land(self, result: Result) -> Result:
        if result.changes and result.changes.touched:
            self.lease.confirm()
            commit = self.tree.land(self.spec.plan_id, result.changes, _message(self.spec))
            log.info("change_landed", extra={**self.spec.ids, "commit": commit})
        return result


def violation(spec: Spec, changes: Changes) -> Failure | None:
    """Say which rule of the step `changes` break."""
    if changes.escaping:
        return evidence.of_paths(FailureCategory.SANDBOX_VIOLATION, "links lead out of the tree", changes.escaping)
    allowed = spec.allowed_files if spec.mode is Mode.PATCH else ()
    if outside := [path for path in changes.touched if path not in allowed]:
        return evidence.of_paths(FailureCategory.ALLOWLIST_VIOLATION, "changed but not allowed", outside)
    most = spec.limits.max_diff_lines
    if most is not None and changes.diff_lines > most:
        return evidence.of_advice(f"the change has {changes.diff_lines} lines, allowed are {most}: make a smaller one")
    return None


def _too_long(report: Report) -> Failure | None:
    if len(codec.dumps(report.output)) > MAX_OUTPUT_BYTES:
        return evidence.of_advice(f"the output is larger than {MAX_OUTPUT_BYTES} bytes: make it shorter")
    return None


def _message(spec: Spec) -> str:
    title = " ".join(spec.title.split()) or spec.step_id
    return f"{title}\n\nPlan: {spec.plan_id}\nStep: {spec.step_id}\nAttempt: {spec.attempt}\n"
