"""The commits of a plan's branch: which step and attempt each is of, and the branch without those of one step.

Only controllers write that branch, and the last lines of a commit's message say what it is of (`commit_message`). A
step has commits there before it is done if an attempt landed its change and died before it could say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from worker.controller.repository import HISTORY, Store
from worker.host.git import Git

_TRAILERS = re.compile(r"\n\nPlan: (\S+)\nStep: (\S+)\nAttempt: (\d+)\s*\Z")


@dataclass(frozen=True, slots=True)
class PlanCommit:
    """One commit of a plan's branch."""

    commit: str
    parent: str
    step_id: str
    attempt: int
    message: str


def commits(git: Git, plan_id: str, tip: str) -> list[PlanCommit]:
    """List the commits of the plan that end at `tip`, the newest first; as many as a store holds with their parents."""
    return list(walk(git, plan_id, tip, HISTORY - 1))


def walk(git: Git, plan_id: str, tip: str, most: int) -> Iterator[PlanCommit]:
    """Yield at most so many commits of the plan that end at `tip`, the newest first, up to one that is none of it."""
    listed = git("rev-list", "--first-parent", f"--max-count={most}", "--format=%H %P%n%B%x00", tip)
    for entry in listed.decode(errors="replace").split("\0"):
        ids, _, text = entry.lstrip("\n").partition("\n")[2].partition("\n")
        trailers = _TRAILERS.search(text)
        if not trailers or trailers[1] != plan_id or len(parents := ids.split()[1:]) != 1:
            return
        yield PlanCommit(ids.split()[0], parents[0], trailers[2], int(trailers[3]), text)


def without(store: Store, listed: Sequence[PlanCommit], step_id: str, tip: str) -> str:
    """Return a commit like `tip` without what `step_id` has changed; raises GitError where later commits need that.

    `listed` are the commits that end at `tip`. The tip itself is returned if none of them is of the step.
    """
    oldest = next((at for at in reversed(range(len(listed))) if listed[at].step_id == step_id), None)
    if oldest is None:
        return tip
    made = listed[oldest].parent
    for later in reversed(listed[:oldest]):
        if later.step_id != step_id:
            tree = store.merge(later.parent, made, f"{later.commit}^{{tree}}")
            made = store.commit(tree, made, later.message)
    return made
