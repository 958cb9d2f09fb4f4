"""The file changes of an attempt: the touched files, and the size of the change.

A new file counts as no change if the attempt's base commit ignores it, or if it is a known leftover of tools. The
agent's own changes to `.gitignore` have no effect here. Otherwise it could hide a file that the verification reads.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from worker.controller import snapshot
from worker.controller.repository import SUBMODULE, Repository, Store, TreeEntry
from worker.controller.snapshot import Marks
from worker.host.git import Git

# Leftovers of tools, also in a repository without a .gitignore. Names that a project could use are not here.
CACHES = ("__pycache__/", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", ".hypothesis/")  # these tools trust them
COMPILED = (".pyc", ".pyo")
LEFT_BEHIND = (
    *(*CACHES, "*.py[cod]", ".tox/", ".nox/", ".coverage", ".coverage.*", ".eggs/", "*.egg-info/"),
    *(".venv/", "node_modules/", ".gradle/", ".DS_Store"),
)
IGNORE_FILE = b".gitignore"
_FOLDERS = frozenset(name.removesuffix("/").encode() for name in CACHES)
_COMPILED = tuple(name.encode() for name in COMPILED)
_DIFF = ("diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv")
HERE = b"./"  # so that git reads no name as a pattern
MAX_RULES_BYTES = 1024 * 1024
MAX_CHANGE_BYTES = 100 * 1024 * 1024  # of all files that an attempt changes, and of its largest file
MAX_TEXT_BYTES = 1024 * 1024  # of a file that is read as text
PlacedFile = tuple[bytes, bytes]  # git's mode, and the content


class FileChange(NamedTuple):
    """A file at another commit (`there`) and in the clone (`here`); None on the side where it does not exist."""

    path: bytes
    there: PlacedFile | None
    here: PlacedFile | None


@dataclass(frozen=True, slots=True)
class Changes:
    """The difference between the commit `base` and the tree `tree`; a rename counts as both of its paths."""

    base: str
    tree: str = ""  # empty if the change is not allowed
    touched: tuple[str, ...] = ()
    created: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    escaping: tuple[str, ...] = ()  # links that lead out of the clone
    odd: frozenset[str] = frozenset()  # touched paths that are or were no plain files: links, repositories, pipes
    unfit: str | None = None  # why this can never be landed
    growth_kb: int = 0
    lines: Mapping[str, int] = field(default_factory=dict)  # added and removed lines by file; 0 for a binary file
    diff_hash: str | None = None

    @property
    def diff_lines(self) -> int:
        """Number of added and removed lines."""
        return sum(self.lines.values())


def name_changes(
    base: str, touched: Mapping[bytes, Marks | None], known: Mapping[bytes, TreeEntry], root: Path
) -> Changes:
    """Return the paths of a change: the `touched` files with the new, the deleted and the unusual ones among them.

    Files without marks are deleted; files that `known`, the files of `base`, does not contain are new.
    """
    links = (path for path, marks in touched.items() if marks and marks.is_link)
    return Changes(
        base,
        touched=tuple(map(_text, touched)),
        created=tuple(_text(path) for path in touched if path not in known),
        deleted=tuple(_text(path) for path, marks in touched.items() if not marks),
        escaping=tuple(_text(path) for path in links if leads_out(root, os.fsdecode(path))),
        odd=frozenset(_text(path) for path, marks in touched.items() if _is_odd(path, marks, known.get(path))),
    )


def _is_odd(path: bytes, marks: Marks | None, known: TreeEntry | None) -> bool:
    """Return whether a path is or was no plain file, but a link, a submodule, a git directory or a pipe."""
    was_odd = known is not None and not known[0].startswith(b"100")
    return was_odd or (marks is not None and not marks.is_file) or path.lower().split(b"/")[-1] == b".git"


def touched(git: Git, base: str, commit: str) -> tuple[str, ...]:
    """Return the files that differ between two commits."""
    names = git("diff-tree", "-r", "--no-renames", "--name-only", "-z", base, commit)
    return tuple(_text(path) for path in names.split(b"\0")[:-1])


def created(git: Git, base: str, commit: str, known: str) -> tuple[str, ...]:
    """Return the files of `commit` that neither the commit `base` nor the commit `known` has."""
    diff = ("diff-tree", "-r", "--no-renames", "--name-only", "-z", "--diff-filter=A")
    new = git(*diff, base, commit).split(b"\0")[:-1]
    since = frozenset(git(*diff, known, commit).split(b"\0")[:-1]) if new else ()
    return tuple(_text(path) for path in new if path in since)


def landed(git: Git, base: str, commit: str) -> Changes:
    """Return the changes of `commit` since `base`, with their size."""
    words = git("diff-tree", "-r", "--no-renames", "--name-status", "-z", base, commit).split(b"\0")[:-1]
    states = dict(zip(words[1::2], words[::2], strict=True))
    created, deleted = (tuple(_text(path) for path, kind in states.items() if kind == one) for one in (b"A", b"D"))
    return measure(git, Changes(base, commit, tuple(map(_text, states)), created, deleted))


def patch(git: Git, base: str, tree: str) -> bytes:
    """Return the difference between `base` and `tree` as a patch for git."""
    return git(*_DIFF, base, tree, "-p", "--binary", "--full-index")


def added_lines(git: Git, base: str, tree: str) -> dict[str, bytes]:
    """Return the lines that each file gains from `base` to `tree`, also in binary files."""
    added: dict[str, list[bytes]] = {}
    path, is_head = "", False
    diff = git(*_DIFF, base, tree, "-p", "--text", "--no-prefix", "-U0")
    for line in diff.split(b"\n"):
        if line.startswith(b"diff --git "):
            is_head = True
        elif line.startswith(b"@@"):
            is_head = False
        elif is_head and line.startswith(b"+++ "):
            path = _text(line.removeprefix(b"+++ ").rstrip(b"\t"))
        elif line.startswith(b"+"):
            added.setdefault(path, []).append(line[1:])
    return {path: b"\n".join(lines) for path, lines in added.items()}


def texts(
    git: Git, base: str, tree: str, is_wanted: Callable[[str], bool]
) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the wanted files that differ, with their text before and after; None if the file does not exist.

    Binary files, links, and files above MAX_TEXT_BYTES are left out.
    """
    raw = git(*_DIFF, base, tree, "--raw", "-z", "--abbrev=64").split(b"\0")[:-1]
    wanted = [(about.split(b" "), _text(path)) for about, path in zip(raw[::2], raw[1::2], strict=True)]
    wanted = [
        (about, path) for about, path in wanted if is_wanted(path) and _is_file(about[0][1:]) and _is_file(about[1])
    ]
    ids = dict.fromkeys(name for about, _ in wanted for name in about[2:4] if name.strip(b"0"))
    found = blobs(git, ids)
    for (_, _, old, new, *_), path in wanted:
        both = [found.get(name, b"") if name.strip(b"0") else None for name in (old, new)]
        if all(each is None or (b"\0" not in each and len(each) <= MAX_TEXT_BYTES) for each in both):
            before, after = (each if each is None else each.decode(errors="replace") for each in both)
            yield path, before, after


