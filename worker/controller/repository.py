"""The operator's repository, which all controllers of a machine share: the plans' branches, and the lock for them.

Nothing else of the repository is written: neither its files, index, HEAD nor configuration, nor another branch.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from worker.host.git import Git, GitError

OLDEST_GIT = (2, 38)  # which merges without a checkout


def branch_of(plan_id: str) -> str:
    """Name the branch on which a plan's verified changes are collected."""
    return f"refs/heads/planner/{plan_id}"


class Repository:
    """A git repository at `path`; raises GitError if there is none, if it has no commit yet, or if git is too old."""

    def __init__(self, path: Path) -> None:
        self.path = path
        version = Git(path).line("version")
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST_GIT:
            raise GitError(f"git {'.'.join(map(str, OLDEST_GIT))} or newer is needed, and this is {version}")
        data, common = Git(path).line("rev-parse", "--absolute-git-dir", "--git-common-dir").split("\n")
        self.common = (path / common).resolve()
        self.git = Git(path, f"--git-dir={data}")  # looked up once: nothing in the folder changes the place later
        self.object_format = self.git.line("rev-parse", "--show-object-format")
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
            self.move(plan_id, first, "")
            return first

    def receive(self, pack: bytes) -> None:
        """Take the objects of `pack` in, after git has checked each of them."""
        self.git("unpack-objects", "-q", "--strict", stdin=pack)

    def move(self, plan_id: str, to: str, expected: str) -> None:
        """Move the plan's branch, unless somebody else has moved it from `expected`; "" where there is none yet."""
        self.git("update-ref", "-m", "planner", branch_of(plan_id), to, expected)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the other controllers of this repository away; held for milliseconds."""
        with (self.common / "planner.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
