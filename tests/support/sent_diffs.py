"""Plans of two steps whose diffs are sent, and taken by a sweep."""

from __future__ import annotations

import hashlib
from typing import Any

from tests.support.planner import Planner

STEPS: list[dict[str, Any]] = [
    {"step_id": "fix-b", "title": "Fix b", "intent": "Fix b", "allowed_files": ["b.py"], "verify": "pytest"},
    {"step_id": "look", "title": "Look", "intent": "Look", "depends_on": ["fix-b"], "type": "READ"},
]  # fmt: skip
HEAD = "diff --git a/b.py b/b.py\n--- a/b.py\n+++ b/b.py\n@@ -1 +1 @@\n-old\n"


def diff_of(line: str) -> bytes:
    """Return the diff of b.py that adds this line."""
    return f"{HEAD}+{line}\n".encode(errors="replace")


def digest(diff: bytes) -> str:
    """Return the digest of a diff, as an outcome names it."""
    return hashlib.sha256(diff).hexdigest()


def sweep(planner: Planner) -> None:
    """Take what was sent."""
    planner.container.context(0).engine.sweep("here")
