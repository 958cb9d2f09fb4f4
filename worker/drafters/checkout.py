"""Where a drafter works: a repository of its own, at the commit that its goal begins at.

It shares the objects of the repository that the operator named, writes nothing into that, and goes with the question.
"""

from __future__ import annotations

import logging
import re
import subprocess
from pathlib import Path

from worker.host.git import Git, GitError

log = logging.getLogger("planner.drafters")

COMMIT = re.compile(r"[0-9a-f]{7,64}")


def check_out(place: Path, base: str | None, tree: Path) -> Path:
    """Check the commit `base` of the repository `place` out as `tree`; returns `place` where it has no such commit."""
    if base is None or not COMMIT.fullmatch(base):
        return place
    try:
        theirs = Git(place)
        commit = theirs.line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{base}^{{commit}}")
        objects = theirs.line("rev-parse", "--path-format=absolute", "--git-path", "objects")
        tree.mkdir()
        ours = Git(tree)
        ours("init", "--quiet")
        (tree / ".git/objects/info").mkdir(exist_ok=True)
        (tree / ".git/objects/info/alternates").write_text(f"{objects}\n")
        ours("checkout", "--quiet", "--detach", commit)
    except (GitError, OSError, subprocess.TimeoutExpired) as error:
        log.warning("draft not at its base", extra={"error": f"{type(error).__name__}: {error}"[:500]})
        return place
    return tree
