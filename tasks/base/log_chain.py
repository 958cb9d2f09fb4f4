"""The chain of a plan's log: each line has the digest of the line before it, and the plan that of its newest line."""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

LOG = "log"  # among the counters of a plan
DIGEST_BYTES = 24  # 32 characters of base64
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class LogHead(NamedTuple):
    """The newest line of a plan's log, as the plan's own record knows it.

    `lines` counts the lines of the log, `by` is the version of the code that wrote the newest.
    """

    head: str
    lines: int
    by: str = ""


def digest_line(line: bytes) -> str:
    """Make the digest of a line as it is stored: BLAKE2b of 24 bytes, as base64url without padding."""
    digest = blake2b(line, digest_size=DIGEST_BYTES).digest()
    return b2a_base64(digest, newline=False).translate(_URL_SAFE).decode()


def find_head(counters: Mapping[str, Any]) -> LogHead | None:
    """Find the head of a plan's log among its counters; None before its first line."""
    found = counters.get(LOG)
    return LogHead(found["head"], found["lines"], found["by"]) if found else None
