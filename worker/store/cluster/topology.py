"""Knows the servers of a cluster, and the server of each slot."""

from __future__ import annotations

import os
import threading
import time
from binascii import crc_hqx
from functools import cache
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from worker.settings import cluster
from worker.settings.cluster import Address
from worker.store.cluster.obstacles import NoCluster

SLOTS = 16384
PATIENCE_S = 1.0  # with one server that is asked for the slots
AGAIN_S = 0.1  # between two questions after lost connections
HANGS_S = 2.0  # else each thread would wait for a server that hangs, again and again
AWAY_S = 5.0  # for so long a server that could not be reached is asked last


def slot_of(key: bytes) -> int:
    """Return the slot of a key. If the key has a hash tag, only the tag counts."""
    start = key.find(b"{")
    if start >= 0 and (end := key.find(b"}", start + 1)) > start + 1:
        key = key[start + 1 : end]
    return crc_hqx(key, 0) % SLOTS


class Topology:
    """The servers of one cluster's slots, as all threads of a process use them.

    The slots are read again after an error that reports a change, and after a lost connection.
    """

    def __init__(self, url: str) -> None:
        self._seeds = cluster.parse(url).hosts
        self._login = cluster.login(url)
        self._slots: list[Address | None] = [None] * SLOTS
        self._lock = threading.Lock()
        self._asked = -AGAIN_S
        self._is_old = True
        self._away: dict[Address, float] = {}
        self._hanging: dict[Address, float] = {}
        self.servers: tuple[Address, ...] = ()  # those that have slots
        self.version = 0  # is raised by each change

    def doubt(self, *, has_moved: bool = False) -> None:
        """Read the slots again before a later command.

        If a server reported a move (`has_moved`), the next command does so. Otherwise some time passes between two
        reads.
        """
        self._is_old = True
        if has_moved:
            self._asked = -AGAIN_S

    def lose(self, address: Address, *, hangs: bool = False) -> None:
        """Record that a server cannot be reached. If it `hangs`, no command is sent to it for a short time."""
        now = time.monotonic()
        self._away[address] = now + AWAY_S
        if hangs:
            self._hanging[address] = now + HANGS_S
        self.doubt()

    def hangs(self, address: Address) -> bool:
        """Return whether a server recently did not answer in time."""
        return bool(self._hanging) and self._hanging.get(address, 0.0) > time.monotonic()

    def is_away(self, key: bytes) -> bool:
        """Return whether the server of a key was lost lately."""
        address = self._slots[slot_of(key)]
        return bool(self._away) and (address is None or self._away.get(address, 0.0) > time.monotonic())

    def of(self, slot: int) -> Address:
        """Return the server of a slot. Raises NoConnection if none has it."""
        if found := self._slots[slot]:
            return found
        self.doubt()
        raise NoConnection(f"No server of the cluster has slot {slot}.")

    def any(self) -> Address:
        """Return a server that was not lost lately, if there is one."""
        now = time.monotonic()
        return next((each for each in self.servers if self._away.get(each, 0.0) <= now), self.servers[0])

    def refresh(self) -> None:
        """Read the slots again if they may have changed.

        While one thread reads them, others use the known slots. Raises NoConnection if no server answers, and NoCluster
        if a server belongs to no cluster.
        """
        if self.version and (not self._is_old or time.monotonic() - self._asked < AGAIN_S):
            return
        if not self._lock.acquire(blocking=not self.version):
            return
        try:
            if self._is_old:
                self._asked = time.monotonic()
                self._is_old = False  # a doubt during the question is about its answer
                self._take(self._ask())
        except BaseException:
            self._is_old = True
            raise
        finally:
            self._lock.release()

    def _ask(self) -> list[Any]:
        """Return the slots as the first server that answers reports them.

        Servers that were lost recently are asked last.
        """
        now = time.monotonic()
        known = dict.fromkeys((*self.servers, *self._seeds))
        trouble: RedisError | None = None
        for address in sorted(known, key=lambda each: self._away.get(each, 0.0) > now):
            try:
                with self._connect(address) as client:
                    found: Any = client.execute_command("CLUSTER", "SLOTS")
            except ResponseError as error:
                if "cluster support disabled" in str(error):
                    raise NoCluster(address) from error
                raise
            except RedisError as error:
                self._away[address] = now + AWAY_S
                trouble = error
                continue
            self._away.pop(address, None)
            if found:
                return [(*each[:2], each[2], address) for each in found]
            trouble = trouble or NoConnection(f"{address.host}:{address.port} knows no server of a cluster.")
        raise trouble or NoConnection("No server of the cluster answers.")

    def _connect(self, address: Address) -> Redis:
        return Redis(
            *address,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=PATIENCE_S,
            socket_connect_timeout=PATIENCE_S,
            **self._login,
        )

    def _take(self, found: list[Any]) -> None:
        slots: list[Address | None] = [None] * SLOTS
        for first, last, master, asked in found:
            host = master[0].decode() if master[0] else asked.host
            slots[first : last + 1] = [Address(host, int(master[1]))] * (last - first + 1)
        if slots != self._slots:
            self.servers = tuple(sorted({each for each in slots if each}))
            self._slots = slots
            self.version += 1


@cache
def topology(url: str) -> Topology:
    """Return the one topology of a cluster in this process."""
    return Topology(url)


os.register_at_fork(after_in_child=topology.cache_clear)  # a thread of the parent may hold the lock of one
