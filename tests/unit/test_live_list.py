"""How soon a list of plans is made anew, by what has happened."""

from __future__ import annotations

from tests.support.sources import events
from worker.gateway.access import Sight
from worker.gateway.broadcast import SHORTEST_S
from worker.gateway.page.plan_list import FIGURES_S, Listing

LISTING = Listing(Sight(), may_submit=False, may_act=False, asked=())
AT_ONCE = {"step.approval_requested", "command.obeyed"}  # beside what is told of plans themselves
SHOWN_ELSEWHERE = {"goal", "command", "repository"}


def expected(what: str) -> float | None:
    of = what.partition(".")[0]
    if of == "plan" or what in AT_ONCE:
        return SHORTEST_S
    return None if of in SHOWN_ELSEWHERE else FIGURES_S


def test_plans_change_a_list_at_once_and_steps_outcomes_and_budgets_at_a_slower_pace() -> None:
    every = sorted(events())

    assert {what: LISTING.pace_of(what) for what in every} == {what: expected(what) for what in every}
