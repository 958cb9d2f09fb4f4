"""A planner on a server of its own and a controller: the processes that play one fix, and their logs."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from tests.real import agent
from tests.real.fix import CannotPlay, Fix
from tests.real.history import Repository, repo_name
from worker.host import embedded_server
from worker.process.launch import worker_command

PLANNER = (sys.executable, "-P", "-c", "from worker.start import planner; planner()")
SETTINGS = (".npmrc", ".config/pip/pip.conf", ".cargo/config.toml")  # by which a setup finds its registries
GRACE_S = 20.0
LOOK_S = 1.0  # between two looks whether all still run
SHOWN = 12  # lines of a log


@dataclass(frozen=True, slots=True)
class Fleet:
    """What runs for one fix; `variables` are those of the planner's programs, `ref` has a plan's changes."""

    variables: Mapping[str, str]
    remote: Path
    ref: str
    running: Mapping[str, tuple[subprocess.Popen[bytes], Path]]

    def planner(self, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a command of the planner to its end; raises CannotPlay if a process that it needs ends before."""
        command = [*PLANNER, *words]
        with TemporaryFile("w+") as out, TemporaryFile("w+") as errors:
            process = subprocess.Popen(command, cwd=cwd, env=dict(self.variables), stdout=out, stderr=errors)
            try:
                while process.poll() is None:
                    self.check()
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(LOOK_S)
            finally:
                process.kill()
                process.wait()
            out.seek(0)
            errors.seek(0)
            return subprocess.CompletedProcess(command, process.returncode, out.read(), errors.read())

    def check(self) -> None:
        """Raise CannotPlay with the end of its log where a process has ended by itself."""
        for name, (process, log) in self.running.items():
            if process.poll() is not None:
                end = "\n".join(log.read_text(errors="replace").splitlines()[-SHOWN:])
                raise CannotPlay(f"The {name} ended by itself with {process.returncode}:\n{end}")


@contextmanager
def run_fleet(fix: Fix, checkout: Path, home: Path, seen: Mapping[str, str]) -> Iterator[Fleet]:
    """Run server, worker and controller until the block ends; programs of the project see the variables `seen`."""
    for name in ("logs", "tmp"):
        (home / name).mkdir()
    options, remote, ref = _repository(fix, checkout, home, seen)
    with ExitStack() as stack:
        url = stack.enter_context(embedded_server.valkey(home / "valkey"))
        places = {"PLANNER_STATE_DIR": str(home / "state"), "TMPDIR": str(home / "tmp")}
        variables = {**seen, **places, "PLANNER_REDIS_URL": url}
        commands = {"worker": worker_command("solo"), "controller": [*PLANNER, "controller", *_agent(home), *options]}
        running = {}
        for name, command in commands.items():
            log = home / "logs" / f"{name}.log"
            running[name] = stack.enter_context(_running(command, home, variables, log)), log
        yield Fleet(variables, remote, ref, running)


def _agent(home: Path) -> Sequence[str]:
    program, known, runs = Path(agent.__file__).resolve(), home / "knowledge.json", home / "runs"
    command = shlex.join([sys.executable, "-I", str(program), str(known), str(runs)])
    own = (word for name in SETTINGS if (path := Path.home() / name).is_file() for word in ("--tool-path", str(path)))
    return ("--exec", command, "--agent-path", f"{runs}:rw", "--agent-path", str(known), *own)


def _repository(fix: Fix, checkout: Path, home: Path, seen: Mapping[str, str]) -> tuple[Sequence[str], Path, str]:
    """Return the controller's options, and where it collects changes: there, or on a remote where clones are set up."""
    if not fix.results:
        return ("--workdir", str(checkout)), checkout, "refs/heads/planner/{plan}"
    remote, file = home / "remote.git", home / "repos.toml"
    Repository(home).git("clone", "--quiet", "--bare", str(checkout), str(remote))
    lists = {"lock_files": fix.lock_files, "setup_results": fix.results}
    rows = {"url": str(remote), "setup": shlex.join(["sh", "-c", fix.setup or "true"]), **lists}
    path = os.pathsep.join([*(f"{{clone}}/{each}/.bin" for each in fix.results), seen["PATH"]])
    written = "".join(f"{name} = {json.dumps(value)}\n" for name, value in rows.items())
    name = repo_name(fix)
    file.write_text(
        f'folder = {json.dumps(str(home / "clones"))}\n[repositories."{name}"]\n{written}'
        f'[repositories."{name}".environment]\nPATH = {json.dumps(path)}\n'
    )
    return ("--repos", str(file)), remote, "refs/planner/{plan}"


@contextmanager
def _running(
    command: Sequence[str], home: Path, variables: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, cwd=home, env=dict(variables), stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
