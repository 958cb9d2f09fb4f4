"""How often a step is tried again, and how soon."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from schemas.base import FailureCategory as C
from tasks.rules.risk import RISK

# A wrong change is not made right by waiting; what the surroundings caused may be. ms, doubled with every failure.
BACKOFF_MS: Mapping[str, int] = MappingProxyType(
    {
        C.LEASE_EXPIRED.value: 2000,
        C.TEST_TIMEOUT.value: 1000,
        C.FLAKY_TEST.value: 1000,
    }
)
MAX_BACKOFF_MS = 60_000


def retries(facts: dict[str, Any], category: str) -> int:
    """Allow min(`retry_limit`, what the risk level allows); a failure that nobody understands is retried once."""
    allowed: int = min(facts["retry_limit"], RISK[facts["risk_level"]].retries)
    return min(allowed, 1) if category == C.UNKNOWN else allowed


def backoff(category: str, nth: int, seed: str) -> int:
    """Say how long to wait after the nth failure, ms: half of it fixed, half from `seed`, so that many spread out.

    Nothing has failed with nth = 0, such as an attempt that nobody claimed.
    """
    whole = min(MAX_BACKOFF_MS, BACKOFF_MS.get(category, 0) << min(nth - 1, 10)) if nth else 0
    share = int.from_bytes(hashlib.blake2b(seed.encode(), digest_size=2).digest()) / 0x10000
    return whole // 2 + int(whole / 2 * share)
