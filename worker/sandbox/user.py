"""The user that agents and verifications run as: another one if we are root and the operator names it."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LARGEST = 2**32 - 2  # the one above means "no user" to the kernel
# Needed to change owners, to read and remove leftovers, to become another user, and to kill its processes.
NEEDED = {0: "CHOWN", 1: "DAC_OVERRIDE", 3: "FOWNER", 5: "KILL", 6: "SETGID", 7: "SETUID"}
PASSABLE = 0o711  # a folder of ours with a folder of theirs in it: they can go through, and see nothing else
PROBE_S = 30.0


class WrongUser(ValueError):
    """Nothing can run as this user; the message has the reason as a sentence."""


@dataclass(frozen=True, slots=True)
class User:
    """An ordinary user of this machine; `home` is None for a user number without a name."""

    name: str
    uid: int
    gid: int
    home: str | None = None

    @classmethod
    def find(cls, name: str) -> User:
        """Return a user by name or number. Raises WrongUser if programs cannot run as it."""
        if os.geteuid() != 0:
            raise WrongUser(f"{name}: only root can run programs as another user, and this runs as uid {os.geteuid()}.")
        user = cls._known(name)
        if user.uid == 0:
            raise WrongUser(f"{name}: this is root itself; name an ordinary user.")
        if missing := _missing_capabilities():
            raise WrongUser(f"{name}: this process has no right to run programs as others: {missing} missing.")
        if not user.reaches(tempfile.gettempdir()):
            raise WrongUser(f"{name}: this user cannot enter {tempfile.gettempdir()}, where work is done (TMPDIR).")
        return user

    @classmethod
    def _known(cls, name: str) -> User:
        if not (name.isascii() and name.isdecimal()):
            try:
                return cls._of(pwd.getpwnam(name))
            except (KeyError, ValueError) as error:
                raise WrongUser(f"{name}: there is no such user on this machine.") from error
        if (uid := int(name)) > LARGEST:
            raise WrongUser(f"{name}: no user has a number beyond {LARGEST}.")
        with suppress(KeyError):
            return cls._of(pwd.getpwuid(uid))
        return cls(name, uid, uid)

    @classmethod
    def _of(cls, entry: pwd.struct_passwd) -> User:
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir)

    @property
    def spawn_options(self) -> Mapping[str, Any]:
        """The arguments of subprocess to start a program as this user."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    @property
    def variables(self) -> dict[str, str]:
        """The variables that contain the name of the user."""
        return {"USER": self.name, "LOGNAME": self.name}

    def reaches(self, folder: str) -> bool:
        """Return whether this user may enter `folder`."""
        enter = ["/bin/sh", "-c", 'cd -- "$1"', "sh", folder]
        done = subprocess.run(  # noqa: S603 - a fixed command
            enter, cwd="/", env={}, capture_output=True, timeout=PROBE_S, check=False, **self.spawn_options
        )
        return done.returncode == 0

    def own(self, top: Path) -> None:
        """Make this user the owner of everything at `top`, which we have written.

        No link is followed. A file with another hard link is left alone: we make none, so another process did.
        """
        for _, folders, files, handle in os.fwalk(top):
            os.chown(handle, self.uid, self.gid)
            for name in (*folders, *files):
                found = os.stat(name, dir_fd=handle, follow_symlinks=False)
                if found.st_uid != self.uid and not stat.S_ISDIR(found.st_mode) and found.st_nlink == 1:
                    os.chown(name, self.uid, self.gid, dir_fd=handle, follow_symlinks=False)


def _missing_capabilities() -> str:
    """Return the capabilities that we need and lack, as in a container that drops them."""
    if sys.platform != "linux":
        return ""
    lines = Path("/proc/self/status").read_text().splitlines()
    held = next((int(line.split()[1], 16) for line in lines if line.startswith("CapEff:")), -1)
    return ", ".join(f"CAP_{name}" for number, name in NEEDED.items() if not held & 1 << number)
