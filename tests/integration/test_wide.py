"""Who obeys the wide orders: one worker at a time, in their turn, whatever becomes of the one before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from schemas import codec
from worker.engine.admission import Quota
from worker.engine.breakers import note_lifted
from worker.engine.bulk_commands import BulkCommands
from worker.store import clients, functions, keys
from worker.store.keys import Partition
from worker.streams.inbox import Inbox

HOME = Partition(0)
MAX_FAILURES = 3


@pytest.fixture
def client(redis_url: str) -> Iterator[Redis]:
    """A client as workers have it, on an emptied server with the functions."""
    with clients.connect(redis_url) as client:
        functions.load(client)
        yield client


def an_inbox(client: Redis, name: str) -> Inbox:
    return Inbox(client, keys.COMMANDS, keys.COMMANDS_DEAD, name)


def a_worker(client: Redis, name: str, partitions: int = 1) -> BulkCommands:
    return BulkCommands(
        client, an_inbox(client, name), Quota(client, partitions, None, None), name, MAX_FAILURES, note_lifted
    )


def order(client: Redis, name: str, order_id: str, scope: str = "all", **more: Any) -> None:
    said = {"command_id": order_id, "command": name, "scope": scope, "actor": "ada", "reason": "why", **more}
    client.xadd(keys.COMMANDS, {"data": codec.dumps(said)})


def told(client: Redis) -> list[tuple[str, str]]:
    """What was told of each order, in turn."""
    events: Any = client.xrange(HOME.events)
    found = [(fields[b"type"].decode(), codec.loads(fields[b"data"])) for _, fields in events]
    return [(data["command_id"], kind.split(".")[3]) for kind, data in found]


def stands(client: Redis) -> set[str]:
    found: Any = client.hkeys(HOME.scopes)
    return {name.decode() for name in found} - {"commands"}


def hold(client: Redis, name: str, ms: int) -> None:
    functions.call(client, "FCALL", functions.HOLD_LOCK, 1, keys.COMMANDS_LOCK, name, ms)


def test_while_one_worker_obeys_orders_another_leaves_them_unread(client: Redis) -> None:
    order(client, "pause", "o-1")
    hold(client, "first", 60_000)

    assert a_worker(client, "second").drain() is False

    assert (told(client), stands(client)) == ([], set())
    assert client.xlen(keys.COMMANDS) == 1
    a_worker(client, "first").drain()
    assert told(client) == [("o-1", "obeyed")]


def test_what_a_dead_worker_had_read_is_obeyed_first(client: Redis) -> None:
    order(client, "pause", "o-1")
    assert len(an_inbox(client, "dead").read()) == 1
    order(client, "resume", "o-2")

    a_worker(client, "second").drain()

    assert told(client) == [("o-1", "obeyed"), ("o-2", "obeyed")]
    assert stands(client) == set()
    assert (client.xlen(keys.COMMANDS), client.exists(keys.COMMANDS_LOCK)) == (0, 0)


def test_a_cancel_that_is_obeyed_again_from_its_beginning_reaches_no_further(client: Redis) -> None:
    order(client, "cancel", "o-1")
    a_worker(client, "first").drain()
    before: Any = client.hgetall(HOME.scopes)
    client.delete(f"{keys.COMMANDS_KNOWN}:o-1")  # as if its worker had died just before it was done
    order(client, "cancel", "o-1")

    a_worker(client, "second").drain()

    after: Any = client.hgetall(HOME.scopes)
    assert after[b"cancel all"] == before[b"cancel all"]
    assert told(client) == [("o-1", "obeyed"), ("o-1", "obeyed")]


def test_an_id_that_comes_with_another_command_is_refused(client: Redis) -> None:
    for name, command_id in (("pause", "o-1"), ("pause", "o-1"), ("cancel", "o-1")):
        order(client, name, command_id)

    a_worker(client, "first").drain()

    assert told(client) == [("o-1", "obeyed"), ("o-1", "known"), ("o-1", "refused")]
    assert stands(client) == {"pause all"}


def test_an_order_that_can_never_be_obeyed_does_not_keep_others_waiting_for_ever(client: Redis) -> None:
    client.set(HOME.scopes, "not a hash")
    order(client, "pause", "o-1")
    worker = a_worker(client, "first")

    for _ in range(MAX_FAILURES):
        assert worker.drain()
    client.delete(HOME.scopes)
    order(client, "pause", "o-2")
    worker.drain()

    found: Any = client.xrange(keys.COMMANDS_DEAD)
    ((_, dead),) = found
    assert codec.loads(dead[b"problem"])["problem"]["code"] == "poison"
    assert told(client) == [("o-2", "obeyed")]
    assert client.hlen(keys.COMMANDS_FAILURES) == 0
    assert client.hmget(keys.COMMANDS_STATS, "dead", "dead:poison") == [b"1", b"1"]


def test_every_partition_hears_of_an_order_and_one_answers_it(client: Redis) -> None:
    order(client, "halt", "o-1", "tenant", target="acme")

    a_worker(client, "first", partitions=3).drain()

    assert [client.hexists(Partition(number).scopes, "halt tenant:acme") for number in range(3)] == [1, 1, 1]
    assert [client.xlen(Partition(number).events) for number in range(3)] == [1, 0, 0]


def test_orders_are_obeyed_on_a_server_that_is_full(client: Redis) -> None:
    order(client, "halt", "o-1", "tenant", target="acme")
    an_inbox(client, "first").create_group()
    client.config_set("maxmemory", 1)
    try:
        a_worker(client, "first").drain()
    finally:
        client.config_set("maxmemory", 0)

    assert told(client) == [("o-1", "obeyed")]
    assert client.xlen(keys.COMMANDS) == 0


def test_a_server_that_has_lost_the_functions_gets_them_again(client: Redis) -> None:
    order(client, "pause", "o-1")
    client.function_flush()
    worker = a_worker(client, "first")

    assert worker.drain()
    worker.drain()

    assert told(client) == [("o-1", "obeyed")]
