"""`/plans/{plan_id}` and the pages below: a plan with graph, budgets and attempts, its document, steps, time line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Query, Request, Response

from schemas import codec
from schemas.plan import BudgetLine, ForecastLine, PlanView, StepView
from worker.gateway.access import Context, Doors
from worker.gateway.page import acts, gantt, graph
from worker.gateway.page.acts import TELL, Act
from worker.gateway.page.asking import asking_of
from worker.gateway.page.documents import sections_of
from worker.gateway.page.plan_story import (
    MOST_TOLD,
    NOTHING_TOLD,
    keys_of,
    newest_lines,
    pre_steps_of,
    read_if_short,
    read_told,
)
from worker.gateway.page.rendering import PageRoute, note_position, render
from worker.gateway.page.result_view import MOST_CHANGES, shown_changes
from worker.gateway.problems import Refusal
from worker.gateway.visible import Plan, PlanReader, view_of
from worker.render.delivery import describe_delivery
from worker.render.explanation import counted, explained_halt
from worker.render.result_reading import result_from
from worker.render.result_text import spent_of, verdict_of
from worker.render.summary import ADDRESS
from worker.store import history
from worker.store.keys import PlanKeys
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
UNKNOWN = (
    "The planner has not answered this command yet. If it was sent a while ago, it is not among the newest "
    "commands of this plan any more."
)
MOST_RAW = 500_000  # characters of the document as JSON
MOST_ANSWER = 65_536  # characters
MOST_TIME_LINE_LANES = 200  # on one page


class Funds(NamedTuple):
    """A budget and its outlook; `expected` is the need of open steps beyond the spent and reserved amounts."""

    name: str
    line: BudgetLine
    expected: int | None
    likely: int | None
    outlook: str  # enough, short, tight (not by the estimates, but at the rate so far), or nothing

    @property
    def missing(self) -> int:
        """Expected need minus the limit; 0 if the limit is enough."""
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
    """Show a plan; of a large one the steps from number `first` on, and the graph of one band."""
    view = view_of(doors, plan.plan_id)
    keys = keys_of(doors, view.plan_id)
    first = gantt.clamp(first, len(view.steps), MOST_STEPS)
    is_told = len(view.steps) <= MOST_TOLD
    view = with_activity(doors.client, doors.partitions, view)
    doing = view.steps if is_told else view.steps[first : first + MOST_STEPS]
    told, unread = read_if_short(doors, view, doing) if is_told else (NOTHING_TOLD, "")
    steps = doing[first : first + MOST_STEPS] if is_told else doing
    halt = explained_halt(view)
    found = result_from(doors.client, doors.partitions, view, told.attempts, diffs=MOST_CHANGES)
    return render(
        request,
        "plan.html",
        plan=view,
        steps=steps,
        offered=acts.offered(caller, view, steps),
        asking=asking_of(doors, view, caller.key),
        tell=acts.TELL,
        became=became_of(doors, keys, command),
        first=first,
        most_steps=MOST_STEPS,
        story=told.story,
        attempts_are_read=is_told,
        unread=unread,
        result=found.result if is_told and not unread else None,
        changes=shown_changes(found),
        verdict_of=verdict_of,
        spent_of=spent_of,
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
        change=tuple(describe_delivery(view.delivery)) if view.delivery else (),
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
    """Return the outlook of a budget."""
    if line.limit is None or (expected is None and likely is None):
        return ""
    left = line.limit - line.spent - line.reserved
    if (likely if expected is None else expected) <= left:  # type: ignore[operator]
        return "enough"
    return "tight" if expected is not None and likely is not None and likely <= left else "short"


class Became(NamedTuple):
    """A sentence, and the colour of its meaning."""

    text: str
    tone: str


def became_of(doors: Context, keys: PlanKeys, command_id: str | None) -> Became | None:
    """Return the result of a command, read from the log of its plan; None without a command id."""
    if not command_id:
        return None
    found = history.find_command(doors.client, keys, command_id)
    if found is None:
        return Became(UNKNOWN, "amber")
    said, refusal = found
    title = TELL[Act(said["command"])].title if said.get("command") in set(Act) else str(said.get("command"))
    return Became(f"{title}: refused, {refusal}.", "red") if refusal else Became(f"{title}: done.", "green")


@router.get("/plans/{plan_id}/document")
def document(request: Request, plan: Plan, doors: Doors) -> Response:
    """Show the document of a plan in the form of its kind, and as JSON below."""
    view = view_of(doors, plan.plan_id)
    raw = codec.pretty(view.document).decode() if view.document else ""
    return render(
        request,
        "document.html",
        plan=view,
        sections=sections_of(view.kind, view.document),
        raw=raw[:MOST_RAW],
        raw_is_cut=len(raw) > MOST_RAW,
        lay_out=graph.lay_out,
        node_width=graph.WIDTH,
        node_height=graph.HEIGHT,
    )


@router.get("/plans/{plan_id}/steps/{step_id}")
def step(request: Request, plan: Plan, caller: PlanReader, doors: Doors, step_id: str) -> Response:
    """Show a step of a plan."""
    view = view_of(doors, plan.plan_id)
    if all(each.step_id != step_id for each in view.steps):
        raise Refusal("no_such_step", f"The plan has no step {step_id[:64]!r}.", 404)
    put_before = pre_steps_of(view.steps).get(step_id, [])
    states = {each.step_id: each for each in view.steps}
    only = {step_id, *states[step_id].depends_on, *put_before}
    alone = view.model_copy(update={"steps": (states[step_id],)})
    (shown,) = with_activity(doors.client, doors.partitions, alone).steps
    told, unread = read_if_short(doors, view, (shown,), only)
    attempts = [each for each in told.attempts if each.step_id == step_id]
    (facts,) = history.read_facts(doors.client, keys_of(doors, view.plan_id), [step_id]).values() or ({},)
    return render(
        request,
        "step.html",
        plan=view,
        step=shown,
        facts=facts,
        states=states,
        put_before=put_before,
        attempts=attempts,
        unread=unread,
        story={each["attempt"]: each for each in told.story.get(step_id, [])},
        decisions=[each for each in told.decisions if each.step_id == step_id],
        gantt=gantt.lay_out(attempts, told.now),
        now=told.now,
        length=gantt.length,
        offered=acts.of_step(view, shown, caller.key),
        tell=acts.TELL,
        most_answer=MOST_ANSWER,
    )


@router.get("/plans/{plan_id}/timeline")
def time_line(
    request: Request,
    plan: Plan,
    doors: Doors,
    controller: Annotated[str | None, Query(max_length=300)] = None,
    first: Number = 0,
) -> Response:
    """Show the attempts of a plan from number `first` on, or only those of one controller."""
    view = view_of(doors, plan.plan_id)
    told = read_told(doors, view, with_activity(doors.client, doors.partitions, view).steps)
    attempts = [each for each in told.attempts if controller in (None, gantt.name_of(each))]
    return render(
        request,
        "time_line.html",
        plan=view,
        gantt=gantt.lay_out(attempts, told.now, first=first, most=MOST_TIME_LINE_LANES),
        now=told.now,
        length=gantt.length,
        controller=controller,
        most=MOST_TIME_LINE_LANES,
    )
