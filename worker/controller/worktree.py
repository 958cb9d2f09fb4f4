"""A controller's own checkout of the repository: reset before an attempt, read and committed after it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

from worker.controller import changes
from worker.controller.changes import Changes
from worker.controller.git import Git, GitError
from worker.controller.repository import Repository

# What tools leave behind, also in a repository without a .gitignore. Names that a project could mean are not here.
CACHES = (
    *("__pycache__/", "*.py[cod]", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", ".hypothesis/", ".tox/", ".nox/"),
    *(".coverage", ".coverage.*", ".eggs/", "*.egg-info/", ".venv/", "node_modules/", ".gradle/", ".DS_Store"),
)


@contextmanager
def worktree(repository: Repository, name: str, parent: Path | None = None) -> Iterator[Worktree]:
    """Make a worktree of `repository` in a new private directory under `parent`, and remove it at the end.

    Not below `.git`: several test runners refuse to see files there.
    """
    home = Path(mkdtemp(prefix=f"planner-{name}-", dir=parent))
    root = home / (repository.path.resolve().name or "repository")
    try:
        (home / "excludes").write_text("\n".join(CACHES) + "\n")
        with repository.locked():
            repository.git("worktree", "add", "--detach", "--no-checkout", str(root), "HEAD")
        yield Worktree(repository, root, home / "excludes")
    finally:
        with suppress(GitError):
            repository.git("worktree", "remove", "--force", "--force", str(root))
        shutil.rmtree(home, ignore_errors=True)


class Worktree:
    """The checkout at `root`. Git is told where its data lies: the `.git` file in it is in the agent's hands."""

    def __init__(self, repository: Repository, root: Path, excludes: Path) -> None:
        self._repository = repository
        self.root = root
        self._data = Path(Git(root).line("rev-parse", "--absolute-git-dir"))
        self._git = Git(root, f"--git-dir={self._data}", f"--work-tree={root}", "-c", f"core.excludesFile={excludes}")
        self._base = ""

    def reset(self, plan_id: str, base_sha: str | None) -> None:
        """Make the tree equal to the plan's branch, whatever an agent did to it, its index or its HEAD."""
        self._base = self._repository.start(plan_id, base_sha)
        for leftover in ("index", "index.lock", "HEAD.lock"):
            (self._data / leftover).unlink(missing_ok=True)
        self._mend_pointer()
        self._check_out(self._base)
        self._git("clean", "-ffdxq")

    def changes(self, allowed: Iterable[str]) -> Changes:
        """Take every change since the reset, the agent's own commits too; ignored files only if they are `allowed`."""
        self._git("add", "--all")
        named = [path for path in allowed if (self.root / path).is_file()]
        if named:
            self._git("--literal-pathspecs", "add", "--force", "--", *named, ok=(0, 1, 128))
        return changes.between(self._git, self.root, self._base, self._git.line("write-tree"))

    def land(self, plan_id: str, change: Changes, message: str) -> str:
        """Commit `change` to the plan's branch, rebased if a sibling has moved it; raises GitError on a conflict."""
        commit = self._git.line("commit-tree", change.tree, "-p", change.base, stdin=message.encode())
        with self._repository.locked():
            tip = self._repository.tip(plan_id) or change.base
            if tip != change.base:
                commit = self._rebased(commit, tip)
            self._repository.move(plan_id, commit, tip)
        return commit

    def _rebased(self, commit: str, tip: str) -> str:
        self._check_out(tip)
        self._git("cherry-pick", "--allow-empty", "--keep-redundant-commits", commit)
        return self._git.line("rev-parse", "--verify", "HEAD")

    def _check_out(self, commit: str) -> None:
        """Never by `reset` alone: that would move a branch which the agent has checked out."""
        self._git("checkout", "--quiet", "--force", "--detach", commit)

    def _mend_pointer(self) -> None:
        pointer = self.root / ".git"
        if pointer.is_dir() and not pointer.is_symlink():
            shutil.rmtree(pointer)
        pointer.unlink(missing_ok=True)
        pointer.write_text(f"gitdir: {self._data}\n")
