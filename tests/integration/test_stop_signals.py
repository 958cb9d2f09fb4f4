"""A signal to stop reaches a program whatever that does at the moment, and one that its parent ignores does nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.conftest import wait_until
from tests.support.controlling import Repo
from tests.support.programs import running
from worker.host.embedded_server import free_port

PROGRAM = """
import os, signal
from threading import Event
from worker.host.stop_signals import stop_on_signals

stop = Event()
with stop_on_signals(stop):
    {moment}
    stop.wait()
with stop_on_signals(Event()):
    pass
"""
IN_STOP_WAIT = """
    with stop._cond:  # as `stop.wait` does at its beginning and at its end
        os.kill(os.getpid(), signal.SIGTERM)
"""
TO_ANOTHER_THREAD = """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # of the main thread, as in the moment of a fork
    os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize("moment", [IN_STOP_WAIT, TO_ANOTHER_THREAD])
def test_a_signal_sets_stop_in_whatever_moment_and_thread_it_comes(moment: str) -> None:
    program = PROGRAM.format(moment=moment.strip())
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


IN_THE_BACKGROUND = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]  # as a script starts what it ends with `&`
PLANNER = [sys.executable, "-c", "from worker.start import planner; planner()"]


@pytest.mark.long
@pytest.mark.parametrize(
    "command",
    [
        "controller",
        "exporter",
        *(pytest.param(name, marks=pytest.mark.outages) for name in ("worker", "gateway", "up", "demo")),
    ],
)
def test_a_command_in_the_background_of_a_script_ignores_ctrl_c_and_ends_at_sigterm(
    command: str, redis_url: str, tmp_path: Path
) -> None:
    port, log = free_port(), tmp_path / "log"
    ways: dict[str, tuple[list[str], Callable[[], bool]]] = {
        "worker": (["--pool", "solo"], lambda: "ingress consumes" in log.read_text()),
        "controller": (
            ["--exec", "true", "--workdir", str(Repo(tmp_path / "repository").path)],
            lambda: "controller_started" in log.read_text(),
        ),
        "exporter": (["--port", str(port)], lambda: answers(port, "/metrics")),
        "demo": (["--page"], lambda: "step.started" in log.read_text()),
        "gateway": (["--port", str(port)], lambda: answers(port)),
        "up": (["--port", str(free_port())], lambda: answers(port)),
    }
    words, works = ways[command]
    known = {name: value for name, value in os.environ.items() if not name.startswith("PLANNER_")}
    known |= {"PLANNER_DATA_DIR": str(tmp_path / "data"), "PLANNER_GATEWAY_PORT": str(port)}
    environment = known if command in {"up", "demo"} else known | {"PLANNER_REDIS_URL": redis_url}

    with running([*IN_THE_BACKGROUND, *PLANNER, command, *words], environment, log, tmp_path) as process:
        wait_until(lambda: works() or process.poll() is not None, what=f"{command} works")
        assert process.poll() is None
        assert ignores_ctrl_c(process.pid)
    assert process.returncode == (130 if command == "demo" else 0)  # of a demo there is no result yet


def answers(port: int, path: str = "/readyz") -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}{path}", timeout=30).status_code == 200
    except httpx.TransportError:
        return False


def ignores_ctrl_c(pid: int) -> bool:
    (mask,) = re.findall(r"SigIgn:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    return bool(int(mask, 16) >> signal.SIGINT - 1 & 1)
