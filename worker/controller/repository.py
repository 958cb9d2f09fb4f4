"""The repository that all controllers of a machine share: the plans' branches, and the lock for moving them."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from worker.controller.git import Git, GitError

NO_COMMIT = "0" * 40


def branch_of(plan_id: str) -> str:
    """Name the branch on which a plan's verified changes are collected."""
    return f"refs/heads/planner/{plan_id}"


class Repository:
    """A git repository at `path`; raises GitError if there is none, or if it has no commit yet."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.git = Git(path)
        self.common = (path / self.git.line("rev-parse", "--git-common-dir")).resolve()
        self.commit("HEAD")

    def commit(self, name: str) -> str:
        """Return the id of the commit that `name` means; raises GitError if it means none."""
        if found := self.git.line("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", ok=(0, 1, 128)):
            return found
        raise GitError(f"no commit {name} in {self.path}")

    def tip(self, plan_id: str) -> str | None:
        """Return the last commit of the plan's branch, None if there is no branch."""
        with suppress(GitError):
            return self.commit(branch_of(plan_id))
        return None

    def start(self, plan_id: str, base: str | None) -> str:
        """Return the tip of the plan's branch, which begins at `base`, or where the repository stands."""
        with self.locked():
            if tip := self.tip(plan_id):
                return tip
            first = self.commit(base or "HEAD")
            self.move(plan_id, first, NO_COMMIT)
            return first

    def move(self, plan_id: str, to: str, expected: str) -> None:
        """Move the plan's branch, unless somebody else has moved it from `expected`."""
        self.git("update-ref", "-m", "planner", branch_of(plan_id), to, expected)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the other controllers of this repository away; held for milliseconds."""
        with (self.common / "planner.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
