"""How commands are sent to the servers of a cluster, and how their replies are joined."""

from __future__ import annotations

from typing import Any

import pytest
from redis.crc import key_slot
from redis.exceptions import ClusterCrossSlotError, MovedError, NoPermissionError

from worker.settings import cluster
from worker.settings.settings import Settings
from worker.store import clients, functions, looks
from worker.store.cluster import commands
from worker.store.cluster.commands import NOWHERE
from worker.store.cluster.topology import slot_of
from worker.store.keys import GOALS, GOALS_DEAD, Partition, tag_of

PARTS = [Partition(number) for number in range(3)]


@pytest.mark.parametrize(
    "key", [b"planner:{0}:plans", b"planner:goals", b"{}a", b"a{", b"a{b}{c}", b"{planner:goals}:x"]
)
def test_slots_are_those_of_redis(key: bytes) -> None:
    assert slot_of(key) == key_slot(key)


def test_keys_of_one_tag_are_in_one_slot() -> None:
    assert slot_of(GOALS.encode()) == slot_of(GOALS_DEAD.encode())
    assert tag_of(GOALS) == tag_of(GOALS_DEAD)
    assert tag_of(PARTS[1].timers) == tag_of(PARTS[1].outcomes) == "1"


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        (("GET", "a"), ("a",)),
        (("TIME",), ()),
        (("XINFO STREAM", "a"), ("a",)),
        (("xgroup create", b"a", "g", "$"), (b"a",)),
        (("MEMORY USAGE", "a"), ("a",)),
        (("FCALL", "planner_begin", 2, "a", "b", "c"), ("a", "b")),
        (("XREADGROUP", "GROUP", "g", "c", "BLOCK", 5, "STREAMS", "a", "b", ">", ">"), ("a", "b")),
        (("EXISTS", "a", "b"), ("a", "b")),
        (("FUNCTION LIST",), ()),
    ],
)
def test_the_keys_of_a_command(command: tuple[Any, ...], keys: tuple[Any, ...]) -> None:
    assert tuple(commands.keys_of(commands.words_of(command))) == keys


def divided(*command: Any) -> commands.Divided:
    found = commands.divide(command)
    assert found
    return found


def test_a_command_with_keys_of_one_slot_is_not_divided() -> None:
    assert commands.divide(("EXISTS", PARTS[0].plans, PARTS[0].timers)) is None


def test_a_write_with_keys_of_several_slots_is_refused() -> None:
    with pytest.raises(ClusterCrossSlotError):
        commands.divide(("FCALL", functions.COMMIT, 2, PARTS[0].plans, PARTS[1].plans))


def test_clocks_of_several_slots_are_one_answer() -> None:
    due = divided(*looks.due_call([part.timers for part in PARTS]))

    assert [part.command for part in due.parts] == [looks.due_call([part.timers]) for part in PARTS]
    assert looks.read_due(due.join([[b"70"], [b""], [b"50", 1]])) == (50.0, (2,))
    assert looks.read_due(due.join([NOWHERE, [b"60", 1], [b""]])) == (60.0, (1,))
    assert looks.read_due(due.join([[b""], NOWHERE, [b""]])) == (None, ())


def test_streams_of_several_slots_keep_their_places() -> None:
    streams = [PARTS[0].outcomes, PARTS[1].outcomes, PARTS[0].commands]
    waiting = divided(*looks.waiting_call(streams))

    first, second = waiting.parts
    assert (first.command[3:5], second.command[3:4]) == ((streams[0], streams[2]), (streams[1],))
    replies = [[[1, 5, b"1-0", 0, b"", b""], [2, 7, b"2-0", 0, b"", b""]], [[1, 9, b"3-0", 0, b"", b""]]]
    found = looks.waiting(streams, waiting.join(replies))
    assert {one.stream: one.length for one in found} == {streams[0]: 5, streams[1]: 9, streams[2]: 7}


def test_leases_of_several_slots_go_with_their_acts() -> None:
    keys = [part.owner for part in PARTS]
    owned = divided("FCALL", functions.OWN, 3, *keys, "me", 5000, "look", "take", "give")

    assert [part.command[3:] for part in owned.parts] == [
        (keys[0], "me", 5000, "look"),
        (keys[1], "me", 5000, "take"),
        (keys[2], "me", 5000, "give"),
    ]
    assert owned.join([[b"you"], NOWHERE, [b""]]) == [b"you", b"", b""]


