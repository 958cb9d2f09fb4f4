"""Restricts the calling process to some paths with Linux's Landlock.

It needs no privileges and no namespaces, and cannot be undone. It imports only the standard library, because the
launcher needs this before anything else may run.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # system calls, the same on all architectures but alpha
ASK_VERSION = 1
PATH_BENEATH = 1
NO_NEW_PRIVS = 38  # of prctl

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_CHAR, MAKE_DIR, MAKE_REG = 1 << 4, 1 << 5, 1 << 6, 1 << 7, 1 << 8
MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = 1 << 9, 1 << 10, 1 << 11, 1 << 12
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1, 2

OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READING = EXECUTE | READ_FILE | READ_DIR
MAKING = REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM  # never a device
RIGHTS = {
    "r": READING,
    "rw": READING | MAKING | WRITE_FILE | REFER | TRUNCATE,
    "dev": READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | IOCTL_DEV,
}
# File rights that a kernel knows, by the version of its Landlock. Version 4 added network rules, 7 the audit log.
FILES_BY_ABI = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
SCOPES_SINCE = 6


def abi() -> int:
    """Return the version of Landlock that this kernel offers to this process, 0 if there is none."""
    try:
        return max(0, _call(CREATE_RULESET, None, ctypes.c_size_t(0), ASK_VERSION))
    except (AttributeError, OSError):  # another system, an older kernel, switched off, or forbidden by a filter
        return 0


def restrict(rules: Iterable[tuple[str, str]]) -> None:
    """Allow this process and its children only the paths in `rules`.

    A rule is a path and a key of RIGHTS. With version 6 they also cannot signal outside processes or reach their
    abstract sockets. A path that does not exist is skipped. Raises OSError if the kernel refuses.
    """
    version = abi()
    handled = FILES_BY_ABI[max(known for known in FILES_BY_ABI if known <= version)]
    scopes = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS if version >= SCOPES_SINCE else 0
    # An older kernel takes a longer structure whose end is zero.
    attributes = struct.pack("=QQQ", handled, 0, scopes)
    ruleset = _call(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    try:
        for path, kind in rules:
            _add(ruleset, path, RIGHTS[kind] & handled)
        set_no_new_privileges()
        _call(RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def set_no_new_privileges() -> None:
    """Prevent programs started from here from gaining rights, as with sudo."""
    prctl(NO_NEW_PRIVS, 1)


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0))):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _add(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= OF_A_FILE
        if rights:
            _call(ADD_RULE, ruleset, PATH_BENEATH, struct.pack("=Qi", rights, place), 0)
    finally:
        os.close(place)


def _call(number: int, *args: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    answer = int(libc.syscall(ctypes.c_long(number), *args))
    if answer < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return answer
