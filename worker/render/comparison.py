"""Two plans side by side: what they came to, their steps, and where their logs begin to tell something else. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Any, NamedTuple

from schemas.plan import PlanView, StepView
from schemas.times import rfc3339
from worker.render.log import came_in, moved, revised
from worker.render.plan import told_state
from worker.render.time_line import AttemptTimes

SHOWN_BEFORE, SHOWN_AFTER = 3, 6  # lines around the place where two logs part
MOST_STEPS = 300
CHANCE = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d{13}\b|\bplan_[0-9a-f-]{30,}|\bpl?anner/plan_[0-9a-f-]+")  # of a run


class Happening(NamedTuple):
    """Something that a log tells: when, and what."""

    at: str
    text: str

    @property
    def essence(self) -> str:
        """What it tells without times and ids, which are others in every plan."""
        return CHANCE.sub("…", self.text)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two plans, with what its log tells."""

    plan: PlanView
    attempts: Sequence[AttemptTimes]
    happenings: Sequence[Happening]


class Row(NamedTuple):
    """A figure of both plans; `difference` is that of the second from the first."""

    name: str
    one: str
    other: str
    differs: bool
    difference: str = ""


class StepRow(NamedTuple):
    """A step of both plans, or of one: its state, attempts and tokens in each."""

    step_id: str
    title: str
    one: str
    other: str
    differs: bool


@dataclass(frozen=True, slots=True)
class Parting:
    """Where two logs begin to tell something else: what both tell before, and what each goes on with."""

    number: int  # of what both tell
    before: Sequence[Happening]
    one: Sequence[Happening]
    other: Sequence[Happening]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two plans side by side; `parting` is None where both logs tell the same to their end."""

    rows: Sequence[Row]
    steps: Sequence[StepRow]
    more_steps: int
    parting: Parting | None


def compare(one: Side, other: Side, *, every_step: bool) -> Comparison:
    """Lay two plans side by side; of their steps those that differ, or `every_step`."""
    steps = [row for row in _steps(one, other) if every_step or row.differs]
    return Comparison(
        rows=[_row(name, *values) for name, *values in _figures(one, other)],
        steps=steps[:MOST_STEPS],
        more_steps=max(0, len(steps) - MOST_STEPS),
        parting=part(one.happenings, other.happenings),
    )


def happenings_of(lines: Iterable[Mapping[str, Any]]) -> list[Happening]:
    """List what the lines of a log tell, one after the other however they were put into lines."""
    return [Happening(rfc3339(line["now"]), " ".join(text.split())) for line in lines for text in _told(line)]


def _told(line: Mapping[str, Any]) -> Iterator[str]:
    yield from map(came_in, line["in"])
    yield from moved(line["moves"])
    yield from map(revised, line.get("revisions", ()))


def part(one: Sequence[Happening], other: Sequence[Happening]) -> Parting | None:
    """Find where two logs begin to tell something else; None where they do not."""
    for number, (mine, theirs) in enumerate(zip_longest(one, other)):
        if mine is None or theirs is None or mine.essence != theirs.essence:
            before = one[max(0, number - SHOWN_BEFORE) : number]
            end = number + SHOWN_AFTER
            return Parting(number, before, one[number:end], other[number:end])
    return None


def _figures(one: Side, other: Side) -> Iterator[tuple[str, Any, Any]]:
    """Yield names with a text or a number of each plan; numbers are compared."""
    a, b = one.plan, other.plan
    yield "State", a.state, b.state
    yield "Ended by", a.halt.rule if a.halt else "", b.halt.rule if b.halt else ""
    yield "Why", a.halt.reason if a.halt else "", b.halt.reason if b.halt else ""
    yield "Kind", a.kind, b.kind
    yield "Repository", a.repo or "", b.repo or ""
    yield "Steps", len(a.steps), len(b.steps)
    yield "Steps done", a.counts.get("DONE", 0), b.counts.get("DONE", 0)
    yield "Attempts", len(one.attempts), len(other.attempts)
    yield "Failed attempts", _failed(one), _failed(other)
    yield "Revisions", a.revision - 1, b.revision - 1
    for name, line in a.budget:
        theirs = getattr(b.budget, name)
        label = name.removesuffix("_s").replace("_", " ")
        unit = " (s)" if name.endswith("_s") else ""
        yield f"{label.capitalize()} used{unit}", line.spent, theirs.spent
        yield f"{label.capitalize()} allowed{unit}", _limit(line.limit), _limit(theirs.limit)
    yield "Cost (USD)", _cost(one), _cost(other)
    yield "From begin to end (s)", _seconds(a), _seconds(b)
    yield "Branch", a.branch or "", b.branch or ""


def _limit(limit: int | None) -> int | str:
    return "no limit" if limit is None else limit


def _failed(side: Side) -> int:
    return sum(each.ended is not None and each.result not in ("DONE", "RELEASED", "SKIPPED") for each in side.attempts)


def _cost(side: Side) -> float | str:
    said = [(each.told.get("metrics") or {}).get("cost_usd") for each in side.attempts]
    costs = [cost for cost in said if isinstance(cost, int | float)]
    return round(sum(costs), 4) if costs else ""


def _seconds(plan: PlanView) -> int | str:
    if plan.ended_at is None:
        return "goes on"
    return int((datetime.fromisoformat(plan.ended_at) - datetime.fromisoformat(plan.created_at)).total_seconds())


def _row(name: str, one: Any, other: Any) -> Row:
    difference = ""
    if isinstance(one, int | float) and isinstance(other, int | float) and one != other:
        difference = f"{other - one:+,}" if isinstance(other - one, int) else f"{other - one:+,.4f}"
    return Row(name, _text(one), _text(other), one != other, difference)


def _text(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _steps(one: Side, other: Side) -> Iterator[StepRow]:
    """Match the steps by id: those of the first plan in its order, then those that only the second has."""
    mine, theirs = ({step.step_id: step for step in side.plan.steps} for side in (one, other))
    used = _tokens(one), _tokens(other)
    for name in [*mine, *(name for name in theirs if name not in mine)]:
        a, b = mine.get(name), theirs.get(name)
        told = _step(one.plan, a, used[0].get(name)), _step(other.plan, b, used[1].get(name))
        known = a or b
        differs = a is None or b is None or (a.state, a.attempt) != (b.state, b.attempt)
        yield StepRow(name, known.title if known else "", *told, differs)


def _step(plan: PlanView, step: StepView | None, tokens: int | None) -> str:
    if step is None:
        return ""
    state = told_state(plan.state, step.state, was_tried=step.attempt > 0)
    tries = f", {step.attempt} attempt{'s' if step.attempt > 1 else ''}" if step.attempt else ""
    return f"{state}{tries}" + (f", {tokens:,} tokens" if tokens is not None else "")


def _tokens(side: Side) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in side.attempts:
        used = (each.told.get("metrics") or {}).get("tokens_used")
        if isinstance(used, int | float):
            found[each.step_id] = found.get(each.step_id, 0) + round(used)
    return found
