"""Lands a plan: replays the accepted commits on the current tip of the target branch, and verifies them there.

No agent runs here, and the target branch is not written. The plan's own ref is moved, and another ref keeps the
accepted commits until they are delivered. So the next attempt can repeat an interrupted one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from worker.controller import changes, history, wire
from worker.controller.agent_run import NO_AGENT_NEEDED
from worker.controller.delivery import SHOWN, attempted, branch_of, check, target_of
from worker.controller.forge import Refused
from worker.controller.lease import LeaseClient
from worker.controller.readiness import RemoteTrouble
from worker.controller.replay import Replay, not_of_the_plan, patch_of, replay, subjects
from worker.controller.repositories_file import RepositorySettings
from worker.controller.result import Result
from worker.controller.shared import HEADS, SharedRepository, accepted_ref, shared_ref
from worker.controller.wire import DeliveryInput, Spec
from worker.host.git import Git

MAX_SIDES = 20  # files with diffs of both sides
MAX_SIDE = 4000  # characters of a side
ALL_SIDES = 16_000  # of all of them
MAX_COMMITS = 20  # commits of the target that are reported
MAX_CONFLICTS = 200  # files

log = logging.getLogger("planner.controller")


@dataclass(frozen=True, slots=True)
class Landing:
    """The landing of the attempt `spec`; `verify` runs the step's verification on the plan's branch."""

    spec: Spec
    repository: SharedRepository
    settings: RepositorySettings
    lease: LeaseClient
    verify: Callable[[], Result]

    def run(self) -> Result:
        """Land. Raises Abandoned if the landing is no longer wanted."""
        return attempted(self.spec, self._run)

    def _run(self) -> Result:
        spec, repository, git = self.spec, self.repository, self.repository.git
        asked = DeliveryInput.model_validate(spec.input)
        there, tip, begin = self._accepted(asked)
        branch, commits = branch_of(self.settings, spec, asked), _commits(repository, spec, tip, asked)
        if asked.again:
            begin = self._begin_of(branch, asked.again, commits)
        is_added = asked.onto and not asked.again
        name = branch if is_added else target_of(repository, begin, branch, asked.target)
        target = repository.read(f"{HEADS}{name}")
        if target is None:
            raise Refused(f"the remote has no branch {name} any more")
        if asked.again:
            begin, commits = _without_those_of(git, target, begin, commits)
        if is_added and target != begin:
            raise Refused(f"the branch {name} is at {target[:SHOWN]}, and the changes begin at {begin[:SHOWN]}")
        made = Replay(target, tip, tuple(commits), ()) if target == begin else replay(git, begin, commits, target)
        if wrong := not_of_the_plan(git, begin, tip, made):
            raise Refused(f"on top of {target[:SHOWN]} other files would change than the plan's: {_named(wrong)}")
        output: dict[str, Any] = {
            "target_sha": target,
            "result_sha": made.tip,
            "conflicts": _paths(made.conflicts),
            "target": name,
            "result_tree": git.line("rev-parse", f"{made.tip}^{{tree}}"),
        }
        if target != begin:
            own = [each for each in made.commits if history.is_of(each, spec.plan_id)]
            output |= {"begin_sha": own[0].parent if own else made.tip} if asked.again else {}
            output |= {
                "commits": [_commit(git, each) for each in own],
                "between": subjects(git, begin, target, MAX_COMMITS),
            }
            output["sides"] = self._sides(made, begin, tip)
            self._move(there, tip, made.tip)
        log.info("plan_landed", extra={**spec.ids, "target": target, "moved": target != begin})
        if target == begin or made.conflicts or made.tip == target:
            return Result(replace(NO_AGENT_NEEDED, output=output), landed=output)
        found = self.verify()
        if found.trouble and not found.verification.receipts:  # another host may have the programs
            return Result(NO_AGENT_NEEDED, released=found.trouble)
        found.landed = output
        return found

    def _accepted(self, asked: DeliveryInput) -> tuple[str, str, str]:
        """Return the commit of the plan's ref, the last accepted commit, and the base of them all. Raises Refused."""
        spec, repository = self.spec, self.repository
        base = repository.find(spec.context.base_sha) if spec.context.base_sha else None
        tip = repository.look_up(spec.plan_id) or ""
        if asked.again and not tip:  # nothing of the plan itself is there
            return "", asked.again, check(repository.git, spec.plan_id, asked.again, base, asked)
        if not tip:
            raise Refused(f"{shared_ref(spec.plan_id)} is not on the remote any more")
        try:
            return tip, tip, check(repository.git, spec.plan_id, tip, base, asked)
        except Refused:
            kept = repository.read(accepted_ref(spec.plan_id))  # by an attempt that has moved the ref, and died
            if not kept:
                raise
            return tip, kept, check(repository.git, spec.plan_id, kept, base, asked)

    def _begin_of(self, branch: str, again: str, commits: list[history.PlanCommit]) -> str:
        """Return the parent of the first commit. Raises Refused unless the delivered branch is still at `again`."""
        there = self.repository.read(f"{HEADS}{branch}")
        if there != again:
            found = f"at {there[:SHOWN]}" if there else "gone"
            raise Refused(f"the branch {branch} is {found}, and was at {again[:SHOWN]}")
        if not commits:
            raise Refused(f"the commit {again[:SHOWN]} of the branch {branch} is of no plan")
        return commits[0].parent

    def _move(self, there: str, accepted: str, to: str) -> None:
        """Set the plan's ref to `to`, after the accepted commits are kept by another ref."""
        spec, repository = self.spec, self.repository
        kept = repository.read(accepted_ref(spec.plan_id))
        self.lease.confirm()
        if kept != accepted:
            repository.push(accepted_ref(spec.plan_id), accepted, kept or "")
        if to != there and not repository.move(spec.plan_id, to, there):
            raise RemoteTrouble(f"another process moved {shared_ref(spec.plan_id)}")

    def _sides(self, made: Replay, begin: str, tip: str) -> list[dict[str, str]]:
        """Return for each file in conflict the plan's diff and the target's diff.

        Without a conflict, return the target's diffs of the files that it changed.
        """
        git = self.repository.git
        if made.conflicts:
            return _cut(
                (path, patch_of(git, begin, tip, path), patch_of(git, begin, made.target, path))
                for path in made.conflicts[:MAX_SIDES]
            )
        moved = changes.touched(git, begin, made.target)[:MAX_SIDES]
        return _cut((name.encode(), "", patch_of(git, begin, made.target, name.encode())) for name in moved)


