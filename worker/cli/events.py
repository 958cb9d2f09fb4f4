"""The events of a plan, printed as they come."""

from __future__ import annotations

from rich.text import Text

from schemas.base import PlanState
from schemas.event import event_type
from schemas.plan import PlanView
from tasks.plan.lifecycle import PLAN_ENDS
from worker.cli.console import say_json
from worker.client.planner import Planner
from worker.host.terminal import Terminal
from worker.render.plan import event_line, plain

BLOCK_S = 1.0


def print_events(planner: Planner, plan: PlanView, *, as_json: bool) -> str:
    """Print the events of a plan until it has ended, first those that were; returns its state."""
    console = Terminal(highlight=False)
    if not as_json:
        console.print(Text(plan.plan_id, "bold"), Text(plain(plan.goal), "dim"), soft_wrap=True)
    events = planner.events(plan)
    while not events.ended:
        page = events.read(BLOCK_S)
        if not page and _state(planner, plan) in PLAN_ENDS:
            break  # its last events are not kept any more
        for event in page:
            if as_json:
                say_json({"id": event.id, "type": event_type(event.what), "data": event.data}, line=True)
            else:
                console.print(event_line(event.what, event.data))
    return _state(planner, plan)


def _state(planner: Planner, plan: PlanView) -> PlanState:
    return (planner.plan(plan.plan_id) or plan).state
