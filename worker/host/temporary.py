"""Names temporary folders after the process that made them, and removes those of ended processes."""

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
    """Return whether a process with this id exists; it may be another process than the one that had the id before."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def start_time(pid: int) -> str | None:
    """Return the start time of the process with this id, in a form for comparisons; None if there is none."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return "" if exists(pid) else None  # where there is no /proc


REST = re.compile(r"(\d+)-[^-]+")  # behind the host, whose name may go on with a dash and a number, too


def prefix(kind: str) -> str:
    """Return the first part of the names of this process's folders, with the host name and the process id."""
    return f"{kind}{socket.gethostname()}-{os.getpid()}-"


def remove_left_behind(kind: str, owners: Collection[int] = ()) -> None:
    """Remove the folders of this `kind` that killed processes of this host left.

    Call it before this process makes any. Only our own folders, or those of one of `owners`, are removed.
    """
    begins = f"{kind}{socket.gethostname()}-"
    for folder in Path(tempfile.gettempdir()).glob(f"{begins}*"):
        named = REST.fullmatch(folder.name.removeprefix(begins))
        with suppress(OSError):  # another worker that starts removes them, too
            if named and folder.lstat().st_uid in (os.getuid(), *owners) and not _is_another(int(named[1])):
                shutil.rmtree(folder)


def _is_another(pid: int) -> bool:
    """Return whether another process has this id. In a restarted container, the id may be our own."""
    return pid != os.getpid() and exists(pid)
