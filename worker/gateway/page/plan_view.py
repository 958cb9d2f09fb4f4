"""`/plans/{plan_id}`: a plan as people look at it, with its graph, budgets, attempts, log, and why it ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request, Response

from schemas import codec
from schemas.plan import BudgetLine, PlanView, StepView
from worker.gateway.context import Context, Doors
from worker.gateway.page import acts, graph
from worker.gateway.page.rendering import render
from worker.gateway.page.route import PageRoute
from worker.gateway.problems import Refusal
from worker.gateway.visible import Plan, PlanReader
from worker.render.explanation import explanation
from worker.render.log import tell_line
from worker.render.summary import ADDRESS
from worker.store import history, queries
from worker.store.keys import Partition, PlanKeys, partition_of
from worker.store.step_activity import with_activity

router = APIRouter(route_class=PageRoute, include_in_schema=False)

MOST_STEPS = 100  # in the table, on one page
MOST_TOLD = 1000  # steps of a plan whose attempts are read from its log
MOST_LINES = 40  # of the log
MOST_DOCUMENT = 200_000  # characters
BUDGETS = {
    "tokens": "Tokens",
    "patch_cycles": "Patch cycles",
    "failing_outcomes": "Failing outcomes",
    "wall_clock_s": "Seconds",
}

Number = Annotated[int, Query(ge=0, le=1_000_000)]


class Logged(NamedTuple):
    """The newest lines of a log, as text, and how many there are before them."""

    lines: list[str]
    before: int


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
    view = queries.plan(doors.client, doors.partitions, plan.plan_id)
    if view is None:  # it was forgotten just now
        raise Refusal("no_such_plan", f"There is no plan {plan.plan_id}.", 404)
    keys = Partition(partition_of(view.plan_id, doors.partitions)).plan(view.plan_id)
    story = history.story(doors.client, keys) if len(view.steps) <= MOST_TOLD else {}
    shown = view.model_copy(update={"steps": view.steps[first : first + MOST_STEPS]})
    return render(
        request,
        "plan.html",
        plan=view,
        steps=with_activity(doors.client, doors.partitions, shown).steps,
        offered=acts.offered(caller, view, shown.steps),
        tell=acts.TELL,
        became=acts.became_of(doors, keys, command),
        first=first,
        most_steps=MOST_STEPS,
        story=story,
        attempts_are_read=len(view.steps) <= MOST_TOLD,
        explained=explanation(view, story, None),
        graph=graph.lay_out(view.steps, band),
        band=band,
        node_width=graph.WIDTH,
        node_height=graph.HEIGHT,
        addresses={step.step_id: _address(view, number, step) for number, step in enumerate(view.steps)}
        if len(view.steps) <= MOST_TOLD
        else {},
        budgets=list(_budgets(view)),
        log=_log(doors, keys),
        document=_document(view),
        pull_request_is_plain=bool(view.pull_request and ADDRESS.fullmatch(view.pull_request)),
    )


def _address(view: PlanView, number: int, step: StepView) -> str:
    page = number // MOST_STEPS * MOST_STEPS
    return f"/plans/{view.plan_id}{f'?first={page}' if page else ''}#step-{step.step_id}"


def _budgets(view: PlanView) -> Iterator[tuple[str, BudgetLine]]:
    for name, line in view.budget:
        yield BUDGETS.get(name, name), line


def _log(doors: Context, keys: PlanKeys) -> Logged:
    length: Any = doors.client.llen(keys.log)
    before = max(0, length - MOST_LINES)
    lines = history.read_lines(doors.client, keys, before, MOST_LINES)
    told = [tell_line(before + number, line) for number, line in zip(range(1, MOST_LINES + 1), lines, strict=False)]
    return Logged(told[::-1], before)


def _document(view: PlanView) -> str | None:
    """Write the document of a plan's kind as text."""
    if not view.document:
        return None
    return codec.pretty(view.document).decode()[:MOST_DOCUMENT]