def _cut(sides: Iterable[tuple[bytes, str, str]]) -> list[dict[str, str]]:
    """Return the diffs of both sides, truncated to the limits for one diff and for all."""
    found, room = [], ALL_SIDES
    for path, ours, theirs in sides:
        each = min(MAX_SIDE, room // 2)
        if each <= 0:
            break
        ours, theirs = ours[:each], theirs[:each]
        found.append({"path": path.decode(errors="replace"), "ours": ours, "theirs": theirs})
        room -= len(ours) + len(theirs)
    return found


def _commits(repository: SharedRepository, spec: Spec, tip: str, asked: DeliveryInput) -> list[history.PlanCommit]:
    """Return the accepted commits, the oldest first.

    If a delivered branch lands again, return its earlier commits, too.
    """
    if asked.again:
        found = history.walk_of_any(repository.git, tip)[::-1]  # those before the delivered plan's are the target's
        first = (at for at, each in enumerate(found) if asked.onto and history.is_of(each, asked.onto))
        return found[next(first, 0) :]
    listed = history.walk(repository.git, spec.plan_id, tip, len(asked.accepted) + 1)
    return list(listed)[::-1]


def _without_those_of(
    git: Git, target: str, begin: str, commits: list[history.PlanCommit]
) -> tuple[str, list[history.PlanCommit]]:
    """Return the commits that `target` lacks, and their base; `target` may already have the first ones."""
    shared = git.line("merge-base", target, commits[-1].commit, ok=(0, 1))
    for number, each in enumerate(commits, 1):
        if each.commit == shared:
            return shared, commits[number:]
    return begin, commits


def _commit(git: Git, made: history.PlanCommit) -> dict[str, Any]:
    digest = changes.diff_hash(git, made.parent, made.commit)
    return {"step_id": made.step_id, "attempt": made.attempt, "diff_hash": digest}


def _paths(paths: Iterable[bytes]) -> list[str]:
    return [path.decode(errors="replace") for path in paths][:MAX_CONFLICTS]


def _named(paths: tuple[bytes, ...]) -> str:
    return ", ".join(_paths(paths)[: wire.FILES])
