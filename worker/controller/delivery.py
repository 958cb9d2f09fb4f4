"""Delivers a plan: the verified commits become a branch of the remote and, if asked, a pull request.

No agent runs here. The plan's ref must have exactly the commits of the accepted attempts. The goal must allow their
files, and their base must be on a branch of the remote. The delivery looks for each part before it makes it, so the
next attempt can finish an interrupted delivery.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from tasks.text.forbidden_paths import FORBIDDEN, forbid
from tasks.text.paths import is_glob
from worker.controller import changes, history, wire
from worker.controller.agent_run import NO_AGENT_NEEDED
from worker.controller.change_text import changed_files, describe_files, labels_of, owners_of, title_by_convention
from worker.controller.forge import PullRequest, Refused
from worker.controller.forge_text import body_of, title_of
from worker.controller.history import PlanCommit
from worker.controller.lease import LeaseClient
from worker.controller.permission import Permission, is_riskier
from worker.controller.readiness import CannotWork, RemoteTrouble, ReviewIsFull
from worker.controller.repositories_file import PLAN, RepositorySettings
from worker.controller.result import Result
from worker.controller.shared import HEADS, SharedRepository, accepted_ref, shared_ref
from worker.controller.wire import Accepted, DeliveryInput, Spec
from worker.host.git import Git, GitError
from worker.sandbox.process import Abandoned

BY_RULE = ("[remote rejected]", "error: 403", "denied", "Authentication failed")  # messages of git if we may not push
SHOWN = 12  # characters of a commit's id

log = logging.getLogger("planner.controller")


@dataclass(frozen=True, slots=True)
class Delivery:
    """The delivery of the attempt `spec`, in one repository of the file, while `lease` is valid."""

    spec: Spec
    repository: SharedRepository
    settings: RepositorySettings
    lease: LeaseClient

    def run(self) -> Result:
        """Deliver. Raises Abandoned if the delivery is no longer wanted."""
        return attempted(self.spec, self._run)

    def _run(self) -> Result:
        output = self._deliver(DeliveryInput.model_validate(self.spec.input))
        log.info("plan_delivered" if "branch" in output else "target_moved", extra={**self.spec.ids, **output})
        return Result(replace(NO_AGENT_NEEDED, output=output))

    def _deliver(self, asked: DeliveryInput) -> dict[str, Any]:
        """Return the branch, the pull request's URL and the number of lines to review.

        If the target moved while the delivery waited, return its commit instead. Raises Refused or CannotWork.
        """
        spec, repository = self.spec, self.repository
        base = repository.find(spec.context.base_sha) if spec.context.base_sha else None
        tip = repository.look_up(spec.plan_id) or asked.again
        if not tip and any(each.diff_hash for each in asked.accepted):
            raise Refused(f"{shared_ref(spec.plan_id)} is not on the remote any more")
        begin = check(repository.git, spec.plan_id, tip, base, asked) if tip else tip
        if not tip or not begin or (tip == begin and not asked.again):
            raise Refused("the plan has changed nothing, so there is nothing to deliver")
        if asked.landed and tip != asked.landed.result_sha:
            raise Refused(f"the plan's branch is at {tip[:SHOWN]}, and landed at {asked.landed.result_sha[:SHOWN]}")
        branch = branch_of(self.settings, spec, asked)
        if asked.onto:
            self._add(branch, tip, asked.again or begin)
            self._tidy(asked)
            return {"branch": branch, "pull_request": self._opened(branch)}
        target = target_of(repository, begin, branch, asked.target)
        lines = changes.landed(repository.git, begin, tip).diff_lines
        self._await_review(branch, target, lines)
        if moved := self._moved(branch, target, asked):
            return {"target_sha": moved}
        self._push(branch, tip, begin, asked)
        request = self._open(branch, target, asked, begin, tip)
        found = {"branch": branch, "pull_request": request, "lines": lines}
        self._tidy(asked)
        return found

    def _tidy(self, asked: DeliveryInput) -> None:
        if asked.landed:
            with suppress(RemoteTrouble):  # the ref is no longer needed, and does no harm
                self.repository.drop(accepted_ref(self.spec.plan_id))

    def _await_review(self, branch: str, target: str, lines: int) -> None:
        """Raise ReviewIsFull if the open changes reach the limits for reviews in the operator's file.

        A change that alone exceeds the limit of lines is delivered as soon as no other change is open.
        """
        may = self.settings.delivery
        if not (may.max_open_changes or may.max_review_lines):
            return
        begin, _, end = may.branch.partition(PLAN)
        others = self.repository.open_changes(begin, end, target)
        if branch in others:
            return
        if may.max_open_changes and len(others) >= may.max_open_changes:
            raise ReviewIsFull(f"{len(others)} changes wait for review, and {may.max_open_changes} may")
        if may.max_review_lines and others and (count := sum(others.values()) + lines) > may.max_review_lines:
            raise ReviewIsFull(f"{count:,} lines would wait for review, and {may.max_review_lines:,} may")

    def _moved(self, branch: str, target: str, asked: DeliveryInput) -> str | None:
        """Return the target's new commit if the target moved after the landing, while the delivery waited; else None.

        Returns None, too, if the branch of the delivery exists: it is open for review.
        """
        if not (asked.waited and asked.landed) or self.repository.read(f"{HEADS}{branch}"):
            return None
        tip = self.repository.read(f"{HEADS}{target}")
        return tip if tip != asked.landed.target_sha else None

    def _add(self, branch: str, tip: str, begin: str) -> None:
        """Push the commits to the branch of another plan. Raises Refused if the branch is not at their base."""
        there = self.repository.read(f"{HEADS}{branch}")
        if there not in (begin, tip):
            found = f"at {there[:SHOWN]}" if there else "gone"
            raise Refused(f"the branch {branch} is {found}, and the changes begin at {begin[:SHOWN]}")
        if there != tip:
            self.lease.confirm()
            self.repository.push(f"{HEADS}{branch}", tip, begin)

    def _opened(self, branch: str) -> str | None:
        """Return the URL of the branch's open pull request; None if there is none, or no forge is configured."""
        if not self.settings.delivery.pull_request:
            return None
        return self.settings.forge.find(branch)

    def _push(self, branch: str, tip: str, begin: str, asked: DeliveryInput) -> None:
        """Set the branch to `tip`. Raises Refused if the branch has commits that are not of the plan."""
        repository = self.repository
        there = repository.read(f"{HEADS}{branch}")
        if there == tip:
            return
        if there:
            try:
                check(repository.git, self.spec.plan_id, there, begin, asked, partly=True)
            except Refused as error:
                raise Refused(f"the branch {branch} has other commits: {error}") from error
        self.lease.confirm()
        try:
            repository.push(f"{HEADS}{branch}", tip, there or "")
        except RemoteTrouble as error:
            if any(word in str(error) for word in BY_RULE):
                raise Refused(f"the remote takes no branch {branch}: {error}") from error
            raise

    def _open(self, branch: str, target: str, asked: DeliveryInput, begin: str, tip: str) -> str | None:
        if not (asked.pull_request and self.settings.delivery.pull_request):
            return None
        git, allowed = self.repository.git, self.settings.delivery
        files = changed_files(git, begin, tip)
        title = title_by_convention(git, begin, title_of(asked.title, f"Plan {self.spec.plan_id}"), files)
        wanted = PullRequest(
            branch,
            target,
            title,
            body_of(f"{asked.text}\n\n{describe_files(files)}"),
            is_draft=allowed.draft,
            labels=tuple(labels_of(files, asked.labels)) if allowed.labels else (),
            reviewers=tuple(owners_of(git, begin, files)) if allowed.reviewers else (),
        )
        self.lease.confirm()
        try:
            return self.settings.forge.pull_request(wanted)
        except Refused as error:
            raise Refused(f"the branch {branch} is there, and no pull request: {error}") from error


