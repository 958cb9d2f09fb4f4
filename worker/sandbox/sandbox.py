"""Decides how foreign programs are confined on this machine, and runs them."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from worker.sandbox import landlock, paths, process
from worker.sandbox.paths import DEVICE, WRITE, PathGrant
from worker.sandbox.process import SOURCES, UNCONFINED, Confinement, Job, JobResult
from worker.sandbox.user import User

log = logging.getLogger("planner.sandbox")

IDENTITY = "[user]\n\tname = agent\n\temail = agent@planner.invalid\n"
OF_OTHERS = "[safe]\n\tdirectory = *\n"  # a repository that is root's, which another user may only read
NONE_HERE = (
    "No sandbox: this kernel has no Landlock (it is in Linux 5.13 and newer, unless switched off), and no bubblewrap"
    " that works is installed. PLANNER_SANDBOX=auto goes on without one."
)
AS_ROOT = "Agents and verifications run as root, with few capabilities: PLANNER_AGENT_USER names an ordinary user."
ENTER = process.START.replace("main(sys.argv[2:])", "enter(int(sys.argv[2]))")
BASE = ("--unshare-pid", "--unshare-ipc", "--die-with-parent", "--new-session")
NO_NETWORK = "--unshare-net"
MADE = ("/proc", "/dev")  # by bubblewrap itself
PROBE_S = 10.0
TRUE = ("true",)
# Another user may not be able to read our Python or our files, which then cannot be started in there.
OURS = (sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({SOURCES!r}); import worker.sandbox.launcher")


class NoSandbox(Exception):
    """A sandbox is required, and this machine has none."""


class SandboxMode(StrEnum):
    """When foreign programs are confined: if possible, always, or never."""

    AUTO = "auto"
    REQUIRE = "require"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The confinement of programs: the paths that they may reach in addition to the system, and hidden paths."""

    mode: SandboxMode = SandboxMode.AUTO
    grants: tuple[PathGrant, ...] = ()
    hidden: tuple[Path, ...] = ()
    user: User | None = None  # user of programs, if it is another one
    has_network: bool = True  # else programs only have a separate loopback, if this host can provide one

    @property
    def isolation(self) -> tuple[str, ...]:
        """The isolation of programs on this host: `user`, `landlock`, `bwrap`, `no-network`."""
        held = {
            "user": self.user is not None,
            "landlock": self.confines and landlock.abi() > 0,
            "bwrap": self.confines and find_bubblewrap(self.user) is not None,
            "no-network": self._cuts_network,
        }
        return tuple(name for name, is_held in held.items() if is_held)

    @property
    def _cuts_network(self) -> bool:
        return not self.has_network and self.mode is not SandboxMode.OFF and can_cut_network(self.user)

    @property
    def confines(self) -> bool:
        """Whether programs are confined on this machine."""
        return self.mode is not SandboxMode.OFF and bool(landlock.abi() or find_bubblewrap(self.user))

    def with_grants(self, *grants: PathGrant) -> Sandbox:
        """Return a sandbox with further grants."""
        return replace(self, grants=self.grants + grants)

    def check(self) -> None:
        """Log once the protections of this machine.

        Raises NoSandbox with a sentence if they are required and missing.
        """
        if self.mode is SandboxMode.OFF:
            _say_once("sandbox_off", 0, None, self.user)
            return
        version, bwrap = landlock.abi(), find_bubblewrap(self.user)
        if version or bwrap:
            _say_once("sandbox_ready", version, bwrap, self.user)
        elif self.mode is SandboxMode.REQUIRE:
            raise NoSandbox(NONE_HERE)
        else:
            _say_once("sandbox_absent", version, bwrap, self.user)

    def run(self, job: Job, *, writable: Sequence[Path] = (), readable: Sequence[Path] = ()) -> JobResult:
        """Run `job`, which may write to `writable` and to a temporary folder.

        The folder is TMPDIR, and contains HOME with links to the granted parts of the real one. Raises NoSandbox.
        """
        self.check()
        given = job.variables
        if self.user:
            given |= self.user.variables
        if self.mode is SandboxMode.OFF:
            if self.user and self.user.home and given.get("HOME") == os.environ.get("HOME"):
                given["HOME"] = self.user.home  # unless the operator names one for this program
            return process.run(replace(job, env=given), replace(UNCONFINED, user=self.user))
        with _temporary() as place:
            given |= {"TMPDIR": str(place / "tmp"), **self._home(place / "home", given.get("HOME"))}
            if self.user:
                self.user.own(place)
            grants = [PathGrant(path, writable=True) for path in (*writable, place)]
            here = () if any(job.cwd.is_relative_to(path) for path in writable) else (job.cwd,)
            grants += [*map(PathGrant, (*here, *readable)), *self.grants]
            rules = paths.rules(job.argv, given.get("PATH", os.defpath), grants, self.hidden)
            return process.run(replace(job, env=given), self._confinement(rules, job.cwd, place), place)

    def _home(self, home: Path, real: str | None) -> dict[str, str]:
        """Create a home with links to the granted paths in the real home, ours or the user's. Return HOME for it.

        Returns no variable if the operator sets another HOME for this program.
        """
        if real != os.environ.get("HOME"):
            return {}
        home.mkdir()
        for place in filter(None, (self.user.home if self.user else None, real)):
            for grant in self.grants:
                if grant.path.is_relative_to(place) and grant.path != Path(place):
                    link = home / grant.path.relative_to(place)
                    link.parent.mkdir(parents=True, exist_ok=True)
                    if not link.is_symlink() and not link.exists():
                        link.symlink_to(grant.path)
        if not (home / ".gitconfig").exists():
            (home / ".gitconfig").write_text(IDENTITY + (OF_OTHERS if self.user else ""))
        return {"HOME": str(home)}

    def _confinement(self, rules: Sequence[tuple[str, str]], cwd: Path, place: Path) -> Confinement:
        version, bwrap = landlock.abi(), find_bubblewrap(self.user)
        if not bwrap:
            return Confinement(rules, landlock=bool(version), user=self.user)
        inner = [sys.executable, "-I", "-S", "-c", ENTER, SOURCES]
        source = [(str(Path(SOURCES) / "worker"), paths.READ)]
        command = bubblewrap_command(bwrap, [*rules, *source], str(cwd), str(place / "tmp"), inner)
        if self._cuts_network:
            command.insert(1, NO_NETWORK)
        return Confinement([*rules, ("/tmp", paths.WRITE)], landlock=bool(version), bwrap=command, user=self.user)  # noqa: S108


