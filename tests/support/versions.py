"""The version before this one, out of the history of this repository: its workers run beside those of today."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from redis import Redis

from worker.store.keys import DEPLOYMENT

OLDER = "886dab1024529ffdac96efffd9efc6a88e841e20"  # to be changed at a release: the commit that was released last
ROOT = Path(__file__).parents[2]
FOLDERS = ("schemas", "tasks", "worker", "tests")


class NoHistory(Exception):
    """This clone lacks the commit of the version before this one."""


def older_sources(directory: Path) -> Path:
    """Unpack the sources of OLDER into `directory`, fetching the commit where this clone has no history.

    Its workers use the packages that are installed for today's. Raises NoHistory with a sentence.
    """
    if _git("cat-file", "-e", f"{OLDER}^{{commit}}").returncode:
        _git("fetch", "--quiet", "--depth=1", "origin", OLDER)
    packed = _git("archive", "--format=tar", OLDER, *FOLDERS)
    if packed.returncode:
        raise NoHistory(
            f"This clone does not have the commit {OLDER}, whose workers have to run beside today's: "
            "get the history with `git fetch --unshallow`, and run this test again."
        )
    directory.mkdir(exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(directory, filter="data")
    return directory


def keep_layout(client: Redis, partitions: int = 1) -> None:
    """Give a new server the layout that workers of the version before can read."""
    client.hset(DEPLOYMENT, mapping={"partitions": partitions, "layout": 1})


def of(sources: Path | None, command: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Have a command of python run with other `sources`, if given; returns it with the variables that it needs."""
    if sources is None:
        return list(command), {}
    return ["env", "--chdir", str(sources), *command], {"PYTHONPATH": str(sources)}


def _git(*words: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=False)
