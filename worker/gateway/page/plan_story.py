"""The log of a plan on its pages: attempts over time, decisions, and the newest lines."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from redis import Redis

from schemas import codec
from schemas.plan import PlanView, StepView
from worker.gateway.access import Context
from worker.gateway.problems import Refusal
from worker.render.decisions import Decision, decisions_of
from worker.render.log import tell_line
from worker.render.time_line import AttemptTimes, attempts_of
from worker.store import history
from worker.store.history import Story
from worker.store.keys import Partition, PlanKeys, partition_of

MOST_READ = 50_000  # lines of a log that a page reads
MOST_LINES = 40  # of the log, as it is
MOST_TOLD = 1000  # steps of a plan whose attempts are read from its log without being asked for
UNUSABLE = 422


class LogTooLong(Refusal):
    """A log has more lines than a page reads."""

    def __init__(self, lines: int) -> None:
        detail = f"The log has {lines:,} lines, more than a page reads: `planner log` and `planner export` read it."
        super().__init__("log_too_long", detail, UNUSABLE)


class Logged(NamedTuple):
    """The newest lines of a log as text, and the number of lines before them."""

    lines: list[str]
    before: int


@dataclass(frozen=True, slots=True)
class Told:
    """The content of a log: the attempts of each step with reasons, all attempts with their times, and decisions."""

    story: Story
    attempts: Sequence[AttemptTimes]
    decisions: Sequence[Decision]
    now: int  # ms, by this machine's clock: the end of bars in flight


NOTHING_TOLD = Told({}, (), (), 0)


def keys_of(doors: Context, plan_id: str) -> PlanKeys:
    """Return the keys of a plan."""
    return Partition(partition_of(plan_id, doors.partitions)).plan(plan_id)


def read_told(doors: Context, view: PlanView, steps: Sequence[StepView], only: Collection[str] = ()) -> Told:
    """Read the log of a plan, or only the part about the steps `only` and their dependencies.

    `steps` are the plan's steps with their activity. Raises LogTooLong.
    """
    keys = keys_of(doors, view.plan_id)
    lines = read_lines(doors.client, keys, only)
    story = history.story_in(doors.client, keys, lines)
    doing = {step.step_id: step.activity for step in steps if step.activity}
    known = [step for step in view.steps if not only or step.step_id in only]
    halt = view.halt.model_dump(mode="json") if view.halt and not only else None
    attempts = attempts_of(lines, story, known, doing)
    now = max(round(time.time() * 1000), max((each.ended or each.queued for each in attempts), default=0))
    return Told(story, attempts, decisions_of(lines, halt, view.ended_at), now)


def read_if_short(
    doors: Context, view: PlanView, steps: Sequence[StepView], only: Collection[str] = ()
) -> tuple[Told, str]:
    """Return the log as `read_told` does, with an empty text; if the log is too long, an empty log with the reason."""
    try:
        return read_told(doors, view, steps, only), ""
    except LogTooLong as refusal:
        return NOTHING_TOLD, f"{refusal} Attempts, their times and decisions are not shown here."


def read_lines(client: Redis, keys: PlanKeys, only: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return the lines of a log; with `only`, the first line and each line that may be about one of these steps.

    Raises LogTooLong (422) if the log is too long for a page.
    """
    length: Any = client.llen(keys.log)
    if length > MOST_READ:
        raise LogTooLong(length)
    names = [name.encode() for name in only]
    lines = enumerate(history.read_lines(client, keys))
    return [
        codec.loads(line) for number, line in lines if not names or not number or any(name in line for name in names)
    ]


def newest_lines(doors: Context, keys: PlanKeys) -> Logged:
    """Return the newest lines of a log, the newest first."""
    length: Any = doors.client.llen(keys.log)
    before = max(0, length - MOST_LINES)
    lines = history.read_lines(doors.client, keys, before, MOST_LINES)
    told = [tell_line(before + number, line) for number, line in zip(range(1, MOST_LINES + 1), lines, strict=False)]
    return Logged(told[::-1], before)


def pre_steps_of(steps: Sequence[StepView]) -> Mapping[str, list[str]]:
    """Return the pre-steps that were inserted for each step."""
    found: dict[str, list[str]] = {}
    for step in steps:
        if step.inserted_by:
            found.setdefault(step.inserted_by, []).append(step.step_id)
    return found
