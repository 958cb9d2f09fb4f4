"""The commits of a plan's branch: the step and attempt of each, and the branch without the commits of one step.

Only controllers write that branch, and the last lines of a commit's message name its step (`commit_message`). A step
has commits there before it is done if an attempt landed its change and died before its report.
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
    """Return the plan's commits that end at `tip`, the newest first, as far back as the store has their parents."""
    return list(walk(git, plan_id, tip, HISTORY - 1))


def walk_of_any(git: Git, tip: str) -> list[PlanCommit]:
    """Return the commits of any plan that end at `tip`, the newest first. The first other commit ends the list."""
    return list(_walk(git, tip, HISTORY - 1, None))


def is_of(made: PlanCommit, plan_id: str) -> bool:
    """Return whether the plan made the commit, by the last lines of its message."""
    trailers = _TRAILERS.search(made.message)
    return bool(trailers and trailers[1] == plan_id)


def walk(git: Git, plan_id: str, tip: str, most: int) -> Iterator[PlanCommit]:
    """Yield at most `most` commits of the plan that end at `tip`, the newest first.

    The first other commit ends the walk.
    """
    return _walk(git, tip, most, plan_id)


def _walk(git: Git, tip: str, most: int, plan_id: str | None) -> Iterator[PlanCommit]:
    listed = git("rev-list", "--first-parent", f"--max-count={most}", "--format=%H %P%n%B%x00", tip)
    for entry in listed.decode(errors="replace").split("\0"):
        ids, _, text = entry.lstrip("\n").partition("\n")[2].partition("\n")
        trailers = _TRAILERS.search(text)
        if not trailers or plan_id not in (None, trailers[1]) or len(parents := ids.split()[1:]) != 1:
            return
        yield PlanCommit(ids.split()[0], parents[0], trailers[2], int(trailers[3]), text)


def without(store: Store, listed: Sequence[PlanCommit], step_id: str, tip: str) -> str:
    """Return a commit like `tip` without the changes of `step_id`. Raises GitError if later commits depend on them.

    `listed` are the commits that end at `tip`. If none of them is of the step, the tip itself is returned.
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
