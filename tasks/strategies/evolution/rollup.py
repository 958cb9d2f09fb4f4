"""The trajectory of an inspiration as a few lines: what it did since it parted from the base (seed 004).

Blocks are counted from the anchor, so that a full block always has the same ends and its summary can be cached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from schemas.evolution import NOT_TOLD, ChunkSummary, CommitCard
from tasks.strategies.evolution.chain import Cards, Depths, ancestors, depths, unique_path
from tasks.strategies.evolution.setting import DEFAULTS, Planning
from tasks.text.fields import fit, opening

MAX_STEP_LINE = 240  # characters
MAX_SUMMARY_LINE = 160  # of a step within a summary that nobody wrote
SUMMARY_LINES = 8
SHORT = 12  # characters of a hash
LEAST_SUMMARY = 64  # characters

NO_OVERLAP = "Trajectory unavailable: missing parent-chain overlap."
NO_STEPS = "No unique steps: the inspiration is the base or an ancestor of it."


@dataclass(frozen=True, slots=True)
class Rollup:
    """The lines of a trajectory, and what they were counted from."""

    lines: tuple[str, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spans:
    """Which steps of a path are shown: a head and a tail one by one, and whole chunks between by their summaries."""

    earliest: int  # the first so many
    chunks: tuple[tuple[int, int], ...]  # from, up to and without
    recent: int  # from here on
    omitted: int


@dataclass(frozen=True, slots=True)
class History:
    """All that is known of how commits came about, arranged for looking up."""

    cards: Cards
    base: Mapping[str, None]  # the base and its ancestors
    root: str | None
    summaries: Mapping[tuple[str, str, int], ChunkSummary]

    @classmethod
    def of(
        cls, cards: Sequence[CommitCard], base: str, root: str | None = None, summaries: Sequence[ChunkSummary] = ()
    ) -> History:
        """Index what a goal brought; of two cards or summaries for the same thing the last one counts."""
        known = {card.commit_hash: card for card in cards}
        written = {(each.start_commit_hash, each.end_commit_hash, each.block_size): each for each in summaries}
        return cls(known, dict.fromkeys(ancestors(known, base)), root, written)


def rollup(history: History, tip: str, planning: Planning = DEFAULTS) -> Rollup:
    """Tell how `tip` came about since it parted from the base; one line says so where that is not known."""
    found = unique_path(history.cards, history.base, tip)
    if found is None:
        return Rollup((NO_OVERLAP,))
    shared, path = found
    index = depths(history.cards, tip, shared, history.root)
    spans = _spans(path, index, planning)
    told = {"anchor": index.anchor, "anchor_mode": index.mode} if index.whole else {"anchor": None, "anchor_mode": None}
    base = next(iter(history.base))
    meta = {"base": base, "inspiration": tip, "lca": shared, "unique_steps_count": len(path), **told}
    if not path:
        return Rollup((_count_line(meta), NO_STEPS), {**meta, "omitted_steps": 0})
    lines = (_count_line(meta), *_lines(history, path, spans, planning))
    return Rollup(lines, {**meta, "omitted_steps": spans.omitted})


def _spans(path: Sequence[str], index: Depths, planning: Planning) -> Spans:
    if index.whole and all(each in index.of for each in path):
        return spans([index.of[each] for each in path], planning)
    recent = max(0, len(path) - max(0, planning.max_raw_steps))  # nothing to align to: only the tail
    return Spans(0, (), recent, recent)


def spans(at: Sequence[int], planning: Planning = DEFAULTS) -> Spans:
    """Choose what is shown of steps that lie at these depths, one below the other."""
    n, block, raw = len(at), max(1, planning.block_size), max(0, planning.max_raw_steps)
    if not n:
        return Spans(0, (), 0, 0)
    recent = n - min(raw, n)
    if recent < n:
        recent = max(0, recent - (at[recent] - 1) % block)  # back to where its block begins, so that nothing is torn
    earliest = _earliest(at[0], n, block, raw, recent)
    chunks = _chosen(_full(at, block, recent), planning.max_chunks)
    covered = {step for start, end in chunks for step in range(start, end)} | set(range(earliest))
    return Spans(earliest, chunks, recent, recent - len(covered))


def _earliest(first: int, n: int, block: int, raw: int, recent: int) -> int:
    """Show the rest of the block that the path begins in, or else two steps for orientation."""
    rest = min(block - (first - 1) % block, n, raw, recent) if first % block != 1 else 0
    return rest or min(2, raw, recent)


def _full(at: Sequence[int], block: int, recent: int) -> list[tuple[int, int]]:
    found = []
    for _, steps in groupby(range(recent), key=lambda step: (at[step] - 1) // block):
        members = list(steps)
        if len(members) == block:
            found.append((members[0], members[-1] + 1))
    return found


def _chosen(full: Sequence[tuple[int, int]], most: int) -> tuple[tuple[int, int], ...]:
    """Keep the oldest chunk, which tells where things came from, and the newest ones."""
    if most < 1 or len(full) <= most:
        return tuple(full[: max(0, most)])
    return (full[0], *full[len(full) - most + 1 :])


def _lines(history: History, path: Sequence[str], shown: Spans, planning: Planning) -> list[str]:
    def step_lines(steps: Sequence[str]) -> list[str]:
        return [_step_line(history.cards[each]) for each in steps]

    chunks = [_chunk_line(history, path[start:end], planning) for start, end in shown.chunks]
    return [
        *_section("Earliest unique steps:", step_lines(path[: shown.earliest])),
        *_section("Older steps, summarised:", chunks),
        *_section("Recent unique steps:", step_lines(path[shown.recent :])),
        *([f"Omitted {shown.omitted} older unique step(s)."] if shown.omitted else []),
    ]


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [title, *(f"- {line}" for line in lines)] if lines else []


def _count_line(meta: Mapping[str, Any]) -> str:
    names = {"lca": meta["lca"], "anchor": meta["anchor"] or "unknown"}
    shown = ", ".join(f"{name} {fit(value, SHORT, opening)}" for name, value in names.items())
    return f"unique_steps_count: {meta['unique_steps_count']} ({shown})"


def _step_line(card: CommitCard, size: int = MAX_STEP_LINE) -> str:
    name = fit(card.commit_hash, SHORT, opening)
    return f"{name}: {fit(_what(card), max(0, size - len(name) - 2))}"


def _what(card: CommitCard) -> str:
    """Take the summary of a change, or its subject where there is none."""
    return card.subject if card.change_summary == NOT_TOLD else card.change_summary


def _chunk_line(history: History, path: Sequence[str], planning: Planning) -> str:
    ends = f"{fit(path[0], SHORT, opening)}..{fit(path[-1], SHORT, opening)} ({len(path)} steps)"
    written = history.summaries.get((path[0], path[-1], len(path)))
    if written and planning.summary_model in (None, written.model):
        return f"{ends}: {fit(written.summary, max(LEAST_SUMMARY, planning.summary_max_chars))}"
    lines = (_step_line(history.cards[each], MAX_SUMMARY_LINE) for each in path[:SUMMARY_LINES])
    return f"{ends}: {' | '.join(lines)}"
