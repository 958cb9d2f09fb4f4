"""Runs a command as on a kernel without Landlock; the command's children lack it, too.

`python tests/support/no_landlock.py COMMAND...`
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys


def prefix() -> list[str]:
    """Return the words to put before a command."""
    return [sys.executable, __file__]


def forbid() -> None:
    """Have a seccomp filter answer ENOSYS to this process when it makes a set of rules."""
    load, equal, give = 0x20, 0x15, 0x06
    refuse = 0x00050000 | errno.ENOSYS
    steps = [(load, 0, 0, 0), (equal, 0, 1, 444), (give, 0, 0, refuse), (give, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
        raise OSError(ctypes.get_errno(), "no filter")


if __name__ == "__main__":
    forbid()
    os.execvp(sys.argv[1], sys.argv[1:])
