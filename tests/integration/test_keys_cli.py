"""`planner keys`: made, shown once, listed, rotated, revoked, refused in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from redis import Redis
from typer.testing import CliRunner, Result

from schemas import codec
from worker.cli.commands.app import app
from worker.store import api_keys
from worker.store.clients import connect

Run = Callable[..., Result]


@pytest.fixture
def client(redis_url: str) -> Iterator[Redis]:
    with connect(redis_url) as made:
        yield made


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, redis_url: str) -> Run:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "160")
    return lambda *words: CliRunner().invoke(app, ["keys", *words])


def test_a_key_is_made_and_is_on_standard_output_alone(run: Run, client: Redis) -> None:
    options = ("--role", "producer", "--role", "viewer", "--tenant", "acme", "--queue", "gpu", "--queue", "default")
    made = run("add", *options, "--repo", "acme/shop", "--expires", "90d", "--rate", "100/m")

    found = api_keys.find(client, made.stdout.strip())
    assert (made.exit_code, made.stdout.count("\n")) == (0, 1)
    assert found is not None
    assert (found.rights, found.tenant, found.queues) == (("producer", "viewer"), "acme", ("gpu", "default"))
    assert (found.repositories, found.rate) == (("acme/shop",), "100/m")
    ends = datetime.fromisoformat(found.expires_at or "") - datetime.now(UTC)
    assert timedelta(days=89, hours=23) < ends <= timedelta(days=90)
    assert found.key_id in made.stderr
    assert "shown this once" in made.stderr

    shown = run("list").stdout
    assert all(
        word in shown for word in (found.key_id, "producer, viewer", "acme", "gpu, default", "acme/shop", "100/m")
    )
    listed = run("list", "--json").stdout
    assert [each["key_id"] for each in codec.loads(listed)] == [found.key_id]
    assert made.stdout.strip().split("_")[2] not in shown + listed


def test_a_key_is_rotated_and_revoked_by_its_id(run: Run, client: Redis) -> None:
    first = codec.loads(run("add", "--role", "admin", "--json").stdout)
    second = run("rotate", first["key_id"]).stdout.strip()
    assert api_keys.find(client, first["key"])
    assert api_keys.find(client, second)

    third = run("rotate", first["key_id"], "--now").stdout.strip()
    assert [bool(api_keys.find(client, each)) for each in (first["key"], second, third)] == [False, False, True]

    assert run("revoke", first["key_id"]).exit_code == 0
    assert api_keys.find(client, third) is None
    assert [run(name, first["key_id"]).exit_code for name in ("revoke", "rotate")] == [3, 3]
    assert "There are no keys" in run("list").stdout
    whole = run("revoke", third)  # of a key that a person pasted whole
    assert (whole.exit_code, third in whole.output) == (3, False)


@pytest.mark.parametrize(
    ("options", "exit_code", "code"),
    [
        (("--role", "king"), 2, "wrong_option"),
        (("--role", "producer", "--queue", "No Queue"), 2, "wrong_option"),
        (("--role", "producer", "--rate", "0/m"), 2, "wrong_option"),
        (("--role", "producer", "--rate", "100/week"), 2, "wrong_option"),
        (("--role", "producer", "--expires", "soon"), 2, "wrong_time"),
        (("--role", "producer", "--expires", "2020-01-01"), 2, "wrong_time"),
        (("--role", "producer", "--tenant", "other", "--queue", "gpu"), 1, "queue_taken"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    run: Run, client: Redis, options: tuple[str, ...], exit_code: int, code: str
) -> None:
    run("add", "--role", "producer", "--tenant", "acme", "--queue", "gpu")

    refused = run("add", *options, "--json")

    assert (refused.exit_code, codec.loads(refused.stdout)["code"]) == (exit_code, code)
    assert len(api_keys.every(client)) == 1
