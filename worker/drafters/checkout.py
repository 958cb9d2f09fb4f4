"""The working directory of a drafter: a separate repository at the base commit of its goal.

It shares the objects of the operator's repository, writes nothing into that, and is deleted with the question.
"""

from __future__ import annotations

import logging
import re
import subprocess
from pathlib import Path

from worker.host.git import Git, GitError

log = logging.getLogger("planner.drafters")

COMMIT = re.compile(r"[0-9a-fA-F]{7,64}")


def check_out(place: Path, base: str | None, tree: Path) -> Path:
    """Check out the commit `base` of the repository `place` as `tree`. Return the folder to work in.

    This is `tree`, or `place` if there is no base or the checkout fails. A failure is logged.
    """
    if base is None:
        return place
    try:
        _check_out(Git(place), base, tree)
    except (GitError, OSError, subprocess.TimeoutExpired) as error:
        log.warning("draft not at its base", extra={"error": f"{type(error).__name__}: {error}"[:500]})
        return place
    return tree


def _check_out(theirs: Git, base: str, tree: Path) -> None:
    if not COMMIT.fullmatch(base):
        raise GitError(f"{base!r} is not the id of a commit")
    commit = theirs.line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{base.lower()}^{{commit}}")
    objects, shallow = (
        Path(theirs.line("rev-parse", "--path-format=absolute", "--git-path", name)) for name in ("objects", "shallow")
    )
    tree.mkdir()
    ours = Git(tree)
    ours("init", "--quiet", f"--object-format={theirs.line('rev-parse', '--show-object-format')}")
    (tree / ".git/objects/info").mkdir(exist_ok=True)
    (tree / ".git/objects/info/alternates").write_text(f"{objects}\n")
    if shallow.exists():  # where the history of a shallow clone ends
        (tree / ".git/shallow").write_bytes(shallow.read_bytes())
    ours("checkout", "--quiet", "--detach", commit)
