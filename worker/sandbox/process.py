"""Runs a command without a shell, and stops it with all its children at its timeout or when it is no longer wanted."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from schemas import codec
from worker.sandbox import landlock, launcher
from worker.sandbox.user import User

POLL_S = 0.05
ENDING_S = launcher.GRACE_S + launcher.KILLING_S + 3.0  # time for the launcher to stop everything
TAIL_BYTES = 256 * 1024
HEARD_BYTES = 1024 * 1024  # at once
TIMED_OUT = 124  # as in timeout(1)
# Not for agents or tests: the planner's settings and passwords, and variables that would mislead git or pytest.
PRIVATE = (
    *("PLANNER_", "SENTRY_", "REDIS", "VALKEY", "CELERY_", "GIT_", "PYTEST_", "ACTIONS_ID_TOKEN_"),
    *("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"),  # they contain keys of a collector
)
# For a program with only the necessary variables.
BASIC_VARIABLES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    }
)
WRITES_NO_BYTECODE = {"PYTHONDONTWRITEBYTECODE": "1"}
SOURCES = str(Path(__file__).resolve().parents[2])
START = "import sys; sys.path.append(sys.argv[1]); from worker.sandbox import launcher; launcher.main(sys.argv[2:])"

_starting = threading.Lock()
_launchers: set[int] = set()  # that this process has started and not reaped yet


class Abandoned(Exception):
    """The work is no longer wanted; the message is the reason."""


class TooMuchPrinted(Abandoned):
    """The command printed more than permitted."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """The result of a command: its exit code, the ends of both outputs, and the digest of its standard output."""

    exit_code: int
    stdout: str
    stderr: str
    digest: str
    timed_out: bool = False
    stdout_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Printed:
    """Both outputs of a command, its exit code (None if it was abandoned), and its time in seconds."""

    stdout: IO[bytes]
    stderr: IO[bytes]
    exit_code: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """Limits of a command in bytes: its address space, its two outputs, and the end of an output that we keep."""

    memory: int | None = None
    stdout: int | None = None
    stderr: int | None = None
    kept: int = TAIL_BYTES


UNLIMITED = ResourceLimits()


@dataclass(frozen=True, slots=True)
class Job:
    """A command to run in `cwd`, without a shell, until it ends, its time is over, or it is no longer `wanted`."""

    argv: Sequence[str]
    cwd: Path
    timeout_s: float
    wanted: Callable[[], bool]
    stdin: bytes = b""
    merge: bool = False  # whether its standard error goes where its output goes
    env: Mapping[str, str] | None = None  # all of its environment; by default ours without private variables
    limits: ResourceLimits = UNLIMITED
    hear: Callable[[bytes], object] | None = None  # is given what it prints on its standard output, soon after
    record: Callable[[Printed], object] | None = None  # is given all that it printed, however it ended

    @property
    def variables(self) -> dict[str, str]:
        """The environment of the command."""
        return dict(environment() if self.env is None else self.env)


@dataclass(frozen=True, slots=True)
class Confinement:
    """How a command is confined: to the paths of `rules` if `landlock` is set, and by bubblewrap's command `bwrap`."""

    rules: Sequence[tuple[str, str]] = ()
    landlock: bool = False
    bwrap: Sequence[str] = ()
    is_confined: bool = True
    user: User | None = None  # whom it runs as, where that is not us


UNCONFINED = Confinement(is_confined=False)


def environment() -> dict[str, str]:
    """Return our environment without private variables."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(PRIVATE)}
    return kept | WRITES_NO_BYTECODE


def basic_environment(more: Collection[str] = ()) -> dict[str, str]:
    """Return the variables of our environment that every program needs, and those in `more`."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in BASIC_VARIABLES or name in more or name.startswith("LC_")
    }


def run(job: Job, confinement: Confinement = UNCONFINED, temporary: Path | None = None) -> JobResult:
    """Run a command. Raises Abandoned, with nothing left running, once it is no longer wanted.

    Its input and output are files in `temporary`: no pipe can fill up, and a forgotten grandchild cannot keep one open.
    Raises TooMuchPrinted beyond the job's limits.
    """
    limits = job.limits
    request = {
        "argv": list(map(str, job.argv)),
        "env": job.variables,
        "memory": limits.memory,
        "confined": confinement.is_confined,
        "landlock": confinement.landlock,
        "rules": list(confinement.rules),
        "bwrap": list(confinement.bwrap),
        "user": [user.uid, user.gid] if (user := confinement.user) else None,
    }
    with _file(temporary) as given, _file(temporary) as out, _file(temporary) as err:
        given.write(job.stdin)
        given.seek(0)
        if user:
            for file in (given, out, err):  # it may open them again, as /dev/stderr
                os.fchown(file.fileno(), user.uid, user.gid)
        printed = ((out, limits.stdout), (err, limits.stderr))
        started, code = time.monotonic(), None
        try:
            with _launched(request, job.cwd, given, out, out if job.merge else err) as program:
                is_over = _wait(program.process, started + job.timeout_s, _hearing(job, out), printed)
                own = program.end()
            code = own if is_over else TIMED_OUT
        finally:
            if job.record:
                job.record(Printed(out, err, code, time.monotonic() - started))
        return JobResult(
            exit_code=code,
            stdout=_tail(out, limits.kept),
            stderr=_tail(err, limits.kept),
            digest=_digest(out),
            timed_out=not is_over,
            stdout_bytes=os.fstat(out.fileno()).st_size,
        )


