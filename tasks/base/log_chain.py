"""The chain of a plan's log: each line has the digest of the line before it, and the plan has that of its newest line.

Workers of an older version write lines without a digest and carry the head of the chain on as they read it. The head
names the version of the plan that it is about, so that the next line begins a new chain instead of denying theirs.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping, MutableMapping
from hashlib import blake2b
from typing import Any, NamedTuple

LOG = "log"  # among what is counted of a plan (`counters` in `live`), which all older versions keep as they read it
DIGEST_BYTES = 24  # 32 characters of base64
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class LogHead(NamedTuple):
    """The newest line of a plan's log, as the plan's own record knows it.

    `lines` counts those of its chain. `version` is the plan's when this was written, `by` the code that wrote the line.
    """

    head: str
    lines: int
    version: int
    by: str = ""


def digest_line(line: bytes) -> str:
    """Make the digest of a line as it is stored: BLAKE2b of 24 bytes, as base64url without padding."""
    digest = blake2b(line, digest_size=DIGEST_BYTES).digest()
    return b2a_base64(digest, newline=False).translate(_URL_SAFE).decode()


def find_head(counters: Mapping[str, Any], version: int) -> LogHead | None:
    """Find the head of the chain of a plan at `version` among what is counted of it.

    None where there is none, or where a worker of an older version has committed since.
    """
    found = counters.get(LOG)
    if not found or found["version"] != version:
        return None
    return LogHead(found["head"], found["lines"], version, found["by"])


def carry_on(counters: MutableMapping[str, Any], version: int, after: int) -> bool:
    """Say that the head of the chain is that of the plan at version `after` too, if it was at `version`."""
    head = find_head(counters, version)
    if head:
        counters[LOG] = head._replace(version=after)._asdict()
    return bool(head)
