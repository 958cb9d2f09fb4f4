"""`/plans/{plan_id}`: a plan as people look at it, with its graph, budgets, attempts, log, and why it ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Query, Request, Response

from schemas.plan import BudgetLine, ForecastLine, PlanView, StepView
from worker.gateway.context import Doors
from worker.gateway.page import acts, gantt, graph
from worker.gateway.page.command_result import became_of
from worker.gateway.page.documents import sections_of
from worker.gateway.page.plan_story import MOST_TOLD, NOTHING_TOLD, keys_of, newest_lines, pre_steps_of, read_if_short
from worker.gateway.page.rendering import render
from worker.gateway.page.route import PageRoute, note_position
from worker.gateway.visible import Plan, PlanReader, view_of
from worker.render.explanation import counted, explained_halt
from worker.render.summary import ADDRESS
from worker.store.step_activity import with_activity

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[Depends(note_position)])

MOST_STEPS = 100  # in the table, on one page
MOST_LANES = 40  # attempts with a bar each; more are drawn by controller
MOST_DECISIONS = 50
BUDGETS = {
    "tokens": "Tokens",
    "patch_cycles": "Patch cycles",
    "failing_outcomes": "Failing outcomes",
    "wall_clock_s": "Seconds",
}

Number = Annotated[int, Query(ge=0, le=1_000_000)]


class Funds(NamedTuple):
    """A budget, and whether it is expected to be enough: `expected` is what is needed beside what is spent and held."""

    name: str
    line: BudgetLine
    expected: int | None
    likely: int | None
    outlook: str  # enough, short, tight (not by the estimates, but at the rate so far), or nothing

    @property
    def missing(self) -> int:
        """How much more than its limit the budget is expected to need."""
        return max(0, self.line.spent + self.line.reserved + (self.expected or 0) - (self.line.limit or 0))


@router.get("/plans/{plan_id}")
def plan(
    request: Request,
    plan: Plan,
    caller: PlanReader,
    doors: Doors,
    first: Number = 0,
    band: Number | None = None,
    command: Annotated[str | None, Query(max_length=200)] = None,
) -> Response:
    """Show a plan; of many steps those from number `first` on, and the graph of one band of them."""
    view = view_of(doors, plan.plan_id)
    keys = keys_of(doors, view.plan_id)
    first = gantt.clamp(first, len(view.steps), MOST_STEPS)
    is_told = len(view.steps) <= MOST_TOLD
    shown = view if is_told else view.model_copy(update={"steps": view.steps[first : first + MOST_STEPS]})
    doing = with_activity(doors.client, doors.partitions, shown).steps
    told, unread = read_if_short(doors, view, doing) if is_told else (NOTHING_TOLD, "")
    steps = doing[first : first + MOST_STEPS] if is_told else doing
    halt = explained_halt(view)
    return render(
        request,
        "plan.html",
        plan=view,
        steps=steps,
        offered=acts.offered(caller, view, steps),
        tell=acts.TELL,
        became=became_of(doors, keys, command),
        first=first,
        most_steps=MOST_STEPS,
        story=told.story,
        attempts_are_read=is_told,
        unread=unread,
        halt=halt,
        counted=counted(halt["evidence"]) if halt else "",
        decisions=told.decisions[:MOST_DECISIONS],
        more_decisions=max(0, len(told.decisions) - MOST_DECISIONS),
        gantt=gantt.lay_out(told.attempts, told.now, together=len(told.attempts) > MOST_LANES),
        put_before=pre_steps_of(view.steps),
        graph=graph.lay_out(view.steps, band),
        band=band,
        node_width=graph.WIDTH,
        node_height=graph.HEIGHT,
        addresses={step.step_id: _address(view, number, step) for number, step in enumerate(view.steps)}
        if is_told
        else {},
        budgets=list(_budgets(view)),
        log=newest_lines(doors, keys),
        sections=sections_of(view.kind, view.document),
        pull_request_is_plain=bool(view.pull_request and ADDRESS.fullmatch(view.pull_request)),
    )


def _address(view: PlanView, number: int, step: StepView) -> str:
    page = number // MOST_STEPS * MOST_STEPS
    return f"/plans/{view.plan_id}{f'?first={page}' if page else ''}#step-{step.step_id}"


def _budgets(view: PlanView) -> Iterator[Funds]:
    for name, line in view.budget:
        more: ForecastLine | None = getattr(view.forecast, name, None)
        expected, likely = (more.needed, more.likely) if more else (None, None)
        yield Funds(BUDGETS.get(name, name), line, expected, likely, _outlook(line, expected, likely))


def _outlook(line: BudgetLine, expected: int | None, likely: int | None) -> str:
    """Say whether a budget is expected to be enough."""
    if line.limit is None or (expected is None and likely is None):
        return ""
    left = line.limit - line.spent - line.reserved
    if (likely if expected is None else expected) <= left:  # type: ignore[operator]
        return "enough"
    return "tight" if expected is not None and likely is not None and likely <= left else "short"
