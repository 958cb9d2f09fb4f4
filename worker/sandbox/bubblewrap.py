"""Gives a program a namespace of its own, by bubblewrap: what is not granted is not there, nor are other processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import cache

from worker.sandbox.paths import DEVICE, WRITE
from worker.sandbox.process import SOURCES
from worker.sandbox.user import User

BASE = ("--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session")
MADE = ("/proc", "/dev")  # by bubblewrap itself
PROBE_S = 10.0
TRUE = ("true",)
# Another user may not be able to read our Python or our files, which then cannot be started in there.
OURS = (sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({SOURCES!r}); import worker.sandbox.launcher")


@cache
def find(user: User | None = None) -> str | None:
    """Return bubblewrap where it is installed and can do its work, which is to start us again, for `user`."""
    program = shutil.which("bwrap")
    if not program:
        return None
    words = [program, *BASE, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", *(OURS if user else TRUE)]
    spawn = user.spawn_options if user else {}
    try:
        probe = subprocess.run(  # noqa: S603 - a fixed command
            words, cwd="/", capture_output=True, timeout=PROBE_S, check=False, **spawn
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return program if probe.returncode == 0 else None


def command(program: str, rules: Iterable[tuple[str, str]], cwd: str, temporary: str, then: Sequence[str]) -> list[str]:
    """Lay out the command that sees only `rules`, and `temporary` as /tmp too, and becomes `then`."""
    words = [program, *BASE, "--proc", "/proc", "--dev", "/dev", "--bind", temporary, "/tmp"]  # noqa: S108
    for path, kind in sorted(rules, key=lambda rule: rule[0].count("/")):  # a folder before what lies in it
        if path.startswith(MADE) or kind == DEVICE or not os.path.exists(path):  # noqa: PTH110
            continue
        words += ["--bind" if kind == WRITE else "--ro-bind", path, path]
    for link in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(link):  # noqa: PTH114 - the rules name what it leads to
            words += ["--symlink", os.readlink(link), link]  # noqa: PTH115
    return [*words, "--chdir", cwd, "--", *then]
