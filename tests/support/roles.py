"""Users of a server with the rights that compose.yaml or a page of the documentation gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis

COMPOSE = Path(__file__).parents[2] / "compose.yaml"


def rules_of(role: str, file: Path = COMPOSE) -> list[str]:
    """Find the rules of a user in a file that shows an ACL file's line, without its password."""
    (rules,) = re.findall(rf"^ *user {role} on >(?:\$\{{[^}}]*\}}|\S+) (.+)$", file.read_text(), re.MULTILINE)
    return re.findall(r"\([^)]*\)|\S+", rules)


@contextmanager
def user(client: Redis, role: str, url: str, file: Path = COMPOSE) -> Iterator[str]:
    """Make a user of that role, without a password, while the block lasts; returns the URL for it."""
    client.execute_command("ACL", "SETUSER", role, "reset", "on", "nopass", *rules_of(role, file))
    try:
        yield f"redis://{role}:x@{url.removeprefix('redis://')}"
    finally:
        client.acl_deluser(role)
