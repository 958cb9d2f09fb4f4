"""URLs of a cluster of servers: `redis+cluster://[user:password@]host:port[,host:port]`.

The hosts are some servers of the cluster, which report the others. With `rediss+cluster://` all connections use TLS.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import unquote

from worker.settings import redis_tls
from worker.settings.sentinel import HOST

SCHEMES = ("redis+cluster://", "rediss+cluster://")
PORT = 6379
URL = re.compile(
    r"rediss?\+cluster://(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@)?(?P<hosts>[^@/?#]+)/?(?:\?ssl_[^#]*)?"
)


class Address(NamedTuple):
    """Where a server listens."""

    host: str
    port: int


class ClusterUrl(NamedTuple):
    """The parts of a cluster's URL."""

    hosts: tuple[Address, ...]
    username: str | None
    password: str | None


def is_cluster(url: str) -> bool:
    """Return whether `url` names a cluster instead of a server."""
    return url.startswith(SCHEMES)


def parse(url: str) -> ClusterUrl:
    """Return the parts of a cluster's URL. Raises ValueError with a sentence if the URL is invalid."""
    found = URL.fullmatch(url)
    hosts = [HOST.fullmatch(host) for host in found["hosts"].split(",")] if found else []
    if not found or not all(hosts):
        raise ValueError("a URL of a cluster reads redis+cluster://host:port,host:port, without a database")
    return ClusterUrl(
        hosts=tuple(Address(host["host"].strip("[]"), int(host["port"] or PORT)) for host in hosts if host),
        username=unquote(found["user"]) if found["user"] else None,
        password=unquote(found["password"]) if found["password"] else None,
    )


def login(url: str) -> dict[str, Any]:
    """Return the options of redis-py for each connection: user, password and TLS."""
    place = parse(url)
    tls = {"ssl": True, **redis_tls.options(url)} if redis_tls.is_secure(url) else {}
    return {"username": place.username, "password": place.password, **tls}
