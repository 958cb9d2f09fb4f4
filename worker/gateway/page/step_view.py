"""`/plans/{plan_id}/steps/{step_id}`: a step with all that it may touch, its attempts with their proof and evidence."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Request, Response

from worker.gateway.context import Doors
from worker.gateway.page import acts, gantt
from worker.gateway.page.plan_story import keys_of, pre_steps_of, read_if_short
from worker.gateway.page.rendering import render
from worker.gateway.page.route import PageRoute, note_position
from worker.gateway.problems import Refusal
from worker.gateway.visible import Plan, PlanReader, view_of
from worker.store import history
from worker.store.step_activity import with_activity

router = APIRouter(route_class=PageRoute, include_in_schema=False, dependencies=[Depends(note_position)])

MOST_ANSWER = 65_536  # characters


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