def _is_file(mode: bytes) -> bool:
    return mode.startswith(b"100") or not mode.strip(b"0")


def blobs(git: Git, names: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return the contents of git's blobs by id; ids that do not exist are left out."""
    answer, place, found = git("cat-file", "--batch", stdin=b"".join(name + b"\n" for name in names)), 0, {}
    while place < len(answer):
        end = answer.index(b"\n", place)
        name, *about = answer[place:end].split(b" ")
        place = end + 1
        if about[0] == b"blob":
            size = int(about[1])
            found[name] = answer[place : place + size]
            place += size + 1
    return found


def differing(
    git: Git, there: Mapping[bytes, TreeEntry], here: Mapping[bytes, TreeEntry], is_wanted: Callable[[str], bool]
) -> dict[str, FileChange]:
    """Return the wanted files that differ between two trees, without submodules."""
    pairs = {path: (there.get(path), here.get(path)) for path in sorted({*there, *here}) if is_wanted(_text(path))}
    pairs = {
        path: pair
        for path, pair in pairs.items()
        if pair[0] != pair[1] and not any(entry and entry[0] == SUBMODULE for entry in pair)
    }
    found = blobs(git, dict.fromkeys(entry[1] for pair in pairs.values() for entry in pair if entry))
    return {
        _text(path): FileChange(path, *((entry[0], found[entry[1]]) if entry else None for entry in pair))
        for path, pair in pairs.items()
    }


def measure(git: Git, changes: Changes) -> Changes:
    """Return the changes with their size; they must have a tree."""
    diff = (*_DIFF, changes.base, changes.tree)
    growth = 0  # in bytes, without submodules
    # `:old_mode new_mode old new status NUL path NUL`, again and again
    files = (about.split(b" ") for about in git(*diff, "--raw", "-z", "--abbrev=64").split(b"\0")[:-1:2])
    asked = b"".join(old + b"\n" + new + b"\n" for _, mode, old, new, _ in files if mode != SUBMODULE)
    for number, line in enumerate(git("cat-file", "--batch-check", stdin=asked).splitlines()):
        size = int(line.split()[2]) if b" blob " in line else 0
        growth += size if number % 2 else -size
    counted = (row.split(b"\t", 2) for row in git(*diff, "--numstat", "-z").split(b"\0")[:-1])
    return replace(
        changes,
        growth_kb=round(growth / 1024),
        lines={_text(path): sum(int(count) for count in pair if count.isdigit()) for *pair, path in counted},
        diff_hash=diff_hash(git, changes.base, changes.tree),
    )


def diff_hash(git: Git, base: str, tree: str) -> str:
    """Return a hash of a change, the same wherever the change was made."""
    return hashlib.sha256(patch(git, base, tree)).hexdigest()


def leads_out(root: Path, path: str) -> bool:
    """Return whether `path` is, or is below, a link out of `root`, such as an absolute one or one into `.git`."""
    place, top = root / path, Path(os.path.realpath(root))
    if place.is_symlink() and place.readlink().is_absolute():
        return True
    inside = Path(os.path.realpath(place))
    return not inside.is_relative_to(top) or ".git" in map(str.casefold, inside.relative_to(top).parts)


def _text(path: bytes) -> str:
    """Return a path as text.

    Invalid UTF-8 is replaced, because JSON cannot contain it; no allowlist matches the result.
    """
    return path.decode(errors="replace")


class IgnoreRules:
    """The ignore rules of one commit and of the operator's repository, written into a separate folder."""

    def __init__(self, home: Path, store: Store, repository: Repository) -> None:
        self._store, self._folder, self._known = store, home / "rules", frozenset[tuple[bytes, bytes]]()
        try:
            excluded = snapshot.read(repository.common, b"info/exclude", MAX_RULES_BYTES)
        except OSError:
            excluded = b""
        self.everywhere = ("\n".join(LEFT_BEHIND) + "\n").encode() + excluded
        (home / "excludes").write_bytes(self.everywhere)
        self._folder.mkdir()
        options = (f"--git-dir={store.data}", f"--work-tree={self._folder}")
        self._git = Git(self._folder, *options, "-c", "core.bare=false", "-c", f"core.excludesFile={home / 'excludes'}")

    def read(self, files: Mapping[bytes, TreeEntry]) -> None:
        """Read the rules from the `files` of a commit."""
        rules = {
            (path, entry[1])
            for path, entry in files.items()
            if path.rpartition(b"/")[2] == IGNORE_FILE and entry[0].startswith(b"100")
        }
        if rules == self._known:
            return
        shutil.rmtree(self._folder)
        self._folder.mkdir()
        for path, blob in rules:
            place = self._folder / path.decode(errors="surrogateescape")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(self._store.git("cat-file", "blob", blob.decode()))
        self._known = frozenset(rules)

    def among(self, paths: Iterable[bytes]) -> frozenset[bytes]:
        """Return the paths that the rules ignore."""
        asked = b"".join(HERE + path + b"\0" for path in paths)
        if not asked:
            return frozenset()
        answer = self._git("check-ignore", "-z", "--stdin", "--no-index", stdin=asked, ok=(0, 1))
        return frozenset(path.removeprefix(HERE) for path in answer.split(b"\0")[:-1])


def caches(paths: Iterable[bytes]) -> frozenset[bytes]:
    """Return the paths that are caches of earlier runs; for a path inside of a cache folder, the folder."""
    found: set[bytes] = set()
    for path in paths:
        parts = path.split(b"/")
        inner = next((at for at, part in enumerate(parts) if part in _FOLDERS), None)
        if inner is not None:
            found.add(b"/".join(parts[: inner + 1]))
        elif path.endswith(_COMPILED):
            found.add(path)
    return frozenset(found)


def up_to_git_dir(path: bytes) -> bytes:
    """Return the path; if it is inside of a git directory, this directory. `.GIT` counts as `.git`, too."""
    parts = path.split(b"/")
    inner = next((at for at, part in enumerate(parts) if part.lower() == snapshot.GIT_DIR), len(parts))
    return b"/".join(parts[: inner + 1])


def unfit(touched: Mapping[bytes, Marks | None]) -> str | None:
    """Return the reason why a change can never be landed, by any permission; None if there is none."""
    if any(part.lower() == snapshot.GIT_DIR for path in touched for part in path.split(b"/")):
        return "the change contains a separate git repository"
    there = [marks for marks in touched.values() if marks]
    if not all(marks.is_link or marks.is_file for marks in there):
        return "the change contains an entry that is neither a file nor a link"
    size = sum(marks.size for marks in there)
    if size > MAX_CHANGE_BYTES:
        return f"the changed files have {size} bytes, allowed are {MAX_CHANGE_BYTES}: make a smaller change"
    return None
