"""Times of the wire: RFC 3339 in UTC, made from milliseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

DAY_MS = 86_400_000


@lru_cache(maxsize=256)  # values of one decision have one time
def rfc3339(ms: int) -> str:
    """Return `ms` in the form of the wire, such as 2026-11-21T20:30:00.125Z."""
    return f"{_second(ms // 1000)}.{ms % 1000:03d}Z"


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def milliseconds(moment: datetime) -> int:
    """Return a time of the wire in milliseconds since the epoch; one without a zone is UTC."""
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
