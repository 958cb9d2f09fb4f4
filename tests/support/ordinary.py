"""Runs a command as an ordinary user: uid 1000, no capabilities, no new privileges, user namespaces forbidden.

`python tests/support/ordinary.py COMMAND...`, as root. compose.yaml runs our containers under the same limits. With
`as-root` before the command it stays root, on a machine whose other users can read the interpreter. The limit of user
namespaces applies in a new namespace, so that it changes nothing for the machine. In that namespace every user can pass
through the home of root, in which the interpreter may be installed.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp

NEW_USER, NEW_MOUNTS = 0x10000000, 0x00020000  # of unshare
UID = 1000
USER = [
    *("setpriv", "--reuid", str(UID), "--regid", str(UID), "--clear-groups"),
    *("--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--"),
]


def prefix(*, as_root: bool = False) -> list[str]:
    """Return the words to put before a command."""
    return [sys.executable, __file__, *(["as-root"] if as_root else [])]


def main(argv: list[str]) -> None:
    """Make the namespace, and become `argv` in it."""
    ready, unshared = os.pipe()
    go, mapped = os.pipe()
    me = os.getpid()
    if not os.fork():
        os.read(ready, 1)
        for kind in ("uid", "gid"):
            Path(f"/proc/{me}/{kind}_map").write_text("0 0 65536\n")
        os.write(mapped, b".")
        os._exit(0)
    if ctypes.CDLL(None, use_errno=True).unshare(NEW_USER | NEW_MOUNTS):
        sys.exit(f"no namespace: {os.strerror(ctypes.get_errno())}")
    os.write(unshared, b".")
    os.read(go, 1)
    os.wait()
    Path("/proc/sys/user/max_user_namespaces").write_text("0")
    _let_pass_through(Path("~root").expanduser())
    argv = argv[1:] if argv[0] == "as-root" else [*USER, *argv]
    os.execvp(argv[0], argv)


def _let_pass_through(home: Path) -> None:
    """Mount a folder over `home` that every user may enter, with the same installations in it."""
    open_home = Path(mkdtemp(prefix="home-"))
    open_home.chmod(0o755)
    for path in home.iterdir():
        if path.is_dir() and Path(sys.base_prefix).is_relative_to(path):
            (open_home / path.name).mkdir()
            subprocess.run(["mount", "--rbind", path, open_home / path.name], check=True)
            subprocess.run(["mount", "--rbind", open_home, home], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
