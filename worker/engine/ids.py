"""Ids of ours: made here, handed to the decisions as arguments."""

from __future__ import annotations

import os
import time

from worker.store.keys import bucket


def uuid7_hex() -> str:
    """Make a UUIDv7 as 32 hex digits: sorts by its millisecond (RFC 9562 section 5.7)."""
    ms, noise = time.time_ns() // 1_000_000, int.from_bytes(os.urandom(10))
    value = ms << 80 | 0x7 << 76 | (noise >> 68) << 64 | 0b10 << 62 | noise & (1 << 62) - 1
    return f"{value:032x}"


def plan_id(repo: str | None) -> str:
    """Make a plan id, in the bucket of its repository, else in one of its own."""
    unique = uuid7_hex()
    return f"plan_{bucket(repo or unique)}-{unique}"


def seed() -> str:
    """Make the secret from which the leases of a plan are derived."""
    return os.urandom(12).hex()