@cache
def _say_once(event: str, version: int, bwrap: str | None, user: User | None) -> None:
    level = logging.WARNING if event == "sandbox_absent" else logging.INFO
    said: dict[str, object] = {"landlock": version, "bwrap": bool(bwrap), "uid": user.uid if user else os.geteuid()}
    if said["uid"] == 0:
        said["advice"] = AS_ROOT
    log.log(level, event, extra=said | ({"reason": NONE_HERE} if level == logging.WARNING else {}))


@contextmanager
def _temporary() -> Iterator[Path]:
    """Yield a private folder, and remove it regardless of a program's changes to its content."""
    with TemporaryDirectory(prefix="planner-run-", ignore_cleanup_errors=True) as name:
        place = Path(os.path.realpath(name))
        (place / "tmp").mkdir()
        try:
            yield place
        finally:
            for folder, _, _ in os.walk(place):
                if not os.access(folder, os.W_OK | os.X_OK):
                    Path(folder).chmod(0o700)
            shutil.rmtree(place, ignore_errors=True)


def find_bubblewrap(user: User | None = None) -> str | None:
    """Return the path of bubblewrap; None if it is missing or cannot start this Python for `user`."""
    program = shutil.which("bwrap")
    return program if program and _works(program, BASE, user) else None


def can_cut_network(user: User | None = None) -> bool:
    """Return whether bubblewrap can leave programs of `user` no network except a separate loopback."""
    program = find_bubblewrap(user)
    return program is not None and _works(program, (*BASE, NO_NETWORK), user)


@cache
def _works(program: str, options: Sequence[str], user: User | None) -> bool:
    started = OURS if user else TRUE
    words = [program, *options, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", *started]
    spawn = user.spawn_options if user else {}
    try:
        probe = subprocess.run(  # noqa: S603 - a fixed bubblewrap_command
            words, cwd="/", capture_output=True, timeout=PROBE_S, check=False, **spawn
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == 0


def bubblewrap_command(
    program: str, rules: Iterable[tuple[str, str]], cwd: str, temporary: str, then: Sequence[str]
) -> list[str]:
    """Return the command of bubblewrap that runs `then` and shows only `rules`, with `temporary` also as /tmp."""
    words = [program, *BASE, "--proc", "/proc", "--dev", "/dev", "--bind", temporary, "/tmp"]  # noqa: S108
    for path, kind in sorted(rules, key=lambda rule: rule[0].count("/")):  # a folder before its contents
        if path.startswith(MADE) or kind == DEVICE or not os.path.exists(path):  # noqa: PTH110
            continue
        words += ["--bind" if kind == WRITE else "--ro-bind", path, path]
    for link in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        if os.path.islink(link):  # noqa: PTH114 - the rules name what it leads to
            words += ["--symlink", os.readlink(link), link]  # noqa: PTH115
    return [*words, "--chdir", cwd, "--", *then]
