"""A small controller that keeps secrets and runs a hostile agent; prints the agent's loot and the remaining processes.

`python -m tests.support.confining FOLDER [without-landlock]`. The agent is HOSTILE, below.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from tests.support import no_landlock
from worker.sandbox import sandbox as sandboxes
from worker.sandbox.paths import PathGrant
from worker.sandbox.process import Job
from worker.sandbox.sandbox import NoSandbox, Sandbox, SandboxMode
from worker.settings import credentials

SECRET = "a-very-secret-word"
SECONDS = 60

HOSTILE = """
import ctypes, json, multiprocessing, os, pathlib, signal, subprocess, sys, time
host, base = int(sys.argv[1]), pathlib.Path(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
got = {}
def attack(name):
    def tried(act):
        try:
            got[name] = bool(act())
        except OSError:
            got[name] = False
    return tried
def readable(path):
    with open(path, "rb") as file: return file.read(1) or True

for who, pid in (("controller", host), ("launcher", os.getppid())):
    for face in ("environ", "mem", "maps", "auxv"):
        attack(f"{who} {face}")(lambda: readable(f"/proc/{pid}/{face}"))
    attack(f"{who} descriptors")(lambda: os.readlink(f"/proc/{pid}/fd/0"))
    attack(f"{who} folder")(lambda: os.listdir(f"/proc/{pid}/cwd"))
    attack(f"{who} root")(lambda: readable(f"/proc/{pid}/root{base}/secret"))
    attack(f"{who} signal")(lambda: os.kill(pid, 0) is None)
    attack(f"{who} ptrace")(lambda: libc.ptrace(16, pid, 0, 0) == 0)
attack("secret file")(lambda: readable(base / "secret"))
attack("secret file by a link")(lambda: os.symlink(base / "secret", "link") or readable("link"))
attack("secret file by a hard link")(lambda: os.link(base / "secret", "hard") or readable("hard"))
attack("state folder")(lambda: os.listdir(base / "state"))
attack("state file")(lambda: readable(base / "state" / "commits"))
attack("another worktree")(lambda: readable(base / "other" / "code.py"))
attack("write beside")(lambda: open(base / "mine", "w"))
attack("write to another worktree")(lambda: open(base / "other" / "code.py", "a"))
attack("move out")(lambda: open("ours", "w") and os.rename("ours", base / "ours") is None)
attack("truncate")(lambda: os.truncate(base / "state" / "commits", 0) is None)
attack("home")(lambda: os.listdir(base))
got["new privileges"] = "NoNewPrivs:\\t1" not in open("/proc/self/status").read()

works = {}
def work(name):
    def tried(act):
        try:
            works[name] = act() is not None
        except Exception as error:
            works[name] = repr(error)
    return tried
run = lambda *words, **more: subprocess.run(words, check=True, capture_output=True, **more)
work("its worktree")(lambda: pathlib.Path("new.py").write_text("x"))
work("a folder in it")(lambda: (os.mkdir("a"), os.rename("new.py", "a/new.py")))
work("TMPDIR")(lambda: pathlib.Path(os.environ["TMPDIR"], "x").write_text("x"))
work("HOME")(lambda: (pathlib.Path.home() / ".cache").mkdir() or 1)
work("what was granted")(lambda: (pathlib.Path.home() / "login").read_text())
work("null")(lambda: open("/dev/null", "w"))
work("shared memory")(lambda: multiprocessing.get_context("fork").Lock())
work("pipes")(lambda: run("sh", "-c", "printf a | cat | grep -q a && echo b > /dev/stderr && cat < /dev/stdin"))
work("itself")(lambda: readable("/proc/self/environ"))
work("its Python")(lambda: run(sys.executable, "-c", "import json, ssl, sqlite3"))
work("git")(lambda: [run("git", *words) for words in (["init"], ["add", "-A"], ["commit", "-m", "x"], ["gc"])])

def daemon(name, act):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
            pathlib.Path(name).write_text(str(os.getpid()))
            act()
        os._exit(0)
    os.wait()
def hop():
    while True:
        if os.fork(): os._exit(0)
        os.setsid()
        pathlib.Path("hopper").write_text(str(os.getpid()))
daemon("daemon", lambda: time.sleep(600))
daemon("hopper", hop)
while not (pathlib.Path("daemon").exists() and pathlib.Path("hopper").exists()): time.sleep(0.01)
sys.stdout.write(json.dumps({"got": got, "works": works}))
"""


def main(folder: Path, *, without_landlock: bool) -> None:
    """Create the secrets, run the agent, and find the processes that are left."""
    sandboxes.find_bubblewrap = lambda *_: None
    for name in ("state", "other", "tree"):
        (folder / name).mkdir()
    for name in ("secret", "state/commits", "other/code.py", "login"):
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(SECRET)
    os.environ["HOME"] = str(folder)
    os.environ["PLANNER_REDIS_URL"] = f"redis://:{SECRET}@host/0"
    credentials.protect()
    if without_landlock:
        no_landlock.forbid()
    told = {"required": _required()}
    grant = PathGrant(folder / "login")
    sandbox = Sandbox(SandboxMode.AUTO, (grant,), (folder / "state",))
    argv = [sys.executable, "-IS", "-c", HOSTILE, str(os.getpid()), str(folder)]
    ended = sandbox.run(Job(argv, folder / "tree", SECONDS, lambda: True), writable=(folder / "tree",))
    with suppress(ValueError):
        told |= json.loads(ended.stdout)
    left = [process.name for process in Path("/proc").glob("[0-9]*") if _has(process, folder)]
    sys.stdout.write(json.dumps({**told, "left": left, "code": ended.exit_code, "said": ended.stderr}))


def _has(process: Path, folder: Path) -> bool:
    """Return whether the folder is among the arguments of a process, as it is for the agent and all its forks."""
    with suppress(OSError):
        words = (process / "cmdline").read_bytes().split(b"\0")
        return HOSTILE.encode() in words and str(folder).encode() in words
    return False


def _required() -> str:
    try:
        Sandbox(SandboxMode.REQUIRE).check()
    except NoSandbox as error:
        return str(error)
    return "there is one"


if __name__ == "__main__":
    main(Path(sys.argv[1]), without_landlock="without-landlock" in sys.argv)
