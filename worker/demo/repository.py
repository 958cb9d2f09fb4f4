"""The demo's git repository with its history, and real runs of its tests."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

from worker.demo.story import Commit, apply_changes
from worker.host.git import Git
from worker.sandbox import process

PROGRAM_S = 30.0


@dataclass(frozen=True, slots=True)
class Suite:
    """The result of a run of pytest."""

    exit_code: int
    tests: int
    failed: int

    @property
    def passed(self) -> bool:
        """Whether there were tests, and all passed."""
        return self.exit_code == 0 and self.tests > 0


def make(root: Path, history: Iterable[Commit]) -> str:
    """Create the repository `root` with these commits and check out `main`. Returns the id of its last commit."""
    root.mkdir(parents=True)
    git = Git(root)
    git("init", "--quiet", "--initial-branch=main")
    git("fast-import", "--quiet", stdin=b"".join(_import_stream(history)))
    git("checkout", "--quiet", "main")
    return commit_id(root, "main")


def _import_stream(history: Iterable[Commit]) -> Iterator[bytes]:
    """Yield the commits in the input format of `git fast-import`."""
    trees: dict[str, dict[str, str]] = {}  # branch -> its files so far
    for commit in history:
        at = int(datetime.fromisoformat(commit.day).replace(hour=9, tzinfo=UTC).timestamp())
        yield f"commit refs/heads/{commit.branch}\n".encode()
        yield f"author {commit.author} {at} +0000\ncommitter {commit.author} {at} +0000\n".encode()
        yield _data(f"{commit.subject}\n\n{commit.body}".strip() + "\n")
        if commit.branch not in trees:
            trees[commit.branch] = dict(trees.get("main", {}))
            if commit.branch != "main":
                yield b"from refs/heads/main\n"
        tree = trees[commit.branch]
        changed = {**commit.files, **apply_changes(tree, commit.changes)}
        tree.update(changed)
        for path, text in changed.items():
            yield f"M 100644 inline {path}\n".encode() + _data(text)


def _data(text: str) -> bytes:
    raw = text.encode()
    return b"data %d\n%s\n" % (len(raw), raw)


def run_python(root: Path, *arguments: str) -> process.JobResult:
    """Run Python in `root`, as CI would."""
    return process.run(process.Job([sys.executable, *arguments], root, PROGRAM_S, lambda: True))


def run_tests(root: Path, report: Path) -> Suite:
    """Run pytest in `root`, which writes its JUnit report."""
    done = run_python(root, "-m", "pytest", "-q", f"--junitxml={report}")
    suite = ElementTree.parse(report).getroot().find("testsuite")  # noqa: S314 - pytest wrote it
    counts = suite.attrib if suite is not None else {}
    failed = int(counts.get("failures", 0)) + int(counts.get("errors", 0))
    return Suite(done.exit_code, int(counts.get("tests", 0)), failed)


def diff(root: Path, base: str, branch: str) -> str:
    """Return the diff from `base` to `branch`."""
    return Git(root)("diff", "--no-ext-diff", "--no-color", f"{base}..{branch}").decode()


def commit_id(root: Path, name: str) -> str:
    """Return the id of the commit with this name."""
    return Git(root).line("rev-parse", f"{name}^{{commit}}")


def check_out(root: Path, branch: str, place: Path) -> None:
    """Make a fresh checkout of `branch` at `place`."""
    Git(root)("worktree", "add", "--quiet", "--detach", str(place), branch)
