"""A server of a planner from before 0.1.0 is refused wherever one begins, and is good again once it was emptied."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from typer.testing import CliRunner

from tests.conftest import connect
from tests.support import server_before
from tests.support.refused import all_of, run, url_of
from worker.cli.commands.app import app
from worker.host import embedded_server, nearby_server
from worker.process.launch import worker_command
from worker.store import clients, deployment, functions, keys

SENTENCE = "holds records or functions of a planner from before version 0.1.0, which no release reads"


@pytest.fixture
def before(redis: Redis) -> Redis:
    server_before.load(redis)
    return redis


def planner(*words: str) -> list[str]:
    return [sys.executable, "-c", "from worker.start import planner; planner()", *words]


def test_a_worker_does_not_start_and_changes_nothing(before: Redis, redis_url: str) -> None:
    stored = all_of(before)

    code, said = run(worker_command(pool="solo"), PLANNER_REDIS_URL=redis_url)

    assert code == 1
    assert SENTENCE in said
    assert "nothing handed back" not in said
    assert all_of(before) == stored


@pytest.mark.parametrize(
    "words",
    [
        *(("gateway", "--port", "0"), ("exporter", "--port", "0"), ("mcp",), ("up",)),
        *(("plans",), ("submit", "--goal", "Fix b"), ("partitions",), ("partitions", "2")),
    ],
)
def test_neither_a_gateway_nor_a_command_begins(
    before: Redis, redis_url: str, words: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANNER_REDIS_URL", redis_url)
    stored = all_of(before)

    found = CliRunner().invoke(app, words)

    assert found.exit_code == 2
    assert SENTENCE in " ".join(found.output.split())
    assert all_of(before) == stored


@pytest.mark.parametrize("left", ["FLUSHDB", "FUNCTION FLUSH"])
def test_it_is_refused_until_records_and_functions_are_gone(before: Redis, left: str) -> None:
    with clients.connect(url_of(before)) as client:
        client.execute_command(left)
        with pytest.raises(deployment.ServerOfBefore) as refused:
            deployment.join(client, 1)

        for command in re.findall(r'"\$PLANNER_REDIS_URL" ([A-Z ]+[A-Z])', str(refused.value)):
            client.execute_command(command)

        deployment.join(client, 1)
        functions.load(client)
        assert client.hget(keys.DEPLOYMENT, "partitions") == b"1"


def test_no_function_of_before_stands_for_one_of_today(before: Redis) -> None:
    with clients.connect(url_of(before)) as client:
        assert not functions.are_loaded(client)
        libraries: Any = client.function_list()
        there = {dict(zip(flat[::2], flat[1::2], strict=True))[b"library_name"].decode() for flat in libraries}

    assert there
    assert there.isdisjoint(functions.LIBRARIES)


def test_planner_up_says_which_folder_to_delete_or_takes_another(tmp_path: Path) -> None:
    folder = tmp_path / "before"
    nearby_server.make_private(folder)
    with embedded_server.valkey(folder, password=nearby_server.password(folder)) as url, connect(url) as client:
        server_before.load(client)

    code, said = run(planner("up", "--data-dir", str(folder)))

    assert code == 2
    assert f"The folder {folder} {SENTENCE}. Delete it with `rm -r {folder}`" in said
    assert "`planner up --data-dir DIR`" in said
