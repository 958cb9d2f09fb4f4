"""`planner audit`: who did what, from where, and what came of it; nobody can change it afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner

from schemas import codec
from schemas.api_key import Right
from tests.conftest import connect, wait_until
from tests.support.gateway import Gateway
from tests.support.planner import Planner, executing, obeying
from worker.cli.commands.app import app
from worker.engine.engine import EventKeeper
from worker.gateway import refusals
from worker.store import audit, functions, keys
from worker.store.audit import Act
from worker.store.memory import ServerMemory

Entries = Callable[..., list[dict[str, Any]]]
FREE = "127.0.0.1"


@pytest.fixture
def run(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setenv("PLANNER_REDIS_URL", gateway.settings.redis_url)
    monkeypatch.setenv("USER", "ops")
    monkeypatch.setenv("LOGNAME", "ops")
    return lambda *words, **options: CliRunner().invoke(app, [*words], **options).stdout


@pytest.fixture
def entries(run: Callable[..., str]) -> Entries:
    """What `planner audit --json` exports, a line of JSON each, once there are so many."""

    def read(*words: str, count: int = 1) -> list[dict[str, Any]]:
        def look() -> list[str]:
            found = run("audit", "--json", *words).splitlines()
            return found if len(found) >= count else []

        return [codec.loads(line) for line in wait_until(look, what=f"{count} entries")]

    return read


def test_a_command_is_noted_with_the_person_of_its_key_and_what_came_of_it(
    gateway: Gateway, planner: Planner, entries: Entries, run: Callable[..., str]
) -> None:
    plan_id, ada = executing(planner), gateway.client(Right.OPERATOR, name="Ada Lovelace")
    with obeying(planner.container):
        path = f"/v1/plans/{plan_id}/commands?wait=20"
        done = ada.post(path, json={"command": "pause", "reason": "lunch"})
        refused = ada.post(path, json={"command": "approve", "step_id": "fix-b", "actor": "bob"})
        wide = ada.post("/v1/commands?wait=20", json={"command": "pause", "scope": "tenant", "target": "acme"})
        run("resume", plan_id, "--reason", "go on")

    assert (done.status_code, refused.status_code, wide.status_code) == (200, 409, 200)
    pause, approve, tenant, resume = entries(count=4)
    assert (pause["act"], pause["about"], pause["result"], pause["reason"]) == (
        "command pause", plan_id, "done", "lunch",
    )  # fmt: skip
    assert pause["by"].startswith("Ada Lovelace (key ")
    assert pause["from"] == f"http from {FREE}"
    assert (approve["result"], approve["about"]) == ("refused", f"{plan_id} step fix-b")
    assert approve["by"] == f"bob ({pause['by']})"
    assert "does not wait for an approval" in approve["reason"]
    assert (tenant["act"], tenant["about"], tenant["by"]) == ("command pause", "tenant:acme", pause["by"])
    assert (resume["by"], resume["from"].partition(" from ")[0]) == ("ops", "redis")


def test_a_command_about_a_plan_that_is_gone_is_noted_as_refused(planner: Planner, entries: Entries) -> None:
    gone = {"command": "pause", "scope": "plan", "plan_id": "plan_00-" + 32 * "0", "actor": "eve", "reason": ""}
    home = planner.container.context(0)
    planner.client.xadd(home.partition.commands, {"data": codec.dumps({"command_id": "c", **gone})})
    with obeying(planner.container):
        found = entries()

    assert [(each["by"], each["result"], each["reason"]) for each in found] == [
        ("eve", "refused", "there is no such plan")
    ]


def test_keys_and_policies_are_noted(run: Callable[..., str], entries: Entries) -> None:
    made = codec.loads(run("keys", "add", "--role", "viewer", "--tenant", "acme", "--name", "Ada", "--json"))
    run("keys", "rotate", made["key_id"])
    run("keys", "revoke", made["key_id"])
    run("policy", "apply", "docs/examples/policy-strict.toml", "--tenant", "acme", "--actor", "grace")
    run("policy", "withdraw", "--tenant", "acme")

    found = entries(count=5)

    assert [(each["act"], each["by"]) for each in found] == [
        ("key made", "ops"),
        ("key rotated", "ops"),
        ("key revoked", "ops"),
        ("policy applied", "grace"),
        ("policy withdrawn", "ops"),
    ]
    assert found[0]["about"] == f"Ada (key {made['key_id']}): viewer of acme"
    assert made["key"] not in run("audit")
    assert "Ada" in run("audit")


def test_sign_ins_and_refusals_are_noted_with_the_address(gateway: Gateway, entries: Entries) -> None:
    token, stranger = gateway.key(Right.VIEWER, name="Ada"), gateway.with_token(None)
    wrong = token[:-4] + "0000"
    origin = {"Origin": gateway.url}
    assert stranger.post("/sign-in", data={"key": token}, headers=origin).status_code == 303
    assert stranger.post("/sign-in", data={"key": wrong}, headers=origin).status_code == 401
    assert gateway.with_token(token).post("/v1/commands", json={"command": "halt", "scope": "all"}).status_code == 403
    assert gateway.with_token(wrong).get("/v1/plans").status_code == 401
    assert gateway.with_token(None).get("/v1/plans").status_code == 401  # who shows nothing is no news

    found = entries(count=4)

    key_id = token.split("_")[1]
    assert [(each["act"], each["by"], each["result"]) for each in found] == [
        ("sign-in", f"Ada (key {key_id})", "done"),
        ("POST /sign-in", "an unknown caller", "refused"),
        ("POST /v1/commands", f"Ada (key {key_id})", "refused"),
        ("GET /v1/plans", f"a caller with a wrong secret of key {key_id}", "refused"),
    ]
    assert {each["from"] for each in found} == {f"http from {FREE}"}
    assert found[2]["reason"].startswith("no_right: ")
    assert wrong.split("_")[2] not in str(found)


def test_a_flood_of_refusals_takes_no_act_away_and_is_counted(
    gateway: Gateway, entries: Entries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "MOST", 3)
    with connect(gateway.settings.redis_url) as client:
        audit.note(client, Act("key made", "ops", "redis", "key a"))
    wrong = gateway.with_token("pk_a_b")
    for _ in range(8):
        assert wrong.get("/v1/plans").status_code == 401

    found = entries(count=4)
    monkeypatch.setattr(refusals, "MINUTE_S", 0.001)  # the next minute
    wrong.get("/v1/plans")

    assert [each["act"] for each in found] == ["key made", *["GET /v1/plans"] * len(found[1:])]
    assert 3 <= len(found[1:]) <= 6  # a minute may have begun meanwhile
    assert "more were refused before" in entries(count=len(found) + 1)[-1]["reason"]


def test_what_is_too_old_goes_and_since_reads_the_rest(redis: Redis, entries: Entries) -> None:
    now_ms = int(time.time() * 1000)
    day = 86_400_000
    for age in (*[100 * day] * 300, 2 * day, 0):
        data = codec.dumps(Act("sign-in", "ada", "http", "the page")._asdict())
        redis.xadd(keys.AUDIT, {"data": data}, id=f"{now_ms - age}-*")

    EventKeeper(redis, keys.Partition(0), ServerMemory(redis), 3600, 90 * 86_400).cut()

    assert len(entries("--since", "3d")) == 2
    assert len(entries("--since", "1h")) == 1
    assert len(entries("--since", "365d")) < 150  # whole pages go


def test_a_full_server_takes_what_is_noted(redis: Redis, entries: Entries) -> None:
    functions.load(redis)  # as any worker has
    redis.config_set("maxmemory", 1)
    try:
        audit.note(redis, Act("command cancel", "ada", "http", "plan", reason="x" * 5000))
    finally:
        redis.config_set("maxmemory", 0)

    (found,) = entries()
    assert len(found["reason"]) == audit.MOST_CHARS
