"""`planner log`, `export --log`, `verify` and `sign`, on a plan of a real worker, and over HTTP as by Redis."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from schemas import codec
from schemas.api_key import Right
from tests.conftest import RunningWorker, running_worker, wait_until
from tests.support.gateway import Gateway
from tests.support.planner import STEPS, Planner, executing, halted
from worker.cli.commands.app import app
from worker.store.keys import Partition

Run = Callable[..., Result]
P0 = Partition(0)


@pytest.fixture
def recorded_worker(redis_url: str, tmp_path: Path) -> Iterator[RunningWorker]:
    """A worker that ends with its test: others of this module are their planner themselves."""
    with running_worker(redis_url, tmp_path / "worker.log") as worker:
        yield worker


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, server_url: str, tmp_path: Path) -> Run:
    """Run a command in this process, in an empty folder."""
    monkeypatch.setenv("PLANNER_REDIS_URL", server_url)
    monkeypatch.chdir(tmp_path)
    return lambda *words, stdin=None: CliRunner().invoke(app, [*map(str, words)], input=stdin)


def document(result: Result, code: int = 0) -> dict[str, Any]:
    assert result.exit_code == code, result.output
    found: dict[str, Any] = codec.loads(result.stdout)
    return found


def answer(redis: Redis) -> None:
    """Do every step of one plan, as a controller that is always right."""
    queue = P0.steps("default")
    wait_until(lambda: redis.exists(queue), what="the queue is there")
    for _ in STEPS:
        found: Any = redis.xreadgroup("controllers", "ctl-7", {queue: ">"}, count=1, block=30_000)
        spec = codec.loads(found[0][1][0][1][b"data"])
        ids = {name: spec[name] for name in ("plan_id", "step_id", "attempt", "lease")}
        outcome = {**ids, "success": True, "tests_passed": True, "touched_files": spec["allowed_files"]}
        redis.xadd(spec["reply_to"], {"data": codec.dumps(outcome)})


def end_of(redis: Redis, plan_id: str) -> dict[str, Any]:
    """The event of the plan's end."""
    entries: Any = redis.xrange(P0.events)
    told = [codec.loads(fields[b"data"]) for _, fields in entries]
    end: dict[str, Any]
    (end,) = (each for each in told if each.get("plan_id") == plan_id and each.get("to") == "COMPLETED")
    return end


def test_what_a_worker_wrote_is_read_exported_verified_and_signed(
    run: Run, recorded_worker: RunningWorker, tmp_path: Path
) -> None:
    redis = recorded_worker.redis
    goal = {"goal": "Fix b", "goal_id": "ci-1", "allowed_files": ["b.py"], "steps": STEPS}
    (tmp_path / "goal.json").write_bytes(codec.dumps(goal))
    assert run("submit", "goal.json", "--wait", "--json").exit_code == 0
    controller = threading.Thread(target=answer, args=(redis,))
    controller.start()
    followed = run("log", "ci-1", "--follow")
    controller.join()
    plan_id = document(run("show", "ci-1", "--json"))["plan_id"]
    end, log = end_of(redis, plan_id), tmp_path / "ci-1.jsonl"

    assert run("export", "ci-1", "--log", "ci-1.jsonl").exit_code == 0
    lines = log.read_bytes().splitlines(keepends=True)

    assert followed.exit_code == 0
    assert len(followed.stdout.splitlines()) == len(lines) == end["lines"]
    assert "plan EXECUTING > COMPLETED" in followed.stdout.splitlines()[-1]
    assert run("log", "ci-1", "--json").stdout_bytes == log.read_bytes()
    assert run("log", "ci-1", "--json", "--from", 2, "--limit", 1).stdout_bytes == lines[1]
    assert document(run("show", "ci-1", "--json"))["log"] == {"head": end["head"], "lines": end["lines"]}
    assert document(run("verify", "ci-1", "--json"))["result"] == "consistent"
    assert document(run("verify", "ci-1.jsonl", "--head", end["head"], "--json"))["result"] == "unchanged"

    assert run("sign", "--new-key", "k").exit_code == 0
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) == 0o600
    (tmp_path / "sig").write_text(run("sign", "ci-1", "--key", "k").stdout)
    by_key = ("--signature", "sig", "--key", "k.pub", "--json")
    assert document(run("verify", "ci-1", *by_key))["unchanged"] == end["lines"]

    log.write_bytes(b"".join([*lines[:1], lines[1].replace(b"true", b"null", 1), *lines[2:]]))
    found = document(run("verify", "ci-1.jsonl", *by_key), 1)
    assert (found["result"], found["fault"]["line"], found["fault"]["what"]) == ("tampered", 2, "changed")
    assert document(run("sign", "ci-1.jsonl", "--key", "k", "--json"), 1)["code"] == "tampered"
    cut = b"".join(lines[:-1])
    assert run("verify", "-", "--head", end["head"], stdin=cut).exit_code == 1
    redis.lpop(P0.plan(plan_id).log)
    assert document(run("verify", "ci-1", "--json"), 1)["fault"]["what"] == "dropped"


