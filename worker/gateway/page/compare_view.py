"""`/compare`: two plans side by side, as a rule one and its retry."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from schemas.plan import PlanSummary, PlanView
from worker.gateway.access import Access
from worker.gateway.context import Context, Doors
from worker.gateway.page.plan_story import keys_of, read_lines
from worker.gateway.page.rendering import render
from worker.gateway.page.route import PageRoute
from worker.gateway.problems import Refusal
from worker.gateway.visible import PlanReader, find_plan, view_of
from worker.render.comparison import Comparison, Side, compare, happenings_of
from worker.render.time_line import attempts_of
from worker.store import history
from worker.store.keys import PLAN_ID
from worker.store.plan_lists import PlanFilter, walk
from worker.store.step_activity import with_activity

router = APIRouter(route_class=PageRoute, include_in_schema=False)

UNUSABLE = 422
MOST_CANDIDATES = 20  # plans of an id's beginning that are looked at
Name = Annotated[str, Query(max_length=64)]


@router.get("/compare")
def compares(
    request: Request, caller: PlanReader, doors: Doors, a: Name = "", b: Name = "", every: bool = False
) -> Response:
    """Lay two plans side by side, each named by its id or the beginning of it; without both ask which."""
    plans: list[PlanView | None] = []
    errors = []
    for label, name in (("first", a), ("second", b)):
        try:
            plans.append(_find(doors, caller, name) if name.strip() else None)
        except Refusal as refusal:
            plans.append(None)
            errors.append(f"The {label} plan: {refusal.problem.detail}")
    one, other = plans
    found = _compare(doors, one, other, every=every) if one and other else None
    return render(
        request,
        "compare.html",
        UNUSABLE if errors else 200,
        a=a,
        b=b,
        one=one,
        other=other,
        found=found,
        every=every,
        errors=errors,
        are_kin=bool(one and other and _are_kin(one, other)),
    )


def _find(doors: Context, caller: Access, name: str) -> PlanView:
    """Find the plan that an id or the beginning of one means; others' plans are not there."""
    begin = PlanFilter(id_prefix=name.strip()).begin
    found = [begin] if PLAN_ID.fullmatch(begin) else _beginning(doors, begin)
    items = [plan for plan_id in found if (plan := _seen(doors, caller, plan_id))]
    if not items:
        raise Refusal("no_such_plan", f"There is no plan whose id begins with {name.strip()}.", 404)
    if len(items) > 1:
        raise Refusal("ambiguous", f"Several plans begin with {name.strip()}: write more of the id.", UNUSABLE)
    return view_of(doors, items[0].plan_id)


def _beginning(doors: Context, begin: str) -> list[str]:
    places = walk(doors.client, doors.partitions, PlanFilter(id_prefix=begin))
    return list(islice((place.plan_id for place, fits in places if fits), MOST_CANDIDATES))


def _seen(doors: Context, caller: Access, plan_id: str) -> PlanSummary | None:
    try:
        return find_plan(doors, caller, plan_id)
    except Refusal:
        return None


def _compare(doors: Context, one: PlanView, other: PlanView, *, every: bool) -> Comparison:
    return compare(_side(doors, one), _side(doors, other), every_step=every)


def _side(doors: Context, view: PlanView) -> Side:
    keys = keys_of(doors, view.plan_id)
    lines = read_lines(doors.client, keys)
    story = history.story_in(doors.client, keys, lines)
    doing = with_activity(doors.client, doors.partitions, view).steps
    attempts = attempts_of(lines, story, view.steps, {step.step_id: step.activity for step in doing if step.activity})
    return Side(view, attempts, happenings_of(lines))


def _are_kin(one: PlanView, other: PlanView) -> bool:
    """Tell whether both plans are of one goal."""
    retries = {one.retry_of, *one.retried_by}, {other.retry_of, *other.retried_by}
    return other.plan_id in retries[0] or one.plan_id in retries[1] or (one.goal, one.kind) == (other.goal, other.kind)
