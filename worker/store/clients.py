"""Redis clients, made after the fork and for one purpose each."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from redis import Redis
from redis.backoff import NoBackoff
from redis.connection import Connection
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    ClusterCrossSlotError,
    ClusterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
)
from redis.retry import Retry

from tasks.base.errors import PlannerError
from worker.settings import cluster, redis_tls, sentinel

BLOCK_MARGIN_S = 5.0
BROKER_PATIENCE_S = 2.0
LEAST = {"redis": (7, 0), "valkey": (7, 2)}  # functions, and selectors in ACLs
OF_THE_SERVER = ("MISCONF", "NOREPLICAS", "BUSY ")  # begin errors that every write gets
HOST, PORT = "localhost", 6379  # where a URL names none
LEAST_NAMES = "Redis from 7.0 or Valkey from 7.2"
LACKS_DATA_DIR = ". If `planner up` started it in another folder, set PLANNER_DATA_DIR to its .planner"


def now_ms(client: Redis) -> int:
    """Return the time of the server, in ms."""
    seconds, microseconds = client.time()
    return int(seconds) * 1000 + int(microseconds) // 1000


def concerns_server(error: RedisError) -> bool:
    """Return whether other calls get this error too; False if the keys or arguments of one call are the reason."""
    if not isinstance(error, ResponseError):
        return True
    return isinstance(error, ReadOnlyError | OutOfMemoryError | ClusterDownError) or str(error).startswith(
        OF_THE_SERVER
    )


class RefusedRedis(PlannerError):
    """A Redis server that answers but cannot be used, and that waiting does not change.

    `code` is a problem code, such as `wrong_password`.
    """

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Connects:
    """Counts the connections of a client: a new connection may lead to another server."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def __call__(self, connection: Connection | None) -> None:
        """Count a connection, and do the usual handshake on it.

        `connection` is None if no connection is new, but a cluster's slots have moved to other servers.
        """
        with self._lock:
            self.count += 1
        if connection:
            connection.on_connect()


def connect(
    url: str, block_s: float = 0.0, patience_s: float = BLOCK_MARGIN_S, connects: Connects | None = None
) -> Redis:
    """Return a client that never repeats a call by itself: after a lost reply, a repeated call could apply twice.

    A blocking call of the client waits at most `block_s` seconds in the server; it fails `patience_s` seconds after
    that. Requires hiredis, which redis-py then uses. If the URL names sentinels, the client follows their master. If it
    names a cluster, each command goes to the server of its slot.
    """
    redis_tls.warn(url)
    return _maker(url)(
        url,
        protocol=2,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=block_s + patience_s,
        socket_connect_timeout=patience_s,
        health_check_interval=0,
        redis_connect_func=connects,
    )


def _maker(url: str) -> Callable[..., Redis]:
    if sentinel.is_watched(url):
        return sentinel.connect
    if cluster.is_cluster(url):
        from worker.store.cluster import client

        return client.connect
    return Redis.from_url


def has_several(client: Redis) -> bool:
    """Return whether this is a client of a cluster, where one server can be away while others answer."""
    return hasattr(client.connection_pool, "topology")


def is_away(client: Redis, key: str) -> bool:
    """Return whether the server of a key in a cluster was lost lately; False for a single server."""
    topology = getattr(client.connection_pool, "topology", None)
    return topology is not None and bool(topology.is_away(key.encode()))


def place(url: str) -> str:
    """Return the address of a server without its user and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def refusal(error: Exception, url: str, setting: str = "PLANNER_REDIS_URL") -> RefusedRedis | None:
    """Return the reason why the server at `url` can never serve this process; None if waiting may help.

    `setting` is the name of the setting with this URL.
    """
    where = f"Redis at {place(url)}"
    if isinstance(error, RefusedRedis):
        return error
    if isinstance(error, AuthenticationError | AuthenticationWrongNumberOfArgsError):
        if str(error).startswith(("HELLO", "Authentication required")):
            return RefusedRedis("wrong_password", f"{where} wants a user or a password, and {setting} has none.")
        return RefusedRedis("wrong_password", f"{where} refuses the user or the password in {setting}: {error}")
    if isinstance(error, NoPermissionError):
        sentence = f"{where} refuses this user a needed command or key (docs/deployment.md, Roles): {error}"
        local = "" if urlsplit(url).netloc.rpartition("@")[0] else LACKS_DATA_DIR
        return RefusedRedis("no_permission", sentence + local)
    if failed := redis_tls.failure(error):
        return RefusedRedis("no_tls", f"{where} and this process agree on no TLS (docs/redis.md, TLS): {failed}.")
    if isinstance(error, AskError | ClusterCrossSlotError) and not cluster.is_cluster(url):
        return _of_a_cluster(urlsplit(url).netloc.rpartition("@")[2])
    if isinstance(error, ResponseError) and str(error).startswith("unknown command"):
        return RefusedRedis("old_redis", f"{where} is too old; the planner needs {LEAST_NAMES}: {error}")
    return None


def _of_a_cluster(where: str) -> RefusedRedis:
    return RefusedRedis(
        "wrong_settings",
        f"{where} is one server of a cluster: set PLANNER_REDIS_URL=redis+cluster://{where} (docs/redis.md, Cluster).",
    )


def check_version(client: Redis) -> None:
    """Check that the server is new enough. Raises RefusedRedis.

    It uses HELLO, which every role may call. If a user or a managed server forbids that, nothing is refused.
    """
    try:
        found: Any = client.execute_command("HELLO")
    except NoPermissionError:
        return
    except ResponseError as error:
        if "unknown command" not in str(error):
            return
        found = {b"server": b"redis", b"version": b"5"}  # which did not know HELLO
    server = found if isinstance(found, dict) else dict(zip(found[::2], found[1::2], strict=True))
    if server.get(b"mode") == b"cluster" and not has_several(client):
        at = client.connection_pool.connection_kwargs
        raise _of_a_cluster(f"{at.get('host', HOST)}:{at.get('port', PORT)}")
    name, number = server[b"server"].decode(), server[b"version"].decode()
    if version_of(number) < LEAST.get(name, (0, 0)):
        raise RefusedRedis("old_redis", f"This server is {name} {number}; the planner runs on {LEAST_NAMES}.")


def version_of(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def check_broker(url: str) -> None:
    """Check the password and the certificate of a broker. Raises RefusedRedis. A broker that is away is accepted."""
    try:
        with connect(url, patience_s=BROKER_PATIENCE_S) as client:
            client.ping()
    except RedisError as error:
        if isinstance(error, AuthenticationError) or redis_tls.failure(error):
            raise refusal(error, url, "PLANNER_BROKER_URL") or error from error


def check_safe(client: Redis) -> None:
    """Refuse a server that evicts keys or has no append-only file. Raises RefusedRedis.

    It uses INFO, because managed servers forbid CONFIG.
    """
    info = client.info("everything")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        raise RefusedRedis(
            "unsafe_redis",
            f"Redis may evict keys (maxmemory-policy is {policy}): plans, locks and budgets could vanish. "
            "Set maxmemory-policy noeviction, or PLANNER_ALLOW_UNSAFE_REDIS=1 to go on all the same.",
        )
    if not int(info.get("aof_enabled", 0)):
        raise RefusedRedis(
            "unsafe_redis",
            "Redis keeps no append-only file: a restart would lose plans and outcomes. "
            "Set appendonly yes, or PLANNER_ALLOW_UNSAFE_REDIS=1 to go on all the same.",
        )
