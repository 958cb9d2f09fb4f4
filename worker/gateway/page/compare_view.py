"""`/compare`: two plans side by side, as a rule one and its retry."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from schemas.plan import PlanSummary, PlanView
from worker.gateway.access import Access, Sight
from worker.gateway.context import Context, Doors
from worker.gateway.page.plan_story import MOST_TOLD, keys_of, read_lines
from worker.gateway.page.rendering import render
from worker.gateway.page.route import PageRoute
from worker.gateway.problems import Refusal
from worker.gateway.visible import PlanReader, find_plan, list_plans, view_of
from worker.render.comparison import Comparison, Side, compare, happenings_of
from worker.render.time_line import attempts_of
from worker.store import history
from worker.store.keys import PLAN_ID
from worker.store.plan_lists import PlanFilter
from worker.store.plan_names import PLAN_PREFIX
from worker.store.step_activity import with_activity

router = APIRouter(route_class=PageRoute, include_in_schema=False)

UNUSABLE = 422
OF_LOGS = frozenset({"Attempts", "Failed attempts", "Cost (USD)"})  # figures that logs tell
AMBIGUOUS = 2  # plans that begin with the same text; of more nobody is told
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
    is_read = every or not any(plan and len(plan.steps) > MOST_TOLD for plan in plans)
    found = _compare(doors, one, other, every=every, is_read=is_read) if one and other else None
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
        is_read=is_read,
        errors=errors,
        are_kin=bool(one and other and _are_kin(one, other)),
    )


def _find(doors: Context, caller: Access, name: str) -> PlanView:
    """Find the plan that an id or the beginning of one means; others' plans are not there."""
    wanted = PlanFilter(id_prefix=name.strip())
    if PLAN_ID.fullmatch(wanted.begin):
        return view_of(doors, find_plan(doors, caller, wanted.begin).plan_id)
    found = _begun_by(doors, caller.sight, wanted)
    if len(found) > 1:
        raise Refusal("ambiguous", f"Several plans begin with {wanted.id_prefix}: write more of the id.", UNUSABLE)
    return view_of(doors, found[0].plan_id)


def _begun_by(doors: Context, sight: Sight, wanted: PlanFilter) -> list[PlanSummary]:
    """Find one or two plans that are seen and whose ids begin like this; raises Refusal where there is none."""
    name = wanted.id_prefix
    if not PLAN_PREFIX.fullmatch(name):
        raise Refusal("no_such_plan", f"{name} is no beginning of a plan's id, such as plan_3c-0199.", UNUSABLE)
    page = list_plans(doors, sight, wanted, AMBIGUOUS, None)
    found = page.items
    if len(found) < AMBIGUOUS and page.next_cursor:
        told = "Only the newest plans were looked at" if found else f"None of the newest plans begins with {name}"
        raise Refusal("no_such_plan", f"{told}: write the whole id.", 404)
    if found:
        return found
    raise Refusal("no_such_plan", f"There is no plan whose id begins with {name}.", 404)


def _compare(doors: Context, one: PlanView, other: PlanView, *, every: bool, is_read: bool) -> Comparison:
    """Compare two plans; logs that are not read tell of no attempts."""
    sides = [_side(doors, view) if is_read else Side(view, (), ()) for view in (one, other)]
    found = compare(*sides, every_step=every)
    return found if is_read else replace(found, rows=[row for row in found.rows if row.name not in OF_LOGS])


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
