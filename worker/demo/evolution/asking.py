"""The goal of this demo, with all that its drafter is to know: cards, what was measured, and summaries of blocks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from schemas.goal import Goal
from worker.demo.evolution.example import ALLOWED, YARDSTICK
from worker.sources.commit_cards import BLOCK, Card, blocks, commit_cards, commit_context

GOAL = "Make a query look at fewer titles"


def goal_of(root: Path, values: Mapping[str, float], queue: str) -> Goal:
    """Make an evolution goal of the repository `root`: the first of `values` is the base, the others inspire."""
    base, *inspirations = (commit_context(root, tip, metrics=[_metric(value)]) for tip, value in values.items())
    cards = commit_cards(root, *values)
    first = cards[-1]["commit_hash"]
    evolution = {
        "base": base,
        "inspirations": inspirations,
        "commit_cards": cards,
        "experiment_root": first,
        "chunk_summaries": [
            _summary(block) for tip in inspirations for block in blocks(cards, first, tip["commit_hash"])
        ],
        "acceptance_criteria": ["Every test passes.", f"{YARDSTICK} prints less than 50."],
        "validation_mode": "strict",
    }
    context = {"language": "python", "test_command": "pytest", "repo": root.name}
    body = {"goal": GOAL, "kind": "evolution", "allowed_files": ALLOWED, "context": context, "queue": queue}
    return Goal.model_validate({**body, "evolution": evolution})


def _metric(value: float) -> dict[str, Any]:
    return {"name": "looked_at", "value": value, "unit": "titles", "higher_is_better": False}


def _summary(block: list[Card]) -> dict[str, Any]:
    """Summarise a block, where a real experiment would have asked a model once and kept what it said."""
    first, last = block[0], block[-1]
    return {
        "start_commit_hash": first["commit_hash"],
        "end_commit_hash": last["commit_hash"],
        "block_size": BLOCK,
        "summary": f"From '{first['subject']}' to '{last['subject']}'. {last['change_summary']}",
    }
