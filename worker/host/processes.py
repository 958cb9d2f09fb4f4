"""Asks the system about processes of this host."""

from __future__ import annotations

import os
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
    """Tell when the process of this number began, in a form to be compared; None if there is none."""
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return "" if exists(pid) else None  # where there is no /proc
