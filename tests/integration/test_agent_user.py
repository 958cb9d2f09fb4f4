"""Agents and verifications of a controller or a drafter that runs as root, as another user."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from redis import Redis

from tasks.rules.strategy import Consult
from tests.support import no_landlock, ordinary
from tests.support.controlling import AGENT, FIX, PYTEST, Planner, Repo
from tests.support.programs import Running, needs, running
from worker.controller import snapshot
from worker.controller.repository import Repository
from worker.controller.worktree import Worktree, worktree
from worker.drafters.base import WrongDrafter
from worker.drafters.cli import CliDrafter
from worker.sandbox import landlock
from worker.sandbox.process import Job
from worker.sandbox.sandbox import Sandbox, SandboxMode
from worker.sandbox.user import User, WrongUser
from worker.settings.settings import Settings

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
BIN = Path(sys.executable).parent
NOBODY = 65534
WORD = "a-very-secret-word"

SPY = """
import glob, shutil, signal
got = []
def attack(name, act):
    try: act()
    except OSError: return
    got.append(name)
pid, parents = os.getppid(), []
while pid > 1:
    parents.append(pid)
    try: pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
    except OSError: break
for pid in parents:
    attack(f"signal {pid}", lambda: os.kill(pid, 0))
    attack(f"environment {pid}", lambda: open(f"/proc/{pid}/environ").read())
    attack(f"memory {pid}", lambda: open(f"/proc/{pid}/mem"))
for path in SECRETS + ["/etc/shadow"]:
    attack(f"read {path}", lambda: open(path).read())
    attack(f"write {path}", lambda: open(path, "a"))
attack("our folder", lambda: os.listdir("../../ours"))
attack("our store", lambda: open("../../ours/store/HEAD"))
for place in ("..", "../..", "../../..", "../../ours"):
    attack(f"write {place}", lambda: open(f"{place}/mine", "w"))