def attempted(spec: Spec, run: Callable[[], Result]) -> Result:
    """Return the result of `run`; an error becomes a failed result or a returned step.

    Raises Abandoned if the work is no longer wanted.
    """
    try:
        return run()
    except Abandoned:
        raise
    except CannotWork as reason:
        return Result(NO_AGENT_NEEDED, released=reason)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Result(NO_AGENT_NEEDED, released=CannotWork(str(error)))
    except (Refused, GitError) as error:
        return Result(NO_AGENT_NEEDED, failure=wire.advice(str(error)[: wire.MESSAGE_CHARS]))
    except Exception as error:  # such as an input without a delivery
        log.exception("attempt_error", extra=spec.ids)
        return Result(NO_AGENT_NEEDED, failure=wire.own_failure(error))


def branch_of(settings: RepositorySettings, spec: Spec, asked: DeliveryInput) -> str:
    """Return the branch that a delivery writes: the plan's own, or that of the plan `asked.onto`."""
    return settings.delivery.branch.replace(PLAN, asked.onto or spec.plan_id)


def target_of(repository: SharedRepository, begin: str, branch: str, named: str | None) -> str:
    """Return the remote's branch that the plan's changes are for. Raises Refused if that branch is not certain.

    The base of the changes must be on the branch. A commit of a fork can be fetched by its id, but is on no branch
    here.
    """
    likely = named or repository.base_branch
    found = [name for name in repository.branches_with(begin, likely) if name != branch]
    if len(found) == 1:
        return found[0]
    where = ", ".join(found[: wire.FAILING_TESTS]) or "no branch of the remote"
    raise Refused(f"the plan begins at {begin[:SHOWN]}, which is on {where}, and not on {likely}")


