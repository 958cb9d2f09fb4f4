"""Hostile names that contain instructions: no prompt for a model may show one outside a fence."""

from __future__ import annotations

import json
from pathlib import Path

FIXTURE = Path(__file__).parents[1] / "fixtures" / "orders.json"
# Kinds of names: tests, files, branches, titles (of issues, goals and findings); fifteen of each.
ORDERS: dict[str, list[str]] = json.loads(FIXTURE.read_text())


def outside_of_fence(text: str, mark: str = "| ") -> str:
    """Return the lines of a prompt that are not quoted line by line."""
    return "\n".join(line for line in text.splitlines() if not line.startswith(mark.rstrip()))
