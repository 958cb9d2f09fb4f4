"""Secrets of long-running commands: how they come in, and that no process of the same user can read them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from schemas import codec
from tests.conftest import connect, wait_until
from tests.support import ordinary
from tests.support.programs import Running, needs, running
from worker.host.embedded_server import valkey
from worker.settings import credentials
from worker.settings.settings import Settings, WrongSettings, load
from worker.store import keys

BIN = Path(sys.executable).parent
WORD = "a-very-secret-word"
FACES = ("environ", "cmdline", "mem", "maps")  # of a process, in /proc


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[str]:
    """A server with a password."""
    with valkey(tmp_path / "data", password=WORD) as url:
        yield url


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_kept", {})
    for name in credentials.NAMES | credentials.FILES:
        monkeypatch.delenv(name, raising=False)


# --- how they come in ---


@pytest.mark.parametrize("name", sorted(credentials.NAMES))
def test_each_secret_can_be_a_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {"PLANNER_CLI_ENV": '{"TOKEN": "t"}', "WORKER_PLANNING_EXTRA_ENV": '{"TOKEN": "t"}'}
    text = texts.get(name, "redis://:word@host/0")
    monkeypatch.setenv(name, text)
    given = load()
    monkeypatch.delenv(name)
    (tmp_path / "secret").write_text(f"{text}\n")
    monkeypatch.setenv(f"{name}_FILE", str(tmp_path / "secret"))

    assert load() == given


def test_every_setting_that_holds_a_secret_is_known_as_one() -> None:
    named = {name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)}
    named |= {name for name in Settings.model_fields if name.endswith(("_url", "_dsn", "_key", "_token", "_password"))}

    assert named - {"llm_base_url", "public_url"} == credentials.VARIABLES.keys()


def test_a_secret_that_is_given_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("redis://a")
    monkeypatch.setenv("PLANNER_REDIS_URL", "redis://b")
    monkeypatch.setenv("PLANNER_REDIS_URL_FILE", str(tmp_path / "secret"))

    with pytest.raises(WrongSettings, match="PLANNER_REDIS_URL and PLANNER_REDIS_URL_FILE are both set: leave one"):
        load()


def test_a_file_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENTRY_DSN_FILE", "/nowhere/dsn")

    with pytest.raises(WrongSettings, match="SENTRY_DSN_FILE: /nowhere/dsn cannot be read: No such file or directory"):
        load()


def test_a_descriptor_is_read_once_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    _, number = credentials.hand_on({}, {"PLANNER_REDIS_URL": "redis://:word@host/0", "SENTRY_DSN": "https://k@s/1"})
    monkeypatch.setenv(credentials.DESCRIPTOR, str(number))

    first, second = load(), load()

    assert first == second
    assert (first.redis_url, first.sentry_dsn) == ("redis://:word@host/0", "https://k@s/1")
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


@pytest.mark.parametrize("text", ["word", '["word"]', '{"PLANNER_PARTITIONS": "word"}', '{"SENTRY_DSN": ["word"]}'])
def test_a_descriptor_without_an_object_of_secrets_is_refused_and_not_quoted(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = os.pipe()
    os.write(far, text.encode())
    os.close(far)
    monkeypatch.setenv(credentials.DESCRIPTOR, str(near))

    with pytest.raises(WrongSettings, match=r"^PLANNER_SECRETS_FD: ") as wrong:
        load()

    assert "word" not in str(wrong.value)


def test_a_wrong_url_is_shown_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", f"http://u:{WORD}@host")

    with pytest.raises(WrongSettings, match="not 'http://host'") as wrong:
        load()

    assert WORD not in str(wrong.value)


# --- what others of the same user see ---


def variables(way: str, url: str, directory: Path) -> tuple[dict[str, str], list[str], tuple[int, ...]]:
    """Give a process the URL by `way`: its environment, arguments and descriptors."""
    if way == "variable":
        return {"PLANNER_REDIS_URL": url}, [], ()
    if way == "file":
        (directory / "url").write_text(url)
        (directory / "url").chmod(0o644)
        return {"PLANNER_REDIS_URL_FILE": str(directory / "url")}, [], ()
    _, number = credentials.hand_on({}, {"PLANNER_REDIS_URL": url})
    return {}, ["--secrets-fd", str(number)], (number,)


def started(argv: list[str], env: Mapping[str, str], folder: Path, passed: tuple[int, ...] = ()) -> Running:
    own = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(folder), "PLANNER_STATE_DIR": str(folder / "state")}
    own |= {"PYTHONDONTWRITEBYTECODE": "1", "OPENAI_API_KEY": WORD}
    return running(argv, {**own, **env}, folder / "log", folder, passed)


def family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(found for child in children for found in family(int(child)))]


LOOK = """
import os, sys
seen = []
for pid in sys.argv[1:]:
    for name in ("environ", "cmdline", "mem", "maps"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                seen.append([name, file.read(1_000_000).decode(errors="replace")] if name != "mem" else [name, ""])
        except OSError:
            pass
    try:
        seen += [["fd", os.readlink(f"/proc/{pid}/fd/{fd}")] for fd in os.listdir(f"/proc/{pid}/fd")]
    except OSError:
        pass
import json; print(json.dumps(seen))
"""


def seen_of(pids: list[int]) -> list[list[str]]:
    words = [sys.executable, "-I", "-S", "-c", LOOK, *map(str, pids)]
    done = subprocess.run(words, check=True, capture_output=True, timeout=30)
    found: list[list[str]] = codec.loads(done.stdout)
    return found


OPEN = {"environ", "cmdline"} if os.getuid() == 0 else {"cmdline"}  # of a process that protects itself
WAYS = ("variable", "file", "descriptor")


@pytest.mark.outages
@pytest.mark.parametrize("way", WAYS)
def test_neither_a_worker_nor_its_children_show_a_secret_even_to_root(guarded: str, tmp_path: Path, way: str) -> None:
    env, options, passed = variables(way, guarded, tmp_path)
    argv = [str(BIN / "planner"), "worker", *options]
    with started(argv, env, tmp_path, passed) as worker, connect(guarded) as redis:
        redis.xadd(keys.GOALS, {"data": codec.dumps({"goal": "Fix a", "allowed_files": ["a.py"]})})
        wait_until(lambda: redis.zcard(keys.Partition(0).plans), timeout=60, what="it knows its secret and plans")
        pids = family(worker.pid)
        seen = seen_of(pids)

    assert len(pids) >= 2
    assert {name for name, _ in seen} >= OPEN
    assert not any(WORD in text for _, text in seen)
    assert WORD not in (tmp_path / "log").read_text()


@pytest.mark.outages
def test_celerys_own_command_shows_no_secret_either(guarded: str, tmp_path: Path) -> None:
    argv = [str(BIN / "celery"), "-A", "worker", "worker", "--pool", "prefork", "-c", "1", "--loglevel", "INFO"]
    env = {"PLANNER_REDIS_URL": guarded, "CELERY_BROKER_URL": guarded}
    with started(argv, env, tmp_path) as worker, connect(guarded) as redis:
        redis.xadd(keys.GOALS, {"data": codec.dumps({"goal": "Fix a", "allowed_files": ["a.py"]})})
        wait_until(lambda: redis.zcard(keys.Partition(0).plans), timeout=60, what="it knows its secret and plans")
        seen = seen_of(family(worker.pid))

    assert {name for name, _ in seen} >= OPEN
    assert not any(WORD in text for _, text in seen)


PROTECTED = """
import os, subprocess, sys, time
from worker.settings import credentials
if sys.argv[2] == "protected":
    credentials.protect()
child = os.fork()
if not child:
    time.sleep(60)
looking = [sys.executable, "-I", "-S", "-c", sys.argv[1], str(os.getpid()), str(child)]
subprocess.run(looking, check=True)
os.kill(child, 9)
os.waitpid(child, 0)
"""


@needs("setpriv", "mount")
@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become another user")
@pytest.mark.parametrize(("how", "open_to_others"), [("protected", {"cmdline"}), ("bare", {*FACES, "fd"})])
def test_a_protected_process_and_its_forks_are_closed_to_programs_of_their_user(
    how: str, open_to_others: set[str]
) -> None:
    env = {"PATH": os.environ["PATH"], "PLANNER_REDIS_URL": f"redis://:{WORD}@h/0", "PYTHONPATH": str(Path.cwd())}
    argv = [*ordinary.prefix(), sys.executable, "-P", "-c", PROTECTED, LOOK, how]

    done = subprocess.run(argv, env=env, check=True, capture_output=True, timeout=60)

    seen = codec.loads(done.stdout)
    assert {name for name, _ in seen} == open_to_others
    assert any(WORD in text for _, text in seen) == (how == "bare")
