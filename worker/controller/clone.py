"""The agents' own git directory: made anew for each attempt, written by an agent, and never run git in by us."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

from worker.controller import snapshot
from worker.controller.repository import branch_of
from worker.controller.store import Store

MAX_REF_BYTES = 4096
MAX_PACKED_BYTES = 1024 * 1024
MAX_REFS = 1000
PACKED = re.compile(rb"([0-9a-f]{40,64}) (refs/[^\0 ]+)")


def renew(root: Path, store: Store, plan_id: str, commit: str, excludes: bytes) -> None:
    """Put a git directory into `root`, at `commit` of the plan's branch.

    Objects are copied: a link would let an agent write into ours. There are no hooks and no remotes.
    """
    data = Path(mkdtemp(prefix="new-", dir=root.parent)) / "git"
    shutil.copytree(store.data / "objects/pack", data / "objects/pack")
    (data / "info").mkdir()
    (data / "info/exclude").write_bytes(excludes)
    branch = data / branch_of(plan_id)
    branch.parent.mkdir(parents=True)
    branch.write_text(f"{commit}\n")
    (data / "HEAD").write_text(f"ref: {branch_of(plan_id)}\n")
    for name in ("config", "shallow"):
        if (store.data / name).exists():
            shutil.copyfile(store.data / name, data / name)
    (data / "config").write_text((data / "config").read_text().replace("bare = true", "bare = false"))
    shutil.copyfile(store.index, data / "index")
    data.rename(root / ".git")
    data.parent.rmdir()


def leads_out(root: Path) -> bool:
    """Whether what stands for the git directory is a link, or a file that names another place."""
    try:
        return not stat.S_ISDIR(os.lstat(root / ".git").st_mode) and bool(snapshot.read(root, b".git", MAX_REF_BYTES))
    except OSError:
        return False  # none, or nothing that git could follow


def moved_refs(root: Path, plan_id: str) -> tuple[str, ...]:
    """Name the refs that an agent made beside the plan's branch; there was no other one before."""
    try:
        found = {*_loose(root), *_packed(root)} - {branch_of(plan_id)}
    except OSError:
        return ()  # it took its git directory apart
    return tuple(sorted(found))[:MAX_REFS]


def _loose(root: Path) -> Iterator[str]:
    files, _ = snapshot.contents(root, b".git", b"refs")
    yield from (f"refs/{path.decode(errors='replace')}" for path in files)


def _packed(root: Path) -> Iterator[str]:
    try:
        lines = snapshot.read(root, b".git/packed-refs", MAX_PACKED_BYTES).splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        if found := PACKED.fullmatch(line):
            yield found[2].decode(errors="replace")
