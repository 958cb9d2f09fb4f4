"""A hostile agent against a process that keeps secrets, as an ordinary user without capabilities and namespaces."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from schemas import codec
from tests.conftest import wait_until
from tests.support import ordinary
from tests.support.programs import missing, needs
from worker.sandbox import landlock, paths, process, sandbox
from worker.sandbox.paths import PathGrant
from worker.sandbox.process import Abandoned, Job
from worker.sandbox.sandbox import Sandbox

ABI = landlock.abi()
needs_landlock = pytest.mark.skipif(not ABI, reason="this kernel has no Landlock")
ROOT = Path(__file__).parents[2]


def attacked(*words: str, as_ordinary: bool) -> dict[str, Any]:
    """Run the hostile agent; returns what it got."""
    with TemporaryDirectory(prefix="attacked-") as folder:
        if as_ordinary:
            os.chown(folder, ordinary.UID, ordinary.UID)
        prefix = ordinary.prefix() if as_ordinary else []
        env = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": str(ROOT), "TMPDIR": folder}
        env |= {"PYTHONDONTWRITEBYTECODE": "1"}
        argv = [*prefix, sys.executable, "-m", "tests.support.confining", folder, *words]
        done = subprocess.run(argv, env=env, cwd="/", capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr.decode()
        found: dict[str, Any] = codec.loads(done.stdout)
        assert "got" in found, found
        return found


@needs_landlock
@pytest.mark.parametrize(
    "as_ordinary",
    [pytest.param(True, marks=pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another")), False],
)
def test_a_hostile_agent_reaches_nothing_of_ours_and_its_work_works(as_ordinary: bool) -> None:
    told = attacked(as_ordinary=as_ordinary)

    out_of_reach_since = {"controller signal": 6, "launcher signal": 6, "truncate": 3}
    assert [name for name, got in told["got"].items() if got and out_of_reach_since.get(name, 1) <= ABI] == []
    assert [(name, works) for name, works in told["works"].items() if works is not True] == []
    assert told["left"] == []
    assert told["required"] == "there is one"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
def test_without_landlock_memory_stays_closed_and_daemons_end_but_files_are_open() -> None:
    told = attacked("without-landlock", as_ordinary=True)

    got = {name for name, was in told["got"].items() if was}
    assert not {name for name in got if name.split()[-1] in {"environ", "mem", "maps", "auxv", "descriptors", "ptrace"}}
    assert got >= {"secret file", "state file", "another worktree", "write beside"}  # docs/sandbox.md says so
    assert "new privileges" not in got
    assert [(name, works) for name, works in told["works"].items() if works is not True] == []
    assert told["left"] == []
    assert told["required"].startswith("No sandbox: this kernel has no Landlock")


# --- nothing outlives its attempt ---

DAEMON = """
import os, pathlib, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pathlib.Path("daemon").write_text(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists("daemon") or not open("daemon").read(): time.sleep(0.01)
"""
ENDS = {
    "ends": "",
    "hangs": "time.sleep(600)",
    "kills its launcher": "os.kill(os.getppid(), signal.SIGKILL); time.sleep(600)",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_daemon_in_a_session_of_its_own_ends_with_its_attempt(end: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-IS", "-c", DAEMON + ENDS[end]]

    with pytest.raises(Abandoned) if end == "hangs" else nullcontext():
        process.run(Job(argv, tmp_path, 60, lambda: end != "hangs" or _daemon(tmp_path) is None))

    daemon = _daemon(tmp_path)
    assert daemon
    assert not Path(f"/proc/{daemon}").exists()


def test_what_was_started_ends_with_us_even_if_we_are_killed(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from worker.sandbox import process;"
        "process.run(process.Job([sys.executable, '-IS', '-c', sys.argv[1]], Path(sys.argv[2]), 600, lambda: True))"
    )
    us = subprocess.Popen([sys.executable, "-c", code, DAEMON + ENDS["hangs"], str(tmp_path)], cwd=ROOT)
    daemon = wait_until(lambda: _daemon(tmp_path), timeout=60, what="the daemon runs")

    us.kill()
    us.wait()

    wait_until(lambda: not Path(f"/proc/{daemon}").exists(), timeout=60, what="the daemon is gone")


def _daemon(folder: Path) -> int | None:
    file = folder / "daemon"
    return int(file.read_text() or 0) or None if file.exists() else None


# --- which paths ---


def test_what_is_hidden_is_left_out_of_what_is_granted_and_all_else_stays(tmp_path: Path) -> None:
    for name in ("a/b", "a/c", "d"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "a" / "b" / "secret").touch()
    (tmp_path / "a" / "b" / "code").touch()

    (tmp_path / "a" / "b" / "secrets").touch()  # a name that only begins like the hidden one
    (tmp_path / "link").symlink_to(tmp_path / "a")  # has no rule of its own

    found = paths.visible_parts(str(tmp_path), [str(tmp_path / "a" / "b" / "secret")])

    assert [os.path.relpath(path, tmp_path) for path in found] == ["a/b/code", "a/b/secrets", "a/c", "d"]


def test_a_home_on_path_grants_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()

    granted = set(paths.installations(f"{tmp_path}:/:{tmp_path / 'bin'}:.:relative"))

    assert granted >= {tmp_path / "bin", tmp_path / "lib"}
    assert not granted & {tmp_path, Path("/"), Path("relative"), tmp_path.parent}


@pytest.mark.parametrize(("text", "why"), [("relative", "absolute"), ("/nowhere/at/all:rw", "no such path")])
def test_a_path_that_cannot_be_granted_is_refused_with_a_sentence(text: str, why: str) -> None:
    with pytest.raises(paths.WrongPath, match=why):
        PathGrant.parse(text)


@needs("bwrap")
def test_in_bubblewrap_there_are_no_processes_and_no_files_of_others(tmp_path: Path) -> None:
    if not sandbox.find_bubblewrap():
        missing("bwrap starts nothing on this machine")
    (tmp_path / "tree").mkdir()
    (tmp_path / "secret").write_text("secret")
    look = f"ls /proc | grep -c '^[0-9]' ; cat {tmp_path}/secret ; echo x > made ; echo y > /tmp/too ; ls /root /home"

    job = Job(["sh", "-c", look], tmp_path / "tree", 60, lambda: True)
    done = Sandbox().run(job, writable=(tmp_path / "tree",))

    assert int(done.stdout.split()[0]) <= 6
    assert "secret: No such file" in done.stderr
    assert (tmp_path / "tree" / "made").read_text() == "x\n"
    assert "too: " not in done.stderr


NETWORK = """
import socket, sys
def reaches(address):
    try:
        socket.create_connection(address, 5).close()
    except OSError:
        return False
    return True
own = socket.create_server(("127.0.0.1", 0))
print(reaches(("127.0.0.1", int(sys.argv[1]))), reaches(own.getsockname()))
"""


@needs("bwrap")
@pytest.mark.parametrize("has_network", [True, False])
def test_without_a_network_a_program_reaches_its_own_loopback_alone(has_network: bool, tmp_path: Path) -> None:
    if not sandbox.can_cut_network():
        missing("bwrap makes no network namespace on this machine")
    confined = Sandbox(has_network=has_network)

    with socket.create_server(("127.0.0.1", 0)) as ours:
        words = [sys.executable, "-IS", "-c", NETWORK, str(ours.getsockname()[1])]
        done = confined.run(Job(words, tmp_path, 60, lambda: True), writable=(tmp_path,))

    assert done.stdout.split() == [str(has_network), "True"], done.stderr
    assert ("no-network" in confined.isolation) is not has_network


@pytest.mark.parametrize("finds_bubblewrap", [True, False])
def test_who_may_write_to_a_folder_may_do_so_from_one_below(
    finds_bubblewrap: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A verification runs in the folder of its project, and may write wherever the clone may be written to."""
    if finds_bubblewrap and not sandbox.find_bubblewrap():
        missing("bwrap starts nothing on this machine")
    if not finds_bubblewrap:
        monkeypatch.setattr(sandbox, "find_bubblewrap", lambda *_: None)
    (tmp_path / "tree" / "backend").mkdir(parents=True)

    job = Job(["sh", "-c", "echo x > here; echo y > ../above"], tmp_path / "tree" / "backend", 60, lambda: True)
    done = Sandbox().run(job, writable=(tmp_path / "tree",))

    assert (done.exit_code, done.stderr) == (0, "")
    assert (tmp_path / "tree" / "backend" / "here").read_text() == "x\n"
    assert (tmp_path / "tree" / "above").read_text() == "y\n"


def test_a_program_may_write_next_to_the_programs_of_its_own_clone(tmp_path: Path) -> None:
    """Runners such as vitest write into the `node_modules` whose programs are on PATH."""
    programs = tmp_path / "tree" / "node_modules" / ".bin"
    programs.mkdir(parents=True)
    (programs / "runner").write_text("#!/bin/sh\nmkdir node_modules/.cache\n")
    (programs / "runner").chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}

    job = Job(["runner"], tmp_path / "tree", 60, lambda: True, env=env)
    done = Sandbox().run(job, writable=(tmp_path / "tree",))

    assert (done.exit_code, done.stderr) == (0, "")
