"""Writes the trajectory of an inspiration in a few lines: its changes since it branched off from the base.

Commit cards name the parent of each commit, and the trajectory follows these names. It is bounded and stops at a commit
that it has visited, so cycles do no harm. Blocks of commits are counted from the anchor, the first commit. So a full
block always has the same ends, and its summary can be stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import groupby
from typing import Any, NamedTuple

from schemas.kinds.evolution import NOT_TOLD, ChunkSummary, CommitCard
from tasks.text.fields import fit, opening

PREFIX = "trajectory_"  # prefix of the operator's options about trajectories, left out in these names
MAX_DEPTH = 4096  # commits of one walk
MAX_STEP_LINE = 240  # characters
MAX_SUMMARY_LINE = 160  # of a step in a summary that the planner makes
SUMMARY_LINES = 8
SHORT = 12  # characters of a hash
LEAST_SUMMARY = 64  # characters

NO_OVERLAP = "Trajectory unavailable: missing parent-chain overlap."
NO_STEPS = "No unique steps: the inspiration is the base or an ancestor of it."

Cards = Mapping[str, CommitCard]


@dataclass(frozen=True, slots=True)
class TrajectoryOptions:
    """The operator's settings for trajectories; each comment has the part of the name after the common prefix."""

    block_size: int = 8  # BLOCK_SIZE, commits
    max_chunks: int = 3  # MAX_CHUNKS
    max_raw_steps: int = 6  # MAX_RAW_STEPS
    summary_model: str | None = None  # SUMMARY_MODEL: only its summaries are used; None: all
    summary_max_chars: int = 800  # SUMMARY_MAX_CHARS; at least 64
    summaries: int = 0  # SUMMARIES: that a drafter is asked for a goal

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> TrajectoryOptions:
        """Read the operator's options; unset ones have their default."""
        names = [each.name for each in fields(cls)]
        return cls(**{name: options[PREFIX + name] for name in names if PREFIX + name in options})


DEFAULTS = TrajectoryOptions()


@dataclass(frozen=True, slots=True)
class Depths:
    """The depth of each commit below the anchor, the first known commit of the chain."""

    of: Mapping[str, int]
    anchor: str
    mode: str  # experiment_root or chain_root
    whole: bool  # the anchor was reached


