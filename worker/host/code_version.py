"""The version of the code that runs, and the commit that it was built from."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from worker.host.git import Git, GitError

HERE = Path(__file__)
CHECKOUT = HERE.parents[2]

try:
    CODE_VERSION = version("planner-worker")
except PackageNotFoundError:  # run from its sources
    CODE_VERSION = "unknown"


def commit() -> str:
    """Return the commit that the build recorded, else the commit of the git checkout, else `unknown`."""
    try:
        return HERE.with_name("commit.txt").read_text().strip()
    except OSError:
        pass
    if not (CHECKOUT / ".git").exists():
        return "unknown"
    try:
        return Git(CHECKOUT).line("describe", "--always", "--dirty", "--exclude=*", "--abbrev=12")
    except (OSError, GitError):
        return "unknown"
