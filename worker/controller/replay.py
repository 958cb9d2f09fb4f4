"""Replays the accepted commits of a plan on another base, and proves that nothing else has changed.

Git merges the files, each commit with the one before it as the base, and without rename detection: a file is identified
by its path. A file in conflict keeps the target's version, so that no change of others is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from worker.controller.changes import blobs
from worker.controller.history import PlanCommit
from worker.host.git import Git

_MERGE = ("-c", "merge.renames=false", "-c", "merge.directoryRenames=false", "merge-tree", "--write-tree")
NOTHING = b"0"  # the only digit in the name of a missing blob


class Entry(NamedTuple):
    """A path that differs between two commits: git's modes and the names of its blobs, before and after."""

    old_mode: bytes
    mode: bytes
    old: bytes
    new: bytes


@dataclass(frozen=True, slots=True)
class Replay:
    """The accepted commits on top of `target`: the last one, all of them with their parents, and files in conflict."""

    target: str
    tip: str
    commits: tuple[PlanCommit, ...]
    conflicts: tuple[bytes, ...]


def replay(git: Git, begin: str, accepted: Sequence[PlanCommit], target: str) -> Replay:
    """Put the `accepted` commits, which begin at `begin`, on top of `target`, the oldest first.

    Commits without an effect there are left out, as are files in conflict. Raises GitError.
    """
    tip = accepted[-1].commit if accepted else begin
    left = frozenset(_merge(git, begin, target, f"{tip}^{{tree}}")[1])
    while True:
        made, commits, found = target, list[PlanCommit](), set(left)
        for each in accepted:
            tree, conflicts = _merge(git, each.parent, made, f"{each.commit}^{{tree}}")
            found.update(conflicts)
            tree = _as_in(git, tree, target, left) if left else tree
            if tree != git.line("rev-parse", f"{made}^{{tree}}"):
                commit = git.line("commit-tree", tree, "-p", made, stdin=each.message.encode())
                commits.append(PlanCommit(commit, made, each.step_id, each.attempt, each.message))
                made = commit
        if left == found:
            return Replay(target, made, tuple(commits), tuple(sorted(left)))
        left = frozenset(found)


def _merge(git: Git, base: str, theirs: str, ours: str) -> tuple[str, list[bytes]]:
    """Merge `ours`, based on `base`, into `theirs`. Returns the tree, and the paths in conflict."""
    sides = [git.line("commit-tree", side, "-p", base, stdin=b"side") for side in (f"{theirs}^{{tree}}", ours)]
    tree, *paths = git(*_MERGE, "-z", "--name-only", "--no-messages", *sides, ok=(0, 1)).split(b"\0")[:-1]
    return tree.decode(), [path for path in paths if path]


def _as_in(git: Git, tree: str, commit: str, paths: Collection[bytes]) -> str:
    """Return a tree like `tree`, but with `paths` in their versions of `commit`."""
    listed = git("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0")[:-1]
    there = {line.partition(b"\t")[2]: line.partition(b"\t")[0].split() for line in listed}
    null = NOTHING * len(git.line("rev-parse", commit))
    gone = b"".join(b"0 %s\t%s\0" % (null, path) for path in paths)
    kept = b"".join(b"%s %s\t%s\0" % (there[path][0], there[path][2], path) for path in paths if path in there)
    with TemporaryDirectory() as folder:
        index = git.beside({"GIT_INDEX_FILE": str(Path(folder) / "index")})
        index("read-tree", tree)
        index("update-index", "-z", "--index-info", stdin=gone + kept)
        return index.line("write-tree")


def differing(git: Git, base: str, commit: str) -> dict[bytes, Entry]:
    """Return the paths that differ between two commits."""
    raw = git("diff-tree", "-r", "--no-renames", "--raw", "-z", "--abbrev=64", base, commit).split(b"\0")[:-1]
    about = (line.removeprefix(b":").split(b" ") for line in raw[::2])
    return {path: Entry(*each[:4]) for each, path in zip(about, raw[1::2], strict=True)}


def not_of_the_plan(git: Git, begin: str, tip: str, made: Replay) -> tuple[bytes, ...]:
    """Return the paths where a replay differs from its target by more than the plan's changes from `begin` to `tip`.

    Trees are compared. In a file that others changed, too, lines are compared: each added or removed line must be added
    or removed by the plan.
    """
    plan, landed = differing(git, begin, tip), differing(git, made.target, made.tip)
    both = {path: (plan[path], entry) for path, entry in landed.items() if path in plan and path not in made.conflicts}
    unlike = {path: pair for path, pair in both.items() if pair[0] != pair[1]}
    names = {
        name for pair in unlike.values() for entry in pair for name in (entry.old, entry.new) if name.strip(NOTHING)
    }
    texts = blobs(git, names)
    wrong = [path for path in landed if path not in both]
    for path, (ours, there) in unlike.items():
        own, found = (_lines(texts, entry.old, entry.new) for entry in (ours, there))
        mode = there.old_mode == there.mode or ours.old_mode != ours.mode
        if not mode or any(not min(0, own[line]) <= count <= max(0, own[line]) for line, count in found.items()):
            wrong.append(path)
    return tuple(wrong)


def _lines(texts: dict[bytes, bytes], old: bytes, new: bytes) -> Counter[bytes]:
    """Return for each line how many more of it the new version has."""
    counted = Counter(texts.get(new, b"").split(b"\n"))
    counted.subtract(Counter(texts.get(old, b"").split(b"\n")))
    return counted


def patch_of(git: Git, base: str, commit: str, path: bytes) -> str:
    """Return the difference between two commits in one file, as text for people."""
    words = ("diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv", "-p", base, commit)
    return git("--literal-pathspecs", *words, "--", path.decode(errors="surrogateescape")).decode(errors="replace")


def subjects(git: Git, base: str, commit: str, most: int, paths: Sequence[bytes] = ()) -> list[str]:
    """Return the commits after `base` up to `commit`, the newest first, as id and subject.

    Commits that a shallow history lacks are missing.
    """
    names = ("--", *(path.decode(errors="surrogateescape") for path in paths)) if paths else ()
    words = ("log", f"--max-count={most}", "--format=%h %s", commit, f"^{base}", *names)
    return git("--literal-pathspecs", *words).decode(errors="replace").splitlines()