@dataclass(frozen=True, slots=True)
class Rollup:
    """The lines of a trajectory for the prompt, and its counts and commits (`meta`) for the plan's document."""

    lines: tuple[str, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Spans:
    """The parts of a path to show: first and last commits one by one, full blocks in between by their summaries."""

    earliest: int  # number of first steps
    chunks: tuple[tuple[int, int], ...]  # start, end (exclusive)
    recent: int  # start of the tail
    omitted: int


class Shown(NamedTuple):
    """The path to an inspiration from the last commit that it shares with the base, and the parts to show."""

    shared: str
    path: tuple[str, ...]
    below: Depths
    spans: Spans


@dataclass(frozen=True, slots=True)
class History:
    """The known commits of a goal, its base's ancestors, and the stored summaries, for fast look-up."""

    cards: Cards
    base: Mapping[str, None]  # the base and its ancestors
    root: str | None
    summaries: Mapping[tuple[str, str, int], ChunkSummary]

    @classmethod
    def of(
        cls, cards: Sequence[CommitCard], base: str, root: str | None = None, summaries: Sequence[ChunkSummary] = ()
    ) -> History:
        """Return the history of a goal; if two cards or two summaries have the same key, the last one counts."""
        known = {card.commit_hash: card for card in cards}
        written = {(each.start_commit_hash, each.end_commit_hash, each.block_size): each for each in summaries}
        return cls(known, dict.fromkeys(ancestors(known, base)), root, written)


def rollup(history: History, tip: str, options: TrajectoryOptions = DEFAULTS) -> Rollup:
    """Return the trajectory of `tip` since it branched off from the base; one line if no shared commit is known."""
    found = choose(history, tip, options)
    if found is None:
        return Rollup((NO_OVERLAP,))
    shared, path, index, chosen = found
    anchor, mode = (index.anchor, index.mode) if index.whole else (None, None)
    meta = {
        "base": next(iter(history.base)),
        "inspiration": tip,
        "lca": shared,
        "unique_steps_count": len(path),
        "anchor": anchor,
        "anchor_mode": mode,
    }
    ends = f"lca {fit(shared, SHORT, opening)}, anchor {fit(anchor or 'unknown', SHORT, opening)}"
    count = f"unique_steps_count: {len(path)} ({ends})"
    if not path:
        return Rollup((count, NO_STEPS), {**meta, "omitted_steps": 0})
    return Rollup((count, *_lines(history, path, chosen, options)), {**meta, "omitted_steps": chosen.omitted})


def choose(history: History, tip: str, options: TrajectoryOptions = DEFAULTS) -> Shown | None:
    """Return the path to `tip` with the parts to show; None if `tip` and the base share no known commit."""
    found = unique_path(history.cards, history.base, tip)
    if found is None:
        return None
    shared, path = found
    index = depths(history.cards, tip, shared, history.root)
    if index.whole and all(each in index.of for each in path):
        return Shown(shared, path, index, spans([index.of[each] for each in path], options))
    recent = max(0, len(path) - max(0, options.max_raw_steps))  # nothing to align to: only the tail
    return Shown(shared, path, index, Spans(0, (), recent, recent))


def spans(at: Sequence[int], options: TrajectoryOptions = DEFAULTS) -> Spans:
    """Return which commits of a path to show; `at` contains their depths, each one more than the depth before."""
    n, block, raw = len(at), max(1, options.block_size), max(0, options.max_raw_steps)
    if not n:
        return Spans(0, (), 0, 0)
    recent = n - min(raw, n)
    if recent < n:
        recent = max(0, recent - (at[recent] - 1) % block)  # back to the start of its block, so that no block is split
    # The head is the rest of the first block of the path, or else two steps.
    rest = min(block - (at[0] - 1) % block, n, raw, recent) if at[0] % block != 1 else 0
    earliest = rest or min(2, raw, recent)
    chunks = _chunks(at, block, recent, options.max_chunks)
    covered = {step for start, end in chunks for step in range(start, end)} | set(range(earliest))
    return Spans(earliest, chunks, recent, recent - len(covered))


def _chunks(at: Sequence[int], block: int, recent: int, most: int) -> tuple[tuple[int, int], ...]:
    """Return the full blocks to show, as start and end (exclusive): the oldest, and the newest up to `most` in all."""
    full = []
    for _, steps in groupby(range(recent), key=lambda step: (at[step] - 1) // block):
        members = list(steps)
        if len(members) == block:
            full.append((members[0], members[-1] + 1))
    if most < 1 or len(full) <= most:
        return tuple(full[: max(0, most)])
    return (full[0], *full[len(full) - most + 1 :])


def _lines(history: History, path: Sequence[str], shown: Spans, options: TrajectoryOptions) -> list[str]:
    cards = history.cards
    sections = {
        "Earliest unique steps:": [step_line(cards[each]) for each in path[: shown.earliest]],
        "Older steps, summarised:": [_chunk_line(history, path[start:end], options) for start, end in shown.chunks],
        "Recent unique steps:": [step_line(cards[each]) for each in path[shown.recent :]],
    }
    lines = []
    for title, content in sections.items():
        if content:
            lines += [title, *(f"- {line}" for line in content)]
    return [*lines, f"Omitted {shown.omitted} older unique step(s)."] if shown.omitted else lines


def step_line(card: CommitCard, size: int = MAX_STEP_LINE) -> str:
    """Return a commit in one line of at most `size` characters: its short hash and its change."""
    name = fit(card.commit_hash, SHORT, opening)
    change = card.subject if card.change_summary == NOT_TOLD else card.change_summary
    return f"{name}: {fit(change, max(0, size - len(name) - 2))}"


def _chunk_line(history: History, path: Sequence[str], options: TrajectoryOptions) -> str:
    ends = f"{fit(path[0], SHORT, opening)}..{fit(path[-1], SHORT, opening)} ({len(path)} steps)"
    if written := summary_of(history, path, options):
        return f"{ends}: {fit(written.summary, max(LEAST_SUMMARY, options.summary_max_chars))}"
    lines = (step_line(history.cards[each], MAX_SUMMARY_LINE) for each in path[:SUMMARY_LINES])
    return f"{ends}: {' | '.join(lines)}"


def summary_of(history: History, path: Sequence[str], options: TrajectoryOptions) -> ChunkSummary | None:
    """Return the summary of the chunk `path`; None if there is none from a model that the operator permits."""
    written = history.summaries.get((path[0], path[-1], len(path)))
    return written if written and options.summary_model in (None, written.model) else None


def ancestors(cards: Cards, tip: str) -> Iterator[str]:
    """Yield `tip` and its ancestors, up to the earliest."""
    seen: set[str] = set()
    at: str | None = tip
    while at and at not in seen and len(seen) < MAX_DEPTH:
        yield at
        seen.add(at)
        card = cards.get(at)
        at = card.parent_commit_hash if card else None


def unique_path(cards: Cards, base: Mapping[str, None], tip: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the last commit that `tip` shares with the base's history, and the commits from there to `tip`.

    Return None if they share no known commit.
    """
    path: list[str] = []
    for each in ancestors(cards, tip):
        if each in base:
            return each, tuple(reversed(path))
        path.append(each)
    return None


def depths(cards: Cards, tip: str, shared: str, root: str | None) -> Depths:
    """Return the depths of `tip` and its ancestors below the experiment's root, else below the first known ancestor."""
    line = list(ancestors(cards, tip))
    rooted = root in line
    whole = rooted or len(line) < MAX_DEPTH
    if rooted:
        line = line[: line.index(root or "") + 1]
    elif len(line) > 1 and line[-1] not in cards and line[-1] != shared:
        line.pop()  # only its name is known
    of = {each: depth for depth, each in enumerate(reversed(line))}
    return Depths(of, line[-1], "experiment_root" if rooted else "chain_root", whole)
