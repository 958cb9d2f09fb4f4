"""The demo's git repository, and its tests, really run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from worker.host.git import Git
from worker.sandbox import process

PYTEST_S = 30.0


@dataclass(frozen=True, slots=True)
class Suite:
    """How a run of pytest ended; `report` is its JUnit file."""

    report: Path
    exit_code: int
    tests: int
    failed: int

    @property
    def passed(self) -> bool:
        """Whether there were tests, and all passed."""
        return self.exit_code == 0 and self.tests > 0


def make(root: Path, files: Mapping[str, str], message: str) -> str:
    """Write `files` into the new directory `root` and commit them; returns the commit's id."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    git = Git(root)
    git("init", "--quiet", "--initial-branch=main")
    git("add", "--all")
    git("commit", "--quiet", "--message", message)
    return git.line("rev-parse", "HEAD")


def run_tests(root: Path, report: Path) -> Suite:
    """Run pytest in `root`, as CI would."""
    argv = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}"]
    done = process.run(process.Job(argv, root, PYTEST_S, lambda: True, merge=True))
    suite = ElementTree.parse(report).getroot().find("testsuite")  # noqa: S314 - pytest wrote it
    counts = suite.attrib if suite is not None else {}
    failed = int(counts.get("failures", 0)) + int(counts.get("errors", 0))
    return Suite(report, done.exit_code, int(counts.get("tests", 0)), failed)


def diff(root: Path, base: str, branch: str) -> str:
    """Show what `branch` adds to `base`."""
    return Git(root)("diff", "--no-ext-diff", "--no-color", f"{base}..{branch}").decode()


def commit(root: Path, name: str) -> str:
    """Tell the id of the commit that `name` stands for."""
    return Git(root).line("rev-parse", f"{name}^{{commit}}")


def check_out(root: Path, branch: str, place: Path) -> None:
    """Make a fresh checkout of `branch` at `place`."""
    Git(root)("worktree", "add", "--quiet", "--detach", str(place), branch)
