"""Prints the events of a plan as they arrive."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from rich.text import Text

from schemas.base import PlanState, StepState
from schemas.event import event_type
from schemas.plan import PlanView
from tasks.plan.lifecycle import PLAN_ENDS
from worker.cli.console import say_json
from worker.cli.standing import StandingWatch
from worker.client.planner import GAP, PlanEvent, Planner
from worker.client.trouble import Away
from worker.host.terminal import Terminal, line
from worker.render.plan import event_line, plain

BLOCK_S = 1.0


def print_events(planner: Planner, plan: PlanView, *, as_json: bool) -> str:
    """Print the events of a plan until it has ended, the earlier ones first. Returns its state."""
    console = Terminal(highlight=False)
    if not as_json:
        console.print(Text(plan.plan_id, "bold"), Text(plain(plan.goal), "dim"), soft_wrap=True)
    standing = StandingWatch(planner, plan.plan_id)
    with closing(planner.events(plan)) as events:
        while not events.ended:
            page = events.read(BLOCK_S)
            if not page and _has_ended(planner, plan):
                break  # its last events are not kept any more
            if not page:
                standing.look()
            for event in page:
                if as_json:
                    say_json(_document(event), line=True)
                elif event.what == GAP:
                    _tell_gap(planner, plan, event)
                else:
                    console.print(event_line(event.what, event.data))
    return _state(planner, plan)


def _tell_gap(planner: Planner, plan: PlanView, event: PlanEvent) -> None:
    """Print on standard error that events are missing, with the state of the plan."""
    found = planner.plan(plan.plan_id) or plan
    done = found.counts.get(StepState.DONE, 0)
    how = f"The plan is {found.state}, with {done} of {len(found.steps)} steps done."
    line(f"Events are missing here ({event.data.get('reason')}). {how}", err=True)


def _document(event: PlanEvent) -> dict[str, Any]:
    kind = GAP if event.what == GAP else event_type(event.what)
    return {"id": event.id, "type": kind, "data": event.data}


def _has_ended(planner: Planner, plan: PlanView) -> bool:
    try:
        return _state(planner, plan) in PLAN_ENDS
    except Away:  # a longer outage is reported by the reader of events
        return False


def _state(planner: Planner, plan: PlanView) -> PlanState:
    return (planner.plan(plan.plan_id) or plan).state
