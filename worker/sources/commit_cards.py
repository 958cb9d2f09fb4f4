"""Commit cards from `git log`: the history in an evolution goal.

The planner reads no repository. A sender of an evolution goal may use this module, or do the same in any language.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from worker.host.git import Git

RECORD, FIELD = "\x1e", "\x1f"
FORMAT = RECORD + FIELD.join(("%H", "%P", "%s", "%b", ""))
MAX_CARDS = 50_000
SUBJECT, SUMMARY, PATH, FILES = 72, 512, 256, 20  # limits of a card
BLOCK = 8  # commits of a summary by default: see PLANNER_PLANNING_TRAJECTORY_BLOCK_SIZE

Card = dict[str, Any]


def commit_cards(root: Path, *tips: str, most: int = MAX_CARDS) -> list[Card]:
    """Return a card for every commit in the history of `tips`, newest first.

    Tips are branches, tags or ids; only first parents are followed. The change's summary is the body of its message,
    else its subject. Its key files are the touched ones.
    """
    options = ("--first-parent", "--name-only", f"--max-count={most}", f"--format={FORMAT}")
    history = Git(root)("log", *options, "--end-of-options", *tips, "--").decode(errors="replace")
    return [_card(record) for record in history.split(RECORD)[1:]]


def commit_context(root: Path, tip: str, **more: Any) -> Card:
    """Return the context of a plan about one commit: the commit's card without its parent, and the fields of `more`."""
    (card,) = commit_cards(root, tip, most=1)
    return {name: value for name, value in card.items() if name != "parent_commit_hash"} | more


def blocks(cards: Sequence[Card], first: str, tip: str, size: int = BLOCK) -> Iterator[list[Card]]:
    """Yield the commits after `first` up to `tip` in full blocks of `size`, the oldest first.

    `first` is the root of the experiment. `chunk_summaries` can summarise each block, by the ids of its first and its
    last commit.
    """
    known = {card["commit_hash"]: card for card in cards}
    chain: list[Card] = []
    while tip != first and tip in known:
        chain.append(known[tip])
        tip = known[tip].get("parent_commit_hash", "")
    chain.reverse()
    for at in range(0, len(chain) - size + 1, size):
        yield chain[at : at + size]


def _card(record: str) -> Card:
    name, parents, subject, body, files = record.split(FIELD, 4)
    parent = parents.split(" ")[0]
    return {
        "commit_hash": name,
        **({"parent_commit_hash": parent} if parent else {}),
        "subject": _cut(subject, SUBJECT),
        "change_summary": _cut(" ".join(body.split()) or subject, SUMMARY),
        "key_files": [path for path in files.split("\n") if path and len(path) <= PATH][:FILES],
    }


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
