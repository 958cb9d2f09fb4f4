"""The process between ours and a foreign program: starts that program confined, and stops all its processes.

It is a separate process for two reasons. Python must not run between fork and exec in a process with threads. And only
the nearest ancestor that is a "child subreaper" inherits a daemon whose parent has ended. Imports only Python's own
library.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

from worker.sandbox import landlock

PARENT_DEATH_SIGNAL, DUMPABLE, DROP_CAPABILITY, SUBREAPER = 1, 4, 24, 36  # of prctl
# Of a program that runs as root: about files and users, as an installation needs them; nothing about the machine.
KEPT_CAPABILITIES = frozenset({0, 1, 2, 3, 4, 5, 6, 7, 10})
CAPABILITIES = 64  # more than there are
NOT_RUN = 127  # as in shells
GRACE_S = 2.0  # between the polite signal and the other one
KILLING_S = 10.0  # after this time a process that does not die is left: it hangs in the kernel
IS_LINUX = sys.platform == "linux"


def main(descriptors: list[str]) -> None:
    """Run the requested program, stop all its processes, and write its exit code.

    Of the three `descriptors`, the first has the request, and the last takes the answer. The program is also stopped at
    SIGTERM, and when our other side closes the second descriptor.
    """
    request, control, status = map(int, descriptors)
    with open(request, "rb", closefd=False) as file:
        program = json.load(file)
    if IS_LINUX:
        landlock.prctl(DUMPABLE, 0)
        landlock.prctl(SUBREAPER, 1)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    asked: list[int] = []
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: asked.append(signal.SIGTERM))
    child = os.fork()
    if not child:
        _become(program, request, (control, status, woken, wake))
    os.close(request)
    code = _wait(child, control, woken, asked)
    if code is None:
        code = _end_politely(child, woken)
    _kill_all()
    with contextlib.suppress(OSError):
        os.write(status, json.dumps({"code": code}).encode())


def enter(request: int) -> None:
    """Become the program in the file descriptor `request`; this runs inside of bubblewrap."""
    os.lseek(request, 0, os.SEEK_SET)
    with os.fdopen(request, "rb") as file:
        program = json.load(file)
    _confine(program)
    _execute(program["argv"], program["env"])


def _become(program: dict[str, Any], request: int, ours: tuple[int, ...]) -> None:
    """Become the program; never returns."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        for descriptor in ours:
            os.close(descriptor)
        if program["memory"]:
            resource.setrlimit(resource.RLIMIT_AS, (program["memory"], program["memory"]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _become_user(program)
        if IS_LINUX:
            landlock.prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)  # a change of user would take it back
        if program["bwrap"]:
            os.set_inheritable(request, True)
            _execute([*program["bwrap"], str(request)], {})
        os.close(request)
        _confine(program)
        _execute(program["argv"], program["env"])
    except BaseException as error:
        _say(f"cannot be confined: {error}")
    finally:
        os._exit(NOT_RUN)


def _become_user(program: dict[str, Any]) -> None:
    """Become the user of the request, if it names one: without groups, capabilities and set-uid programs."""
    if not program["user"]:
        return
    uid, gid = program["user"]
    if IS_LINUX:
        _drop_capabilities(frozenset())
        landlock.set_no_new_privileges()
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)  # the kernel takes the capabilities that we hold with it


def _confine(program: dict[str, Any]) -> None:
    if not program["confined"]:
        return
    landlock.set_no_new_privileges()
    if os.geteuid() == 0:
        _drop_capabilities(KEPT_CAPABILITIES)
    if program["landlock"]:
        landlock.restrict((path, kind) for path, kind in program["rules"])


def _drop_capabilities(kept: frozenset[int]) -> None:
    """Drop all capabilities but the `kept` ones for programs that this process becomes."""
    for number in range(CAPABILITIES):
        with contextlib.suppress(OSError):  # there is no such one
            if number not in kept:
                landlock.prctl(DROP_CAPABILITY, number)


def _execute(argv: list[str], env: dict[str, str]) -> None:
    try:
        os.execvpe(argv[0], argv, env)  # noqa: S606 - the catalogue's or the operator's command, no shell
    except (OSError, ValueError) as error:
        _say(f"{argv[0]}: {getattr(error, 'strerror', None) or error}")
        os._exit(NOT_RUN)


def _say(message: str) -> None:
    os.write(2, message.encode(errors="replace") + b"\n")


def _wait(child: int, control: int, woken: int, asked: list[int]) -> int | None:
    """Return the exit code of `child` when it ends; None if it must be stopped before."""
    while not asked:
        if (code := _reaped(child)) is not None:
            return code
        ready, _, _ = select.select([woken, control], [], [])
        if control in ready:
            return None
        _drain(woken)
    return None


def _end_politely(child: int, woken: int) -> int:
    deadline = time.monotonic() + GRACE_S
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGTERM)
    while (left := deadline - time.monotonic()) > 0:
        if (code := _reaped(child)) is not None:
            return code
        select.select([woken], [], [], left)
        _drain(woken)
    return -signal.SIGKILL


def _reaped(child: int) -> int | None:
    """Reap ended children. Return the code of `child` if it is among them."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
    return code


def _drain(woken: int) -> None:
    with contextlib.suppress(BlockingIOError):
        os.read(woken, 4096)


def _kill_all() -> None:
    """Kill our children until there are none; when a child ends, we inherit its children.

    A program that forks and ends in a loop could be faster than this process. So all processes are moved to our
    processor: while we kill them, they cannot run.
    """
    deadline = time.monotonic() + KILLING_S
    if IS_LINUX:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    while time.monotonic() < deadline:
        tree = children(os.getpid())
        for pid in tree:
            tree += children(pid)
        for pid in tree:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                if IS_LINUX:
                    os.sched_setaffinity(pid, os.sched_getaffinity(0))
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def children(parent: int) -> list[int]:
    """Return the processes that any thread of `parent` has started or inherited."""
    try:
        return [pid for thread in os.listdir(f"/proc/{parent}/task") for pid in _children(parent, thread)]  # noqa: PTH208
    except FileNotFoundError:  # such lists are not in every kernel; or it has ended
        return [pid for pid in _processes() if _parent(pid) == parent]
    except OSError:
        return []


def _children(process: int, thread: str) -> list[int]:
    with open(f"/proc/{process}/task/{thread}/children", "rb") as file:  # noqa: PTH123 - asked in a tight loop
        return [int(word) for word in file.read().split()]


def _processes() -> list[int]:
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    return []


def _parent(pid: int) -> int:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().rpartition(b")")[2].split()[1])
    return 0
