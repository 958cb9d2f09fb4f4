"""How a cluster's slots are kept by a process, and the server that a transaction goes to."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ClusterDownError, WatchError
from redis.exceptions import ConnectionError as NoConnection

from worker.settings.cluster import Address
from worker.store.cluster.client import ClusterClient, ClusterPool
from worker.store.cluster.obstacles import SlotMoved
from worker.store.cluster.topology import Topology, slot_of, topology

URL = "redis+cluster://one:1,two:2"
ONE, TWO = Address("one", 1), Address("two", 2)
Answer = Callable[[Address], list[Any]]


def one_half_each(_: Address) -> list[Any]:
    return [[0, 8191, [b"one", 1]], [8192, 16383, [b"two", 2]]]


def all_at(server: Address) -> list[Any]:
    return [[0, 16383, [server.host.encode(), server.port]]]


def answering(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> list[Address]:
    """Have each server answer CLUSTER SLOTS so. Returns a list of those that will be asked."""
    asked: list[Address] = []

    class Asked:
        def __init__(self, address: Address) -> None:
            self.address = address

        def execute_command(self, *_: str) -> list[Any]:
            asked.append(self.address)
            return answer(self.address)

    @contextmanager
    def connect(_: Topology, address: Address) -> Iterator[Asked]:
        yield Asked(address)

    monkeypatch.setattr(Topology, "_connect", connect)
    return asked


def test_a_forked_process_reads_the_slots_although_a_thread_of_its_parent_did(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended = threading.Event(), threading.Event()

    def slow(_: Address) -> list[Any]:
        begun.set()
        assert ended.wait(60)
        return all_at(ONE)

    answering(monkeypatch, slow)
    topology.cache_clear()
    thread = threading.Thread(target=topology(URL).refresh)
    thread.start()
    assert begun.wait(60)

    child = os.fork()
    if not child:
        ended.set()
        there = topology(URL)
        reading = threading.Thread(target=there.refresh, daemon=True)
        reading.start()
        reading.join(20)
        os._exit(0 if there.version else 1)
    _, status = os.waitpid(child, 0)
    ended.set()
    thread.join()
    topology.cache_clear()

    assert os.waitstatus_to_exitcode(status) == 0


def test_a_move_that_is_reported_while_the_slots_are_read_has_them_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [ONE, TWO]
    found = Topology(URL)

    def answer(_: Address) -> list[Any]:
        server = answers.pop(0)
        if answers:
            found.doubt(has_moved=True)
        return all_at(server)

    answering(monkeypatch, answer)

    found.refresh()
    found.refresh()

    assert found.of(0) == TWO


def test_slots_that_no_server_could_tell_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [NoConnection(), NoConnection(), all_at(TWO)]

    def answer(_: Address) -> list[Any]:
        said = answers.pop(0)
        if isinstance(said, Exception):
            raise said
        return list(said)

    answering(monkeypatch, answer)
    found = Topology(URL)

    with pytest.raises(NoConnection):
        found.refresh()
    found.refresh()

    assert found.of(0) == TWO


class Line:
    """A connection that notes what is sent, and gives the replies of a server."""

    def __init__(self, address: Address, sent: list[tuple[Address, str]]) -> None:
        self.address = address
        self.replies: list[Any] = []
        self.sent = sent
        self.is_open = True

    def pack_command(self, *_: Any) -> list[Any]:
        raise AssertionError("commands are sent together")

    def pack_commands(self, commands: Any) -> list[Any]:
        return list(commands)

    def send_packed_command(self, commands: list[Any], **_: Any) -> None:
        for command in commands:
            self.sent.append((self.address, str(command[0])))
            self.replies.append([b"OK"] if command[0] == "EXEC" else b"OK")

    def read_response(self) -> Any:
        said = self.replies.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    def disconnect(self) -> None:
        self.is_open = False


class Site:
    """A client whose connections are lines."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[tuple[Address, str]] = []
        self.lines: dict[Address, Line] = {}
        topology.cache_clear()
        pool: Any = ClusterPool(URL, None)
        monkeypatch.setattr(pool, "line", self.line)
        monkeypatch.setattr(pool, "take_back", lambda *_: None)
        self.topology = pool.topology
        self.client: Redis = ClusterClient(connection_pool=pool)

    def line(self, address: Address) -> Line:
        return self.lines.setdefault(address, Line(address, self.sent))


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    answering(monkeypatch, one_half_each)
    yield Site(monkeypatch)
    topology.cache_clear()


LOW = next(key for key in map(str, range(100)) if slot_of(key.encode()) < 8192)
HIGH = next(key for key in map(str, range(100)) if slot_of(key.encode()) >= 8192)


def test_what_is_watched_is_watched_no_longer_although_another_server_was_asked(site: Site) -> None:
    with site.client.pipeline(transaction=True) as pipeline:
        pipeline.watch(HIGH)
        pipeline.get(LOW)

    assert site.sent == [(TWO, "WATCH"), (ONE, "GET"), (TWO, "UNWATCH")]


def test_a_transaction_is_not_sent_to_a_server_that_watches_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with site.client.pipeline(transaction=True) as pipeline:
        pipeline.watch(HIGH)
        answering(monkeypatch, lambda _: all_at(ONE))
        site.topology.doubt(has_moved=True)
        pipeline.multi()
        pipeline.set(HIGH, "x")
        with pytest.raises(WatchError):
            pipeline.execute()

    assert (ONE, "EXEC") not in site.sent
    assert not site.lines[TWO].is_open


def test_a_transaction_goes_to_the_server_that_watches(site: Site) -> None:
    def write(pipeline: Any) -> None:
        pipeline.get(LOW)
        pipeline.multi()
        pipeline.set(HIGH, "x")

    site.client.transaction(write, HIGH)

    assert site.sent == [(TWO, "WATCH"), (ONE, "GET"), (TWO, "MULTI"), (TWO, "SET"), (TWO, "EXEC")]
    assert site.lines[TWO].is_open


def test_a_server_whose_cluster_is_down_is_asked_last_for_the_slots(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = answering(monkeypatch, lambda server: one_half_each(server) if server == ONE else all_at(TWO))
    site.client.get(LOW)
    site.lines[ONE].replies.append(ClusterDownError("CLUSTERDOWN The cluster is down"))
    with pytest.raises(SlotMoved):
        site.client.get(LOW)
    site.lines[ONE].replies.clear()

    site.client.get(LOW)

    assert asked == [ONE, TWO]
    assert site.sent[-1] == (TWO, "GET")
