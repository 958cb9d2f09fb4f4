"""What the controller of a step is given beside its spec: the whole gap, and which files may change.

A step's intent has room for a sentence; what a person wished for and what a tool printed may be pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tasks.rules.strategy import Growth
from tasks.strategies.gap_report.protection import PROTECTED, Protection
from tasks.strategies.gap_report.steps import EXPLORE_ID, free_files

MAX_LISTED = 1000  # files that somebody chooses among


def input_for(growth: Growth, facts: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Give a step the gap with its evidence and how the iteration is judged; the one that explores, what may change.

    All words come from the document, which is sanitised.
    """
    document = growth.document
    if document is None:
        return None
    told = {name: document[name] for name in ("iteration_id", "gap", "acceptance_criteria")}
    if facts.get("step_id") != EXPLORE_ID:
        return told
    return {**told, "files": list(free_files(growth.goal, protection_of(growth))[:MAX_LISTED])}


def protection_of(growth: Growth) -> Protection:
    """Find what an iteration may not touch: what nobody may, and what its goal and its constraints name."""
    return Protection.of((*PROTECTED, *growth.state.get("protected", ())))