def test_partitions_to_sweep_keep_their_numbers() -> None:
    keys = [f"planner:{{{number}}}:{name}" for number in range(3) for name in "abcdefg"]
    over = divided("FCALL", functions.LOOK_OVER, len(keys), *keys, "planner", 30_000)

    assert [len(part.command) for part in over.parts] == [3 + 7 + 2] * 3
    assert over.join([[], [1], NOWHERE]) == [2]


def test_a_function_with_undeclared_keys_declares_one_that_never_exists() -> None:
    call = ("FCALL", functions.COMMIT, 1, "planner:{3}:plan:x", "argument")

    assert commands.guarded(call) == (*call[:2], 2, call[3], "planner:{3}:absent", "argument")
    assert commands.guarded(("FCALL", functions.TAKE_TURNS, 1, GOALS))[4] == "{planner:goals}:absent"
    heartbeat = ("FCALL", functions.HEARTBEAT, 1, "planner:{3}:lease:x:y", 1)
    assert commands.guarded(heartbeat) is heartbeat  # a controller may touch no other key


def test_every_function_with_variable_keys_is_divided_or_left_alone() -> None:
    assert not commands.GUARDED & {functions.BEGIN, functions.KEEP_CHANGE, *commands.FUNCTIONS}


def test_the_fullest_and_least_safe_server_answers_for_all() -> None:
    safe = b"used_memory:%d\r\nmaxmemory:100\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n"
    unsafe = b"used_memory:1\r\nmaxmemory:100\r\nmaxmemory_policy:allkeys-lru\r\naof_enabled:1\r\n"
    join = commands.join_all(("INFO", "everything"))

    assert join([safe % 10, safe % 90, NOWHERE]) == safe % 90
    assert join([safe % 90, unsafe]) == unsafe


def test_a_scan_goes_from_server_to_server() -> None:
    assert commands.scan_at(("SCAN", "0", "COUNT", 5), 2) == (0, ("SCAN", 0, "COUNT", 5))
    further = commands.scan_on(0, 2, [[b"7", [b"a"]]])
    assert commands.scan_at(("SCAN", further[0].decode()), 2) == (0, ("SCAN", 7))
    second = commands.scan_on(0, 2, [[b"0", []]])
    assert commands.scan_at(("SCAN", second[0].decode()), 2) == (1, ("SCAN", 0))
    assert commands.scan_on(1, 2, [[b"0", [b"z"]]]) == [b"0", [b"z"]]


def test_urls_of_a_cluster() -> None:
    found = cluster.parse("redis+cluster://planner:p%40ss@one:7000,[::1]:7001,three")

    assert found.hosts == (("one", 7000), ("::1", 7001), ("three", 6379))
    assert (found.username, found.password) == ("planner", "p@ss")
    assert cluster.login("rediss+cluster://one")["ssl"]


@pytest.mark.parametrize("url", ["redis+cluster://one:7000/1", "redis+cluster://one:x", "redis+cluster://one,"])
def test_unreadable_urls_of_a_cluster_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"redis\+cluster://host:port"):
        Settings(redis_url=url)


def test_a_broker_cannot_be_a_cluster() -> None:
    with pytest.raises(ValueError, match="is no cluster"):
        Settings(broker_url="redis+cluster://one:7000")


def test_a_url_of_one_server_of_a_cluster_is_refused_with_the_right_one() -> None:
    why = clients.refusal(MovedError("1180 10.0.0.2:6379"), "redis://user:secret@10.0.0.1:6379")

    assert why
    assert "PLANNER_REDIS_URL=redis+cluster://10.0.0.1:6379" in str(why)
    assert "secret" not in str(why)


@pytest.mark.parametrize(("user", "is_named"), [("", True), ("known:secret@", False)])
def test_a_refusal_without_a_user_names_the_folder_of_planner_up(user: str, is_named: bool) -> None:
    why = clients.refusal(NoPermissionError("no permissions"), f"redis://{user}127.0.0.1:6379")

    assert why
    assert ("PLANNER_DATA_DIR" in str(why)) is is_named