def check(git: Git, plan_id: str, tip: str, base: str | None, asked: DeliveryInput, *, partly: bool = False) -> str:
    """Return the base of the commits that end at `tip`. Raises Refused if one is not of an accepted attempt.

    The commits may be in any order, each once and with the verified change. Each may contain only files that the goal
    and the risk level of its step allow. Unless `partly`, the commits of all accepted attempts must be there. The error
    names the wrong commit or the missing attempt.
    """
    open_ones = {(each.step_id, each.diff_hash): each for each in asked.accepted if each.diff_hash}
    begin = tip
    for found in history.walk(git, plan_id, tip, len(open_ones) + 1):
        accepted = open_ones.pop((found.step_id, changes.diff_hash(git, found.parent, found.commit)), None)
        # An attempt may report a change that an earlier one of its step had landed before it died.
        if accepted is None or found.attempt > accepted.attempt:
            raise Refused(f"{_named(found)} is not the change of an accepted attempt")
        if fault := _wrong_files(git, found, accepted, asked, base or found.parent):
            raise Refused(f"{_named(found)} {fault}")
        begin = found.parent
    if base and begin != base:
        raise Refused(f"the commit {begin[:SHOWN]} is of none of the plan's steps, and not its base {base[:SHOWN]}")
    if open_ones and not partly:
        missing = ", ".join(f"{step_id} (attempt {each.attempt})" for (step_id, _), each in open_ones.items())
        raise Refused(f"the accepted changes of {missing} are not among the commits above {begin[:SHOWN]}")
    return begin


def _wrong_files(git: Git, found: PlanCommit, accepted: Accepted, asked: DeliveryInput, base: str) -> str | None:
    """Return the fault of a commit's files under the goal's permission, by git alone; None if there is none.

    A file is new if the commit `base`, where the plan begins, does not have it.
    """
    if asked.allowed is None:
        return None
    touched = changes.touched(git, found.parent, found.commit)
    permission = Permission(
        named=frozenset(each for each in asked.allowed if not is_glob(each)),
        patterns=tuple(filter(is_glob, asked.allowed)),
        excluded=tuple(filter(is_glob, asked.excluded)),  # files that it names are forbidden to some steps only
        forbidden=forbid(asked.forbidden) if asked.forbidden else FORBIDDEN,
    )
    if outside := [path for path in touched if not permission.allows(path)]:
        return f"changes files that the goal does not allow: {', '.join(outside[: wire.FILES])}"
    if risky := [path for path in touched if is_riskier(path, accepted.max_risk)]:
        return f"changes files riskier than {accepted.max_risk}: {', '.join(risky[: wire.FILES])}"
    if accepted.max_files is not None and len(touched) > accepted.max_files:
        return f"changes {len(touched)} files, allowed are {accepted.max_files}"
    new = changes.created(git, found.parent, found.commit, base) if accepted.created is not None else ()
    if len(new) > (accepted.created or 0):
        return f"creates {len(new)} files, and the outcomes reported {accepted.created}: {', '.join(new[: wire.FILES])}"
    return None


def _named(found: PlanCommit) -> str:
    return f"the commit {found.commit[:SHOWN]} (step {found.step_id}, attempt {found.attempt})"
