"""URLs of servers that Sentinel watches over: `redis+sentinel://[user:password@]host:port,host:port/master-name[/db]`.

User and password are for the servers; sentinels get none. With `rediss+sentinel://` both use TLS.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from redis import Redis
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.retry import Retry
from redis.sentinel import Sentinel

from worker.settings import redis_tls

SCHEMES = ("redis+sentinel://", "rediss+sentinel://")
PORT = 26379
URL = re.compile(
    r"rediss?\+sentinel://(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@)?"
    r"(?P<hosts>[^@/?#]+)/(?P<master>[^/?#]+)(?:/(?P<db>\d+))?/?(?:\?ssl_[^#]*)?"
)
HOST = re.compile(r"(?P<host>\[[0-9a-fA-F:]+\]|[^:\[\]]+)(?::(?P<port>\d{1,5}))?")


class SentinelUrl(NamedTuple):
    """The parts of a Sentinel URL."""

    sentinels: tuple[tuple[str, int], ...]
    master: str
    db: int
    username: str | None
    password: str | None


def is_watched(url: str) -> bool:
    """Return whether `url` names sentinels instead of a server."""
    return url.startswith(SCHEMES)


def parse(url: str) -> SentinelUrl:
    """Return the parts of a Sentinel URL. Raises ValueError with a sentence if the URL is invalid."""
    found = URL.fullmatch(url)
    hosts = [HOST.fullmatch(host) for host in found["hosts"].split(",")] if found else []
    if not found or not all(hosts):
        raise ValueError("a URL of sentinels reads redis+sentinel://host:port,host:port/master-name[/db]")
    return SentinelUrl(
        sentinels=tuple((host["host"].strip("[]"), int(host["port"] or PORT)) for host in hosts if host),
        master=unquote(found["master"]),
        db=int(found["db"] or 0),
        username=unquote(found["user"]) if found["user"] else None,
        password=unquote(found["password"]) if found["password"] else None,
    )


def connect(url: str, **options: Any) -> Redis:
    """Return a client of the current master. Each new connection asks the sentinels."""
    place = parse(url)
    asking = {name: value for name, value in options.items() if name.startswith("socket_")}
    tls = _tls(url)
    sentinel = Sentinel(place.sentinels, sentinel_kwargs={**asking, **tls, "retry": Retry(NoBackoff(), 0)})
    login = {"db": place.db, "username": place.username, "password": place.password}
    client: Redis = sentinel.master_for(place.master, **login, **tls, **options)
    return client


def broker_url(url: str) -> str:
    """Return `url` in the form that kombu reads; a TCP URL of a single server is unchanged."""
    if url.startswith("unix://"):
        at = parse_url(url)
        login = _login(at.get("username"), at.get("password"))
        return f"redis+socket://{login}{quote(at['path'])}?virtual_host={at.get('db', 0)}"
    if not is_watched(url):
        return url
    place = parse(url)
    login = _login(place.username, place.password)
    return ";".join(f"sentinel://{login}{_bracketed(host)}:{port}/{place.db}" for host, port in place.sentinels)


def broker_options(url: str) -> dict[str, Any]:
    """Return kombu's transport options for a Sentinel URL; empty for other URLs."""
    if not is_watched(url):
        return {}
    limits = {**_tls(url), "socket_timeout": 2, "socket_connect_timeout": 2, "retry": Retry(NoBackoff(), 0)}
    return {"master_name": parse(url).master, "sentinel_kwargs": limits}


def _tls(url: str) -> dict[str, Any]:
    return {"ssl": True, **redis_tls.options(url)} if redis_tls.is_secure(url) else {}


def _login(username: str | None, password: str | None) -> str:
    return f"{quote(username or '', safe='')}:{quote(password, safe='')}@" if password else ""


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
