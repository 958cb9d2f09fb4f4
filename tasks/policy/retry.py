"""How often a step is tried again (DESIGN.md section 5, "retries after the first attempt")."""

from __future__ import annotations

from typing import Any

from schemas.base import FailureCategory
from tasks.policy.risk import RISK


def retries(facts: dict[str, Any], category: str) -> int:
    """Allow min(`retry_limit`, what the risk level allows); a failure that nobody understands is retried once."""
    allowed: int = min(facts["retry_limit"], RISK[facts["risk_level"]].retries)
    return min(allowed, 1) if category == FailureCategory.UNKNOWN else allowed