def _file(folder: Path | None) -> IO[bytes]:
    """Return a temporary file without a name, opened to append: a program that opens it again overwrites nothing."""
    return TemporaryFile("a+b", dir=folder)


@dataclass(frozen=True, slots=True)
class _Program:
    """The process of a launcher with its command; it writes the command's exit code to the pipe `status`."""

    process: subprocess.Popen[bytes]
    status: int

    def end(self) -> int:
        """Stop the launcher, which stops everything. Return the command's code."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(ENDING_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        os.set_blocking(self.status, False)
        with suppress(OSError, ValueError):
            return int(json.loads(os.read(self.status, 4096))["code"])
        return self.process.returncode


@contextmanager
def _launched(
    request: Mapping[str, Any], cwd: Path, given: IO[bytes], out: IO[bytes], err: IO[bytes]
) -> Iterator[_Program]:
    if launcher.IS_LINUX:  # so that the orphans of a launcher that was killed become ours instead of init's
        landlock.prctl(launcher.SUBREAPER, 1)
    with TemporaryFile() as file, ExitStack() as stack:
        file.write(codec.dumps(request))
        file.seek(0)
        control_end, _ = _pipe(stack)  # the launcher ends everything when our end is closed, also by our death
        status, status_end = _pipe(stack)
        passed = (file.fileno(), control_end, status_end)
        words = [sys.executable, "-I", "-S", "-c", START, SOURCES, *map(str, passed)]
        with _starting:
            process = subprocess.Popen(  # noqa: S603 - our own command
                words, cwd=cwd, env={}, stdin=given, stdout=out, stderr=err, start_new_session=True, pass_fds=passed
            )
            _launchers.add(process.pid)
        program = _Program(process, status)
        try:
            yield program
        finally:
            program.end()
            with _starting:
                _launchers.discard(process.pid)
            if process.returncode:  # it did not end by itself: its children are ours now
                _end_orphans()


def _pipe(stack: ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        stack.callback(os.close, end)
    return ends


def _wait(
    process: subprocess.Popen[bytes],
    until: float,
    wanted: Callable[[], bool],
    printed: Sequence[tuple[IO[bytes], int | None]],
) -> bool:
    """Return True when the command ends, and False at its timeout. Raises Abandoned or TooMuchPrinted."""
    while time.monotonic() < until:
        if any(most is not None and os.fstat(file.fileno()).st_size > most for file, most in printed):
            raise TooMuchPrinted
        if not wanted():
            raise Abandoned("unwanted")
        with suppress(subprocess.TimeoutExpired):
            process.wait(POLL_S)
            return True
    return False


def _hearing(job: Job, out: IO[bytes]) -> Callable[[], bool]:
    """Return a function like `job.wanted` that first passes new output of the command to `job.hear`."""
    if (hear := job.hear) is None:
        return job.wanted
    at = 0

    def wanted() -> bool:
        nonlocal at
        while new := os.pread(out.fileno(), HEARD_BYTES, at):
            at += len(new)
            hear(new)
        return job.wanted()

    return wanted


def _end_orphans() -> None:
    """Kill the processes that a killed launcher left: our children in a session of neither us nor a launcher."""
    deadline = time.monotonic() + launcher.KILLING_S
    while time.monotonic() < deadline and (orphans := _orphans()):
        for pid in orphans:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _orphans() -> list[int]:
    ours = os.getsid(0)
    with _starting:
        return [
            pid for pid in launcher.children(os.getpid()) if pid not in _launchers and _session(pid) not in (ours, None)
        ]


def _session(pid: int) -> int | None:
    with suppress(OSError):
        return os.getsid(pid)
    return None


def _tail(stream: IO[bytes], most: int) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - most))
    return stream.read().decode(errors="replace")


def _digest(stream: IO[bytes]) -> str:
    stream.seek(0)
    return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"  # type: ignore[arg-type]
