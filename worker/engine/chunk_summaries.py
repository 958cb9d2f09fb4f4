"""Summaries of chunks of commits for an evolution goal: stored ones, and new ones that its drafter writes."""

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
    """Return the setting with the stored summaries of a goal's chunks, and the chunks that have none."""
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
    """Return the setting with stored and new summaries of a goal's chunks, and the drafter's answers.

    It asks the drafter once for each chunk without a summary, and stores the new summaries for the tenant's later
    goals. A chunk without a usable answer keeps its own lines.
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
