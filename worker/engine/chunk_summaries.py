"""Summaries of chunks of commits for an `evolution`: those that are kept, and those that its drafter is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from redis import Redis

from schemas.base import GoalKind
from schemas.goal import Goal
from schemas.kinds.evolution import ChunkSummary
from tasks.rules.goal_cleaning import clean_goal
from tasks.rules.strategy import Consult, Drafted, Setting
from tasks.strategies.evolution.chunks import Chunk, chunks_without_summary, summary_in
from tasks.strategies.evolution.trajectory import TrajectoryOptions
from worker.store import chunk_summaries
from worker.store.keys import Partition

Ask = Callable[[Consult, Sequence[Drafted]], Drafted | None]  # with the answers so far; None: no question is asked


def recall(client: Redis, partition: Partition, goal: Goal, setting: Setting) -> tuple[Setting, tuple[Chunk, ...]]:
    """Give a setting the kept summaries of a goal's chunks; returns the chunks without one, too."""
    options = TrajectoryOptions.of(setting.options)
    if goal.kind is not GoalKind.EVOLUTION or not options.summaries:
        return setting, ()
    evolution = clean_goal(goal).goal.evolution
    chunks = chunks_without_summary(evolution, options) if evolution else ()
    known = chunk_summaries.read(client, partition, goal.tenant, [chunk.name for chunk in chunks])
    known = {name: kept for name, kept in known.items() if options.summary_model in (None, kept[1])}
    found = tuple(chunk.summary(*known[chunk.name]) for chunk in chunks if chunk.name in known)
    return replace(setting, summaries=found), tuple(chunk for chunk in chunks if chunk.name not in known)


def ask(
    client: Redis, partition: Partition, goal: Goal, setting: Setting, model: str, ask_drafter: Ask
) -> tuple[Setting, tuple[Drafted, ...]]:
    """Give a setting the kept summaries, and new ones of the chunks that lack one; returns the answers, too.

    Each chunk is asked of the drafter once. A question without a usable answer leaves the chunk its own lines. New
    summaries are kept for later goals of the tenant.
    """
    setting, lacking = recall(client, partition, goal, setting)
    options, drafted, made = TrajectoryOptions.of(setting.options), list[Drafted](), list[ChunkSummary]()
    for chunk in lacking[: options.summaries] if options.summary_model in (None, model) else ():
        said = ask_drafter(Consult(chunk.prompt), drafted)
        if said is None:
            break
        drafted.append(said)
        if said.error is None and (text := summary_in(said.output, options)):
            chunk_summaries.keep(client, partition, goal.tenant, chunk.name, text, model)
            made.append(chunk.summary(text, model))
    return replace(setting, summaries=(*setting.summaries, *made)), tuple(drafted)
