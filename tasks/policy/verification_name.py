"""The short name of what verifies a step, under which a plan counts and remembers what it said."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any


def name_verification(facts: Mapping[str, Any]) -> str:
    """Name what a step is verified by, in 8 characters."""
    return _digest("\n".join([" ".join(tool["argv"]) for tool in facts["verify_tools"]]))


@lru_cache(maxsize=1024)
def _digest(commands: str) -> str:
    return hashlib.blake2b(commands.encode(errors="replace"), digest_size=4).hexdigest()
