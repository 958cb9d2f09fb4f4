"""`planner submit --wait end`: how a plan ended is known by the exit code, with whatever rights there are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from schemas import codec
from tests.conftest import RunningWorker, wait_until
from tests.support.documented import DOCS
from tests.support.planner import Planner
from tests.support.roles import user
from tests.support.scripted import Fleet
from tests.support.servers import Server
from worker.cli import waiting
from worker.cli.commands.app import app
from worker.cli.console import Failure
from worker.store import keys

CI = DOCS / "ci.md"
PLANNER = [sys.executable, "-c", "from worker.start import planner; planner()"]
STEPS = [
    {"step_id": "look", "title": "Look", "intent": "Look", "verify": "pytest"},
    {"step_id": "fix-b", "title": "Fix b", "intent": "b", "allowed_files": ["b.py"], "verify": "pytest",
     "depends_on": ["look"]},
]  # fmt: skip
WRONG = {"success": False, "touched_files": ["/etc/passwd"]}


@pytest.fixture
def fleet(planner_worker: RunningWorker) -> Fleet:
    return Fleet(planner_worker.redis)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `planner submit --wait end` in a process of its own."""
    started = []

    def begin(url: str, queue: str, *words: str, **goal: Any) -> subprocess.Popen[str]:
        file = tmp_path / "goal.json"
        body = {"goal": "Fix b", "allowed_files": ["b.py"], "steps": STEPS, "queue": queue, **goal}
        file.write_bytes(codec.dumps(body))
        known = {name: value for name, value in os.environ.items() if not name.startswith(("PLANNER_", "GITHUB_"))}
        environment = {**known, "PLANNER_REDIS_URL": url, "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
        command = [*PLANNER, "submit", "--wait", "end", str(file), *words]
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def plan_of(redis: Redis, goal_id: str) -> str:
    found: Any = wait_until(lambda: redis.hget(keys.goal_id(goal_id), "plan_id"), what="the goal is planned")
    return str(found.decode())


@pytest.mark.parametrize(
    ("role", "file", "says", "code", "state"),
    [
        ("producer", None, {"touched_files": ["b.py"]}, 0, "COMPLETED"),
        ("ci", CI, WRONG, 1, "HALTED"),
        pytest.param("producer", None, WRONG, 1, "HALTED", marks=pytest.mark.outages),
    ],
)
def test_the_exit_code_says_how_the_plan_ended(
    planner_worker: RunningWorker,
    fleet: Fleet,
    start: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
    role: str,
    file: Path | None,
    says: Mapping[str, Any],
    code: int,
    state: str,
) -> None:
    goal_id = f"goal-{uuid.uuid4().hex}"
    with user(planner_worker.redis, role, planner_worker.url, *filter(None, [file])) as url:
        process = start(url, fleet.queues[0], "--json", goal_id=goal_id)
        plan_id = plan_of(planner_worker.redis, goal_id)
        assert process.stderr is not None
        first = process.stderr.readline()
        fleet.work(plan_id, lambda spec: says if spec["step_id"] == "fix-b" else {})
        out, rest = process.communicate(timeout=90)
    told = first + rest

    assert (process.returncode, codec.loads(out)["state"]) == (code, state), told
    assert codec.loads(out)["plan_id"] == plan_id
    page = (tmp_path / "summary.md").read_text()
    assert f"Planner: {state}" in page
    read = [word in page for word in ("| `fix-b` |", "flowchart TD", "### Budget", "Explanation")]
    if file:
        assert all(read)
        assert [word in told for word in ("step.started", "fix-b", f"plan.{state.lower()}")] == [True] * 3
    else:
        assert not any(read)
        lines = told.splitlines()
        assert [line.split()[1] for line in lines] == ["PLANNED", "PLANNED"]
        assert state in lines[1]
        assert ("rule `" in page) is (state == "HALTED")


@pytest.mark.long
@pytest.mark.outages
def test_a_plan_that_does_not_end_in_time_goes_on_and_is_exit_4(
    planner_worker: RunningWorker, fleet: Fleet, start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    goal_id = f"goal-{uuid.uuid4().hex}"
    process = start(planner_worker.url, fleet.queues[0], "--timeout", "15s", goal_id=goal_id)
    _, told = process.communicate(timeout=90)

    assert process.returncode == 4
    assert told.splitlines()[-1].endswith(f"The plan goes on. Look again: planner watch {goal_id}")
    assert "⏳ Planner: EXECUTING" in (tmp_path / "summary.md").read_text()
    assert fleet.view(plan_of(planner_worker.redis, goal_id)).state == "EXECUTING"


@pytest.mark.long
@pytest.mark.outages
def test_ctrl_c_ends_the_wait_and_not_the_plan_and_says_how_to_look_again(
    planner_worker: RunningWorker, fleet: Fleet, start: Callable[..., subprocess.Popen[str]]
) -> None:
    goal_id = f"goal-{uuid.uuid4().hex}"
    with user(planner_worker.redis, "producer", planner_worker.url) as url:
        process = start(url, fleet.queues[0], goal_id=goal_id, tenant="acme corp")
        assert process.stderr is not None
        first = process.stderr.readline()
        assert "PLANNED" in first
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
        again = f"planner summary {goal_id} --tenant 'acme corp'"

        assert (process.returncode, told.count("\n")) == (130, 1), first + told
        assert told.rstrip().endswith(f"The plan goes on. Look again: {again}")
        shown = CliRunner().invoke(app, ["summary", goal_id, "--tenant", "acme corp"], env={"PLANNER_REDIS_URL": url})
    assert shown.output.startswith("## ⏳ Planner: PLANNED\n")


def test_a_goal_that_is_rejected_is_over_at_once(
    planner_worker: RunningWorker, start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    process = start(planner_worker.url, "nobody", allowed_files=["../b.py"])
    out, told = process.communicate(timeout=90)

    assert process.returncode == 1, told
    assert "/allowed_files" in out
    assert "❌ Planner: REJECTED" in (tmp_path / "summary.md").read_text()


# In this process


def submitted(url: str, *words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["submit", *words], env={"PLANNER_REDIS_URL": url}, input=stdin)


@pytest.mark.parametrize("wait", ["--wait", "-w"])
def test_a_file_may_stand_behind_wait(planner_worker: RunningWorker, tmp_path: Path, wait: str) -> None:
    file = tmp_path / "goal.json"
    file.write_text('{"goal": "Fix b", "allowed_files": ["b.py"]}')

    result = submitted(planner_worker.url, wait, str(file), "--json")

    assert (result.exit_code, codec.loads(result.stdout)["verdict"]) == (0, "PLANNED")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--timeout", "soon"], "wrong_time"),
        (["--timeout", "-1s"], "wrong_time"),
        (["--summary", "nowhere/summary.md"], "unwritable_file"),
    ],
)
def test_what_cannot_be_waited_for_is_refused_before_anything_is_sent(
    planner_worker: RunningWorker, words: list[str], code: str
) -> None:
    before: Any = planner_worker.redis.xinfo_stream(keys.GOALS)
    result = submitted(planner_worker.url, "--goal", "x", "--wait", "end", *words, "--json")

    assert (result.exit_code, codec.loads(result.stdout)["code"]) == (2, code)
    after: Any = planner_worker.redis.xinfo_stream(keys.GOALS)
    assert before["last-generated-id"] == after["last-generated-id"]


def test_a_report_without_failures_leaves_a_page_too(server_url: str, tmp_path: Path) -> None:
    words = ["--from-junit", "-", "--wait", "end", "--summary", str(tmp_path / "summary.md")]
    result = submitted(server_url, *words, stdin="<testsuites/>")

    assert result.exit_code == 0
    assert (tmp_path / "summary.md").read_text() == (
        "## ⏳ Planner: NOTHING_TO_DO\n\nNothing to do: no test failed in this report.\n"
    )


@pytest.mark.parametrize(
    ("text", "length"), [("60", 60), ("90s", 90), ("30m", 1800), ("2h", 7200), ("1.5s", 1.5), ("0", 0)]
)
def test_lengths_are_read_with_and_without_a_unit(text: str, length: float) -> None:
    assert waiting.seconds(text) == length


@pytest.mark.parametrize("text", ["", "m", "-1", "1 h", "1w", "nan", "1e9", "99999999"])
def test_other_lengths_are_refused(text: str) -> None:
    with pytest.raises(Failure, match="no length"):
        waiting.seconds(text)


@pytest.mark.outages
def test_a_server_that_restarts_meanwhile_is_waited_for(
    tmp_path: Path, start: Callable[..., subprocess.Popen[str]]
) -> None:
    with Server(tmp_path / "server") as server:
        planner = Planner(server.url)
        process = start(server.url, "default", goal_id="restarted")
        wait_until(lambda: planner.client.xlen(keys.GOALS), what="the goal is sent")
        planner.container.goal_consumer.drain()
        plan_id = plan_of(planner.client, "restarted")
        lines = process.stderr
        assert lines is not None
        wait_until(lambda: "look" in lines.readline(), what="the first step is told of")
        with server.refusing():
            wait_until(lambda: "does not answer" in lines.readline(), what="that the server is away is told")
        planner.client.connection_pool.disconnect()
        for step, touched in (("look", []), ("fix-b", ["b.py"])):
            planner.report(step, plan_id, touched_files=touched)
        _, told = process.communicate(timeout=90)

    assert process.returncode == 0
    assert "Redis answers again." in told
    assert "plan.completed" in told