def test_a_plan_that_goes_on_may_grow_behind_its_signature(run: Run, redis_url: str, tmp_path: Path) -> None:
    planner = Planner(redis_url)
    plan_id = executing(planner)
    run("sign", "--new-key", "k")
    (tmp_path / "sig").write_text(run("sign", plan_id, "--key", "k").stdout)
    planner.report("fix-b", plan_id, touched_files=["b.py"])

    found = document(run("verify", plan_id, "--signature", "sig", "--key", "k", "--json"))

    assert (found["result"], found["unchanged"] + 1) == ("consistent", found["lines"])


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("verify", "nobody"), 3, "nobody"),
        (("replay", "nobody"), 3, "nobody"),
        (("backtest", "--policy", "empty.toml", "nobody"), 3, "nobody"),
        (("verify", "no.jsonl"), 2, "no.jsonl: No such file or directory."),
        (("verify", "./"), 2, "Is a directory"),
        (("verify", "empty.jsonl"), 1, "TAMPERED, line 1: dropped"),
        (("verify", "key"), 1, "TAMPERED, line 1: changed"),
        (("verify", "empty.jsonl", "--head", "x"), 2, "no digest of 32 characters"),
        (("verify", "empty.jsonl", "--signature", "key"), 2, "--signature with --key"),
        (("verify", "empty.jsonl", "--signature", "key", "--key", "key"), 1, "key: it is no signature"),
        (("verify", "empty.jsonl", "--signature", "none", "--key", "key"), 2, "none: No such file"),
        (("verify", "empty.jsonl", "--signature", "key", "--key", "empty.jsonl"), 2, "it is no public key"),
        (("sign", "empty.jsonl", "--key", "key.pub"), 2, "key.pub: it is no private key"),
        (("sign", "empty.jsonl", "--key", "key"), 1, "it is not signed"),
        (("sign", "--new-key", "key"), 2, "key: File exists."),
        (("sign", "--new-key", "no/key"), 2, "no/key: No such file or directory."),
        (("sign",), 2, "Name a PLAN or FILE and the --key"),
        (("log", "nobody"), 3, "nobody"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(
    run: Run, redis_url: str, tmp_path: Path, words: tuple[str, ...], code: int, says: str
) -> None:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "empty.toml").touch()
    run("sign", "--new-key", "key")

    result = run(*words)

    assert result.exit_code == code
    assert says in " ".join(result.output.split())


def test_over_http_it_is_the_same(run: Run, redis_url: str, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    plan_id = halted(Planner(redis_url))
    asked = [("log", plan_id), ("log", plan_id, "--json", "--from", "2"), ("verify", plan_id, "--json")]
    ours = [run(*words) for words in asked]
    monkeypatch.delenv("PLANNER_REDIS_URL")
    monkeypatch.setenv("PLANNER_URL", gateway.url)
    monkeypatch.setenv("PLANNER_API_KEY", gateway.key(Right.VIEWER))

    theirs = [run(*words) for words in asked]

    assert [(each.exit_code, each.stdout_bytes) for each in theirs] == [(0, each.stdout_bytes) for each in ours]
    assert run("log", "nobody").exit_code == 3