attack("beside us", lambda: os.listdir("../.."))
attack("move the clone", lambda: os.rename(os.getcwd(), os.getcwd() + "2"))
attack("become root", lambda: os.setuid(0))
attack("take a file", lambda: os.chown("calc.py", 0, 0))
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
held = {status[name].strip() for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")}
told = {"ids": [*os.getresuid(), *os.getresgid(), *os.getgroups()], "held": sorted(held), "parents": len(parents)}
write("/dev/stderr", "said")
git("status")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    os._exit(0)
os.makedirs(os.environ["TMPDIR"] + "/closed/in"); os.chmod(os.environ["TMPDIR"] + "/closed", 0)
report(output={**told, "got": got})
"""
LEAVE = """
import shutil
os.makedirs("closed/in"); write("closed/in/file", "x"); os.chmod("closed/in/file", 0)
os.symlink(SECRETS[0], "link")
os.link("words.py", "hard")
shutil.rmtree(".git")
os.chmod("closed/in", 0); os.chmod("closed", 0); os.chmod("test_calc.py", 0); os.chmod(".", 0)
"""


@pytest.fixture
def planner(redis: Redis) -> Planner:
    return Planner.ready(redis)


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="agent-user-") as name:
        place = Path(name)
        place.chmod(0o711)
        (place / "tmp").mkdir(mode=0o711)
        (place / "agent.py").write_text(AGENT)
        (place / "secret").touch(mode=0o600)
        (place / "secret").write_text(WORD)
        yield place


def controller(planner: Planner, folder: Path, *words: str, before: list[str]) -> Running:
    url = planner.redis.connection_pool.connection_kwargs
    env = {"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder / "tmp")}
    env["PLANNER_REDIS_URL"] = f"redis://{url['host']}:{url['port']}/{url.get('db', 0)}"
    agent = f"{sys.executable} -IS {folder / 'agent.py'}"
    argv = [str(BIN / "planner"), "controller", "--exec", agent, "--workdir", str(folder / "shop"), *words]
    return running([*before, *argv], env, folder / "log", folder)


@pytest.mark.outages
@pytest.mark.parametrize("known", [True, False], ids=["landlock", "no landlock"])
@pytest.mark.parametrize(("name", "uid"), [("1000", 1000), ("nobody", NOBODY)])
def test_an_agent_of_root_runs_as_another_user_who_reaches_nothing_of_roots(
    planner: Planner, folder: Path, name: str, uid: int, known: bool
) -> None:
    repo = Repo(folder / "shop")
    secrets = f"SECRETS = {[str(folder / 'secret')]}\n"
    planner.send("spy", mode="read_only", intent=secrets + SPY)
    planner.send("leave", intent=secrets + LEAVE, allowed_files=["calc.py"], verify_tools=[PYTEST])
    planner.send("fix", intent=f"git('status')\n{FIX}\ncommit()", allowed_files=["calc.py"], verify_tools=[PYTEST])
    before = ordinary.prefix(as_root=True) + ([] if known else no_landlock.prefix())

    with controller(planner, folder, "--agent-user", name, before=before) as process:
        spied, left, work = (planner.outcome(step) for step in ("spy", "leave", "fix"))

    ready: dict[str, Any] = json.loads((folder / "log").read_text().splitlines()[0])
    version = landlock.abi() if known else 0
    assert (ready["event"], ready["uid"]) == ("sandbox_ready" if version else "sandbox_absent", uid)
    assert (ready["landlock"], ready["bwrap"]) == (version, False)
    told: Any = spied.output
    assert spied.success, spied
    assert told["parents"] >= 2
    assert set(told["ids"]) == {uid}
    assert told["held"] == ["0" * 16]
    assert told["got"] == []
    assert not any(_runs_as(uid, process) for process in Path("/proc").glob("[0-9]*") if _is_ours(process, folder))
    assert not left.success
    assert work.success, work.error_message
    assert work.tests_passed
    assert repo.git("show", f"planner/{work.plan_id}:calc.py").endswith("a + b")
    assert process.returncode == 0
    (kept,) = (folder / "tmp").glob("planner-*")  # the state of root's programs, with the logs of attempts
    assert (kept.name, stat.S_IMODE(kept.stat().st_mode)) == ("planner-0", 0o700)


@pytest.mark.long
@pytest.mark.outages
def test_without_another_user_and_a_sandbox_roots_files_are_open(planner: Planner, folder: Path) -> None:
    """Shows that the attempts above fail for the reason that they are meant to fail for."""
    Repo(folder / "shop")
    planner.send(
        "spy", mode="read_only", intent=f"report(output=[open({str(folder / 'secret')!r}).read(), os.getuid()])"
    )

    with controller(planner, folder, "--sandbox", "off", before=ordinary.prefix(as_root=True)):
        spied = planner.outcome("spy")

    ready = json.loads((folder / "log").read_text().splitlines()[0])
    assert spied.output == [WORD, 0]  # docs/sandbox.md says so
    assert (ready["event"], ready["uid"]) == ("sandbox_off", 0)
    assert "PLANNER_AGENT_USER" in ready["advice"]


def _is_ours(process: Path, folder: Path) -> bool:
    try:
        return str(folder / "agent.py").encode() in (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def _runs_as(uid: int, process: Path) -> bool:
    try:
        return process.stat().st_uid == uid
    except OSError:
        return False


@pytest.mark.long
@pytest.mark.outages
@pytest.mark.parametrize(
    ("name", "why"),
    [("no-such-user", "there is no such user"), ("root", "this is root itself"), ("0", "this is root itself")],
)
def test_a_user_that_cannot_be_stops_the_start_with_a_sentence(
    planner: Planner, folder: Path, name: str, why: str
) -> None:
    Repo(folder / "shop")

    with controller(planner, folder, "--agent-user", name, before=[]) as process:
        assert process.wait(60) == 2

    assert (folder / "log").read_text().count("\n") == 1
    assert why in (folder / "log").read_text()


@pytest.mark.outages
def test_who_is_not_root_cannot_name_another_user(planner: Planner, folder: Path) -> None:
    Repo(folder / "shop")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, ordinary.UID, ordinary.UID)

    with controller(planner, folder, "--agent-user", "nobody", before=ordinary.prefix()) as process:
        assert process.wait(60) == 2

    assert "only root can run programs as another user, and this runs as uid 1000" in (folder / "log").read_text()


def test_a_user_who_cannot_enter_the_temporary_folder_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "tmp").chmod(0o700)
    monkeypatch.setattr("tempfile.tempdir", str(folder / "tmp"))

    with pytest.raises(WrongUser, match="cannot enter"):
        User.find("1000")


@needs("setsid")
def test_a_run_that_is_stopped_ends_the_daemons_of_the_other_user(folder: Path) -> None:
    place = folder / "tree"
    place.mkdir()
    os.chown(place, 1000, 1000)
    code = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ > pid; sleep 600' & sleep 600"
    sandbox = Sandbox(SandboxMode.OFF, user=User.find("1000"))

    def pid() -> int:
        return int((place / "pid").read_text() or 0) if (place / "pid").exists() else 0

    ended = []

    def wanted() -> bool:
        if pid():
            ended.append(Path(f"/proc/{pid()}").stat().st_uid)
        return not pid()

    with pytest.raises(Exception, match="unwanted"):
        sandbox.run(Job(["sh", "-c", code], place, 60, wanted))

    assert ended == [1000]
    assert not Path(f"/proc/{pid()}").exists()


def test_what_nobody_changed_is_not_written_again_for_the_next_attempt(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "TICK_NS", -(10**9))  # trust the marks of files that were written just now
    repository = Repository(Repo(folder / "shop").path)

    with worktree(repository, "one", folder / "tmp", User.find("1000")) as tree:
        tree.reset("plan", None)
        first = _marks(tree)
        (tree.root / "calc.py").write_text("changed")
        tree.reset("plan", None)
        second = _marks(tree)

    assert {uid for uid, _ in first.values()} == {uid for uid, _ in second.values()} == {1000}
    assert {name for name in first if first[name] != second[name]} == {"calc.py"}


def _marks(tree: Worktree) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_uid, path.stat().st_ctime_ns) for path in tree.root.glob("*.py")}


def test_the_drafters_command_runs_as_that_user_too() -> None:
    look = """case $(cat "$0") in *object*) printf '{"uid": %s, "groups": "%s"}' "$(id -u)" "$(id -G)" ;; esac"""
    settings = Settings(cli_command=("/bin/sh", "-c", look, "{schema_file}"), agent_user="1000")

    answer = CliDrafter(settings).ask(Consult("who?", {"type": "object"}), lambda: False)

    assert answer.error is None, answer
    assert json.loads(str(answer.output)) == {"uid": 1000, "groups": "1000"}


def test_a_drafter_for_a_user_that_is_not_there_does_not_start() -> None:
    with pytest.raises(WrongDrafter, match="PLANNER_AGENT_USER: no-such-user: there is no such user"):
        CliDrafter(Settings(cli_command=("true",), agent_user="no-such-user"))
