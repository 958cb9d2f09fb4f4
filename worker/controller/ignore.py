"""Which new files are no change: those that the commit an attempt began at ignores, and what tools leave behind.

An agent's own `.gitignore` counts for nothing here, or it could hide a file from us that the verification reads.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from worker.controller import snapshot
from worker.controller.repository import Repository
from worker.controller.store import Entry, Store
from worker.host.git import Git

# What tools leave behind, also in a repository without a .gitignore. Names that a project could mean are not here.
CACHES = ("__pycache__/", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", ".hypothesis/")  # believed by those tools
COMPILED = (".pyc", ".pyo")
LEFT_BEHIND = (
    *(*CACHES, "*.py[cod]", ".tox/", ".nox/", ".coverage", ".coverage.*", ".eggs/", "*.egg-info/"),
    *(".venv/", "node_modules/", ".gradle/", ".DS_Store"),
)
NAME = b".gitignore"
_FOLDERS = frozenset(name.removesuffix("/").encode() for name in CACHES)
_COMPILED = tuple(name.encode() for name in COMPILED)
HERE = b"./"  # so that no name is taken for a pattern
MAX_BYTES = 1024 * 1024


class IgnoreRules:
    """The rules of one commit, laid out in a folder of our own, with those of the operator's repository."""

    def __init__(self, home: Path, store: Store, repository: Repository) -> None:
        self._store, self._folder, self._known = store, home / "rules", frozenset[tuple[bytes, bytes]]()
        left = ("\n".join(LEFT_BEHIND) + "\n").encode()
        self.everywhere = left + _excludes(repository)
        (home / "excludes").write_bytes(self.everywhere)
        self._folder.mkdir()
        options = (f"--git-dir={store.data}", f"--work-tree={self._folder}")
        self._git = Git(self._folder, *options, "-c", "core.bare=false", "-c", f"core.excludesFile={home / 'excludes'}")

    def read(self, files: Mapping[bytes, Entry]) -> None:
        """Take the rules from the `files` of a commit."""
        rules = {
            (path, entry[1])
            for path, entry in files.items()
            if path.rpartition(b"/")[2] == NAME and entry[0].startswith(b"100")
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
        """Return those of `paths` that are ignored."""
        asked = b"".join(HERE + path + b"\0" for path in paths)
        if not asked:
            return frozenset()
        told = self._git("check-ignore", "-z", "--stdin", "--no-index", stdin=asked, ok=(0, 1))
        return frozenset(path.removeprefix(HERE) for path in told.split(b"\0")[:-1])


def caches(paths: Iterable[bytes]) -> frozenset[bytes]:
    """Return what of `paths` holds results of earlier runs, as the folder around them where there is one."""
    return frozenset(filter(None, map(_cache, paths)))


def _cache(path: bytes) -> bytes | None:
    parts = path.split(b"/")
    inner = next((at for at, part in enumerate(parts) if part in _FOLDERS), None)
    if inner is not None:
        return b"/".join(parts[: inner + 1])
    return path if path.endswith(_COMPILED) else None


def _excludes(repository: Repository) -> bytes:
    try:
        return snapshot.read(repository.common, b"info/exclude", MAX_BYTES)
    except OSError:
        return b""
