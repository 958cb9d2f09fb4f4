"""Names temporary folders after the process that made them, and removes those of processes that are gone."""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path


def exists(pid: int) -> bool:
    """Whether there is a process of this number; it may be another one than had the number before."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def start_time(pid: int) -> str | None:
    """Return when the process of this number began, in a form to be compared; None if there is none."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return "" if exists(pid) else None  # where there is no /proc


REST = re.compile(r"(\d+)-[^-]+")  # behind the host, whose name may go on with a dash and a number, too


def prefix(kind: str) -> str:
    """Begin the name of a folder of this process; containers that share the place have processes of their own."""
    return f"{kind}{socket.gethostname()}-{os.getpid()}-"


def remove_left_behind(kind: str, owners: Collection[int] = ()) -> None:
    """Remove the folders of this `kind` that processes of this host left which were killed.

    To be called before this process makes any. Only those are removed that are ours, or belong to one of `owners`.
    """
    begins = f"{kind}{socket.gethostname()}-"
    for folder in Path(tempfile.gettempdir()).glob(f"{begins}*"):
        named = REST.fullmatch(folder.name.removeprefix(begins))
        with suppress(OSError):  # another worker that starts removes them, too
            if named and folder.lstat().st_uid in (os.getuid(), *owners) and not _is_another(int(named[1])):
                shutil.rmtree(folder)


def _is_another(pid: int) -> bool:
    """Whether another process has this id; ours was that of the one before where a container starts again."""
    return pid != os.getpid() and exists(pid)
