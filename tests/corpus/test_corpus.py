"""Recorded plans come out as they did: every spec, event, log line and state, byte for byte.

A rule that is changed on purpose shows here as a difference: look at it with `uv run python -m tests.corpus`, then
record the plans anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

import pytest

from schemas import codec
from schemas.base import FailureCategory, GoalKind
from tasks.base.policy import REVISIONS
from tasks.plan.lifecycle import PLAN_MOVES, STEP_MOVES
from tasks.policy.pipeline import ADVICE
from tasks.record.recorded_plan import RecordedPlan
from tasks.record.replay import Result, replay
from tests.corpus import record

MOST_SHOWN = 5
UNSAID = {("PENDING", "BLOCKED"), ("EXECUTING", "EXECUTING")}  # steps are made BLOCKED; going on is no line of a log


@cache
def recorded() -> dict[str, list[record.Recorded]]:
    """The recorded plans by kind."""
    found = defaultdict(list)
    for plan in record.read():
        found[plan["scene"]["goal"].get("kind", "task")].append(plan)
    return found


def everything() -> Iterator[record.Recorded]:
    for plans in recorded().values():
        yield from plans


def lines(plan: record.Recorded) -> Iterator[dict[str, Any]]:
    for output in plan["outputs"]:
        yield from map(codec.loads, output.get("log", ()))


@pytest.mark.outages
@pytest.mark.parametrize("kind", [kind.value for kind in GoalKind])
def test_recorded_plans_come_out_as_before(kind: str) -> None:
    differences = (record.difference(old, record.again(old)) for old in recorded()[kind])

    assert not list(islice(filter(None, differences), MOST_SHOWN))


@pytest.mark.outages
@pytest.mark.parametrize("kind", [kind.value for kind in GoalKind])
def test_recorded_plans_are_decided_again_from_their_logs(kind: str) -> None:
    exports = filter(None, map(record.export, recorded()[kind]))
    found = [replay(RecordedPlan.read(export)) for export in exports]

    assert [one for one in found if one.result is not Result.EQUAL] == []
    assert len(found) > 50


def test_the_same_fleets_record_the_same_plans() -> None:
    made = [codec.loads(codec.dumps(plan)) for plan in islice(record.make(), 20)]

    assert made == list(islice(record.read(), 20))


def test_every_halt_rule_is_recorded() -> None:
    halts = [
        codec.loads(fields["halt"])
        for plan in everything()
        for fields in plan["state"].values()
        if isinstance(fields, dict) and "halt" in fields
    ]

    # Each plan that is recorded has its repository to itself, and its controllers report nothing of a change or a host,
    # nor that failing tests pass, and it delivers nothing.
    alone = ADVICE.keys() - {
        "overlap",
        "integrity",
        "cannot_verify",
        "passes_at_base",
        "holdout",
        "conflict",
        "already_fixed",
    }
    assert alone <= {halt["rule"] for halt in halts} | {halt["reason"] for halt in halts}


def test_every_strategy_of_the_revision_table_is_recorded() -> None:
    applied = defaultdict(set)
    for plan in everything():
        for line in lines(plan):
            for revision in line.get("revisions", ()):
                applied[revision.get("category")].update(revision["rule"].split(" + "))
    wanted = {category: {name for column in row for name in column} for category, row in REVISIONS.items()}
    del wanted[FailureCategory.NO_PROOF]  # controllers of recorded plans send no reports of tests

    assert {
        category: names - applied[category] for category, names in wanted.items() if names - applied[category]
    } == {}


def test_every_move_of_the_two_machines_is_recorded() -> None:
    moves = {tuple(move[-2:]) for plan in everything() for line in lines(plan) for move in line["moves"]}

    assert (STEP_MOVES.keys() | PLAN_MOVES.keys()) - moves == UNSAID
