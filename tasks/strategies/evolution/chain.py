"""The chain that a commit came by: a walk from parent to parent over commit cards, held in memory (seed 004).

Every walk is bounded and ends at a commit that it has met before, so that a chain in a circle harms nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from schemas.evolution import CommitCard

MAX_DEPTH = 4096  # commits of one walk

Cards = Mapping[str, CommitCard]


@dataclass(frozen=True, slots=True)
class Depths:
    """How deep each commit of a chain lies below its anchor; `whole` says whether the anchor was reached."""

    of: Mapping[str, int]
    anchor: str
    mode: str  # experiment_root or chain_root
    whole: bool


def ancestors(cards: Cards, tip: str) -> Iterator[str]:
    """Walk from `tip`, itself included, to its earliest ancestor."""
    seen: set[str] = set()
    at: str | None = tip
    while at and at not in seen and len(seen) < MAX_DEPTH:
        yield at
        seen.add(at)
        card = cards.get(at)
        at = card.parent_commit_hash if card else None


def unique_path(cards: Cards, base: Mapping[str, None], tip: str) -> tuple[str, tuple[str, ...]] | None:
    """Find the last commit that `tip` shares with `base`, the ancestors of another, and the path from there."""
    path: list[str] = []
    for each in ancestors(cards, tip):
        if each in base:
            return each, tuple(reversed(path))
        path.append(each)
    return None


def depths(cards: Cards, tip: str, shared: str, root: str | None) -> Depths:
    """Count from the experiment's root where `tip` came by it, else from its earliest ancestor that is known."""
    line = list(ancestors(cards, tip))
    rooted = root in line
    whole = rooted or len(line) < MAX_DEPTH
    if rooted:
        line = line[: line.index(root or "") + 1]
    elif len(line) > 1 and line[-1] not in cards and line[-1] != shared:
        line.pop()  # only its name is known
    of = {each: depth for depth, each in enumerate(reversed(line))}
    return Depths(of, line[-1], "experiment_root" if rooted else "chain_root", whole)
