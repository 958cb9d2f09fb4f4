"""The history of a fix: its tests and its sources apart, and a checkout of the state in between, which fails."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tasks.toolchain.files import Role, role_of
from tasks.toolchain.languages import LANGUAGES
from tests.real.agent import matches
from tests.real.fix import CannotPlay, Fix

BRANCH = "main"
INLINE_TESTS = "#[cfg(test)]"  # from this line on a Rust source holds tests
MODES = {"100644": 0o644, "100755": 0o755}
SUFFIXES = tuple(suffix for language in LANGUAGES.values() for suffix in language.suffixes)
GIT_S = 300


@dataclass(frozen=True, slots=True)
class Change:
    """What a fix makes of a file: its content and mode, or None where it deletes the file."""

    content: bytes | None
    mode: int = 0o644


@dataclass(frozen=True, slots=True)
class Parts:
    """A fix taken apart: `sources` are the agent's, `tests` are in the state before, `others` are left alone."""

    parent: str
    subject: str
    sources: Mapping[str, Change]
    tests: Mapping[str, Change]
    others: tuple[str, ...]


class Repository:
    """A git repository of which nothing but its objects is trusted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *words: str, **variables: str) -> bytes:
        """Return what a git command prints; raises CannotPlay with what it says where it fails."""
        fixed = {
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
        }
        ours = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        safe = ("-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*", "-c", "advice.detachedHead=false")
        done = subprocess.run(
            ["git", "-C", str(self.folder), *safe, *words],
            env={**ours, **fixed, **variables},
            capture_output=True,
            check=False,
            timeout=GIT_S,
        )
        if done.returncode:
            raise CannotPlay(f"git {words[0]} in {self.folder}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def line(self, *words: str) -> str:
        """Return the one line that a git command prints."""
        return self.git(*words).decode(errors="replace").strip()

    def content(self, commit: str, path: str) -> bytes | None:
        """Return a file of a commit; None where it has none."""
        if not self.git("ls-tree", commit, "--", path):
            return None
        return self.git("cat-file", "blob", f"{commit}:{path}")


def take_apart(fix: Fix) -> Parts:
    """Read a fix from its repository; raises CannotPlay where nothing can be played of it."""
    repository = Repository(fix.repository)
    if not fix.repository.is_dir():
        raise CannotPlay(f"There is no folder {fix.repository}.")
    commit = repository.line("rev-parse", "--verify", f"{fix.commit}^{{commit}}")
    parents = repository.line("rev-list", "--parents", "-n", "1", commit).split()[1:]
    if not parents:
        raise CannotPlay(f"{fix.title}: the history ends at this commit, so there is no state before it.")
    changes = _changes(repository, parents[0], commit)
    sources = {path: each for path, each in changes.items() if _is_source(path, fix.files)}
    tests = {path: each for path, each in changes.items() if role_of(path) is Role.TEST}
    tests |= _inline_tests(repository, parents[0], sources)
    if not sources or not tests:
        lacks = f"source within {' '.join(fix.files) or 'a language that is known'}" if tests else "test"
        raise CannotPlay(f"{fix.title} changes no {lacks}. It changes {', '.join(changes) or 'nothing'}.")
    others = tuple(path for path in changes if path not in sources and path not in tests)
    subject = repository.line("show", "-s", "--format=%s", commit)
    return Parts(parents[0], subject, sources, tests, others)


def _changes(repository: Repository, parent: str, commit: str) -> dict[str, Change]:
    listed = (
        repository.git("diff-tree", "-r", "-z", "--no-renames", parent, commit).decode(errors="replace").split("\0")
    )
    changes = {}
    for about, path in zip(listed[0::2], listed[1::2], strict=False):
        _, mode, _, blob, status = about.split()
        if status == "D":
            changes[path] = Change(None)
        elif mode in MODES:  # neither a link nor a submodule
            changes[path] = Change(repository.git("cat-file", "blob", blob), MODES[mode])
    return changes


def _is_source(path: str, globs: tuple[str, ...]) -> bool:
    """Whether a file is for the agent: a source that the goal allows, or of any language known to us."""
    if role_of(path) is not Role.SOURCE:
        return False
    return any(matches(glob, path) for glob in globs) if globs else path.endswith(SUFFIXES)


def _inline_tests(repository: Repository, parent: str, sources: Mapping[str, Change]) -> dict[str, Change]:
    """Take the tests that Rust keeps at the end of its sources: there a source of before has the tests of the fix."""
    found = {}
    for path, change in sources.items():
        before = repository.content(parent, path) if path.endswith(".rs") and change.content else None
        if before is None or change.content is None:
            continue
        (code, mark, old), (_, _, new) = (
            text.partition(f"\n{INLINE_TESTS}".encode()) for text in (before, change.content)
        )
        if mark and new and old != new:
            found[path] = Change(code + mark + new, change.mode)
    return found


def globs_of(parts: Parts) -> tuple[str, ...]:
    """Name the folders of a fix as its project would: the top ones, and kinds of files where they lie at the root."""
    paths = [*parts.sources, *parts.tests]
    return tuple(dict.fromkeys(f"{p.split('/')[0]}/**" if "/" in p else f"*.{p.rpartition('.')[2]}" for p in paths))


def check_out_before(fix: Fix, parts: Parts, folder: Path) -> str:
    """Make a repository at `folder` that has the state before checked out on `main`; return its commit."""
    Repository(fix.repository).git(
        "clone", "--quiet", "--no-checkout", "--no-hardlinks", str(fix.repository.resolve()), str(folder)
    )
    checkout = Repository(folder)
    checkout.git("checkout", "--quiet", "-B", BRANCH, parts.parent)
    checkout.git("remote", "set-url", "origin", f"https://git.example/{repo_name(fix)}.git")  # which nobody asks
    checkout.git("config", "core.hooksPath", "/dev/null")
    write_changes(folder, parts.tests)
    checkout.git("add", "--all", "--force", "--", *parts.tests)
    when = checkout.line("show", "-s", "--format=%cI", parts.parent)
    who = {
        f"GIT_{role}_{part}": f"tests@{role.lower()}.invalid"
        for role in ("AUTHOR", "COMMITTER")
        for part in ("NAME", "EMAIL")
    }
    dates = {"GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
    checkout.git("commit", "--quiet", "--no-verify", "-m", "Add tests that fail", **who, **dates)
    return checkout.line("rev-parse", "HEAD")


def repo_name(fix: Fix) -> str:
    """Name the repository of a fix, as goals do."""
    name = re.sub(r"[^A-Za-z0-9-]+", "-", fix.name or fix.repository.resolve().name)
    return f"real/{name.strip('-') or 'project'}"


def write_changes(folder: Path, changes: Mapping[str, Change]) -> None:
    """Make files what a fix makes of them."""
    for path, change in changes.items():
        place = folder / path
        if change.content is None:
            place.unlink(missing_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(change.content)
        place.chmod(change.mode)
