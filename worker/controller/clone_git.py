"""The git directory in a clone: made for each attempt, then used by its agent; our own git never runs in it."""

from __future__ import annotations

import os
import re
import shutil
import stat
from pathlib import Path
from tempfile import mkdtemp

from worker.controller import snapshot
from worker.controller.repository import Store, branch_of

MAX_REF_BYTES = 4096
MAX_PACKED_BYTES = 1024 * 1024
PACKED = re.compile(rb"([0-9a-f]{40,64}) (refs/[^\0 ]+)")


def renew(root: Path, store: Store, plan_id: str, commit: str, excludes: bytes) -> None:
    """Put a git directory into `root`, at `commit` of the plan's branch.

    Objects are copied: a link would let an agent write into our store. There are no hooks and no remotes.
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
    """Return whether `.git` is a link, or a file that names another place."""
    try:
        return not stat.S_ISDIR(os.lstat(root / ".git").st_mode) and bool(snapshot.read(root, b".git", MAX_REF_BYTES))
    except OSError:
        return False  # missing, or nothing that git could follow


def packed_refs(root: Path) -> set[str]:
    """Return the refs in git's file of packed refs."""
    try:
        lines = snapshot.read(root, b".git/packed-refs", MAX_PACKED_BYTES).splitlines()
    except FileNotFoundError:
        return set()
    return {found[2].decode(errors="replace") for line in lines if (found := PACKED.fullmatch(line))}
