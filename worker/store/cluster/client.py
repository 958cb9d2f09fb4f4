"""A client of a cluster that has the interface of a client of a single server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from redis import Redis
from redis.client import Pipeline
from redis.connection import Connection, ConnectionPool, SSLConnection
from redis.exceptions import RedisError, ResponseError

from worker.settings import cluster
from worker.settings.cluster import Address
from worker.store.cluster.channel import LOST, Channel
from worker.store.cluster.topology import Topology, topology


class ClusterPool:
    """The connections of one client to all servers of a cluster; the client receives a Channel as its connection."""

    def __init__(self, url: str, note_connection: Callable[[Connection | None], None] | None, **options: Any) -> None:
        self.topology: Topology = topology(url)
        login = cluster.login(url)
        self._class = SSLConnection if login.pop("ssl", False) else Connection
        self.connection_kwargs: dict[str, Any] = {**options, **login, "redis_connect_func": note_connection}
        self._note_connection = note_connection
        self._pools: dict[Address, ConnectionPool] = {}
        self._lock = threading.Lock()
        self._version = self.topology.version

    def get_connection(self, *_: Any, **__: Any) -> Channel:
        """Return a new channel, which connects to nothing yet."""
        if self._version != self.topology.version:
            if self._version and self._note_connection:
                self._note_connection(None)  # the slots have other servers, although no connection is new
            self._version = self.topology.version
        return Channel(self)

    def release(self, channel: Channel) -> None:
        """Take the connections of a channel back."""
        channel.give_back()

    def line(self, address: Address) -> Connection:
        """Return a connection to the server at `address`. Raises NoConnection."""
        found: Connection = self._pool(address).get_connection()
        return found

    def take_back(self, address: Address, line: Connection) -> None:
        """Take a connection to one server back."""
        self._pool(address).release(line)

    def pack(self, commands: Sequence[tuple[Any, ...]]) -> Sequence[tuple[Any, ...]]:
        """Return the commands unchanged: a Channel encodes them when it knows their servers."""
        return commands

    def get_encoder(self) -> Any:
        """Return the encoder of values."""
        return ConnectionPool(**self.connection_kwargs).get_encoder()

    def get_protocol(self) -> Any:
        """Return the version of the protocol."""
        return self.connection_kwargs.get("protocol")

    def disconnect(self, *_: Any) -> None:
        """Close all connections."""
        with self._lock:
            for pool in self._pools.values():
                pool.disconnect()

    def _pool(self, address: Address) -> ConnectionPool:
        with self._lock:
            if address not in self._pools:
                host, port = address
                self._pools[address] = ConnectionPool(self._class, host=host, port=port, **self.connection_kwargs)
            return self._pools[address]


class ClusterPipeline(Pipeline):
    """A pipeline whose commands may go to several servers; all keys of a transaction must be in one slot.

    With `raise_on_error=False` a server that is away gives an error as each of its replies; other replies are
    unaffected.
    """

    def _himport_prepare_pipeline(self, conn: Any, commands: Any) -> None:
        """Do nothing: the planner sends no command that needs this."""

    def _execute_pipeline(self, connection: Any, commands: Any, raise_on_error: bool) -> list[Any]:
        connection.send_packed_command([args for args, _ in commands])
        replies: list[Any] = []
        for args, options in commands:
            try:
                replies.append(self.parse_response(connection, args[0], **options))  # type: ignore[no-untyped-call]
            except (ResponseError, *LOST) as error:
                replies.append(error)
        if raise_on_error:
            for place, reply in enumerate(replies):
                if isinstance(reply, RedisError | OSError):
                    self.annotate_exception(reply, place + 1, commands[place][0])  # type: ignore[no-untyped-call]
                    raise reply
        return replies


class ClusterClient(Redis):
    """A client that sends each command to the server of its first key's slot.

    If a server refuses a command because its slot moves or is down, a subclass of redis-py's ConnectionError is raised.
    """

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> ClusterPipeline:
        """Return a pipeline; see ClusterPipeline."""
        return ClusterPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)

    def close(self) -> None:
        """Close all connections."""
        self.connection_pool.disconnect()


def connect(url: str, *, redis_connect_func: Callable[..., None] | None = None, **options: Any) -> ClusterClient:
    """Return a client of a cluster, with the options of a client of a single server."""
    pool: Any = ClusterPool(url, redis_connect_func, **options)
    return ClusterClient(connection_pool=pool)
