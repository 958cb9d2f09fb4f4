"""The plans that a caller may see, by its tenant and its repositories. Endpoints answer 404 for all others."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated

from fastapi import Depends

from schemas.api_key import Right
from schemas.plan import PlanSummary, PlanView
from schemas.times import milliseconds
from tasks.plan import lifecycle
from worker.gateway.access import Access, Context, Doors, Sight, having
from worker.gateway.problems import Refusal
from worker.store import plan_lists, plan_ranks, queries
from worker.store.keys import PLAN_ID
from worker.store.plan_lists import Place, PlanFilter, WrongCursor

EVERYTHING = Sight()
NEWEST_ID = f"plan_ff-{'f' * 32}"  # of all plans that one millisecond may have
MAX_DIGITS = 10  # of a cursor that is a number
MOST_APART = 50  # repositories above this number, repositories are not read separately
READ_RIGHTS = (Right.VIEWER, Right.PRODUCER, Right.OPERATOR, Right.ANSWER)  # each of these lets a key see plans
PlanReader = Annotated[Access, Depends(having(*READ_RIGHTS))]


def find_plan(doors: Context, caller: Access, plan_id: str) -> PlanSummary:
    """Return a plan. Raises Refusal 404 if it does not exist or the caller may not see it."""
    found = queries.summary(doors.client, doors.partitions, plan_id) if PLAN_ID.fullmatch(plan_id) else None
    if found is None or not caller.may_see(found.tenant, found.repo):
        raise Refusal("no_such_plan", f"There is no plan {plan_id[:60]}.", 404)
    return found


def _plan(plan_id: str, caller: PlanReader, doors: Doors) -> PlanSummary:
    return find_plan(doors, caller, plan_id)


Plan = Annotated[PlanSummary, Depends(_plan)]


def view_of(doors: Context, plan_id: str) -> PlanView:
    """Return everything about a plan that the caller may see. Raises Refusal 404 if the plan was removed meanwhile."""
    view = queries.plan(doors.client, doors.partitions, plan_id)
    if view is None:
        raise Refusal("no_such_plan", f"There is no plan {plan_id}.", 404)
    return view


def list_plans(doors: Context, sight: Sight, wanted: PlanFilter, limit: int, cursor: str | None) -> queries.Page:
    """Return a page of the wanted plans that the caller sees. Raises WrongCursor.

    The list of each visible repository is read separately, so that plans of others cost nothing. With more than
    MOST_APART repositories, one list of all plans is filtered.
    """
    pages = [
        queries.page(doors.client, doors.partitions, each, limit, cursor, partial(_sees, sight))
        for each in _apart(sight, wanted)
    ]
    if not pages:
        return queries.Page([], None)
    found = _merged(pages, limit)
    return found if sight == EVERYTHING else _without_others(found)


def _apart(sight: Sight, wanted: PlanFilter) -> list[PlanFilter]:
    """Return the filters that together find the wanted plans which the caller may see: one for each repository.

    With too many repositories, or none, there is one filter for all. Returns none if the caller may see no wanted plan.
    """
    ours = sight.tenant
    if (ours and wanted.tenant not in (None, ours)) or (
        sight.repositories and wanted.repo not in (None, *sight.repositories)
    ):
        return []
    wanted = replace(wanted, tenant=ours or wanted.tenant)
    apart = sight.repositories if 0 < len(sight.repositories) <= MOST_APART else [None]
    return [replace(wanted, repo=repo) for repo in ([wanted.repo] if wanted.repo else apart)]


def rank_plans(
    doors: Context, sight: Sight, wanted: PlanFilter, by: str, limit: int, cursor: str | None
) -> queries.Page:
    """Return a page of the wanted plans that the caller sees, in an order of `plan_ranks`. Raises WrongCursor.

    The newest `plan_ranks.MOST_RANKED` plans of each visible repository are compared. A cursor is a number of plans.
    """
    if not (cursor is None or (cursor.isascii() and cursor.isdigit() and len(cursor) < MAX_DIGITS)):
        raise WrongCursor
    first, places = int(cursor or 0), dict[str, plan_ranks.Place]()
    for each in _apart(sight, wanted):
        places |= plan_ranks.rank(doors.client, doors.partitions, each, by)
    ranked = sorted(places, key=places.__getitem__)
    items: list[PlanSummary] = []
    end = first
    while len(items) < limit and end < len(ranked):
        some = ranked[end : end + limit - len(items)]
        end += len(some)
        items += filter(partial(_sees, sight), queries.read_summaries(doors.client, doors.partitions, some, wanted))
    return queries.Page(items, str(end) if end < len(ranked) else None)


def _sees(sight: Sight, plan: PlanSummary) -> bool:
    return sight.reaches(plan.tenant, plan.repo)


def _merged(pages: list[queries.Page], limit: int) -> queries.Page:
    """Merge pages of several lists into one: the newest plans, up to the point where every list was read."""
    if len(pages) == 1:
        return pages[0]
    ends = [Place.read(page.next_cursor) for page in pages if page.next_cursor]
    read_to = max(ends, default=None)
    found = {_place_of(plan): plan for page in pages for plan in page.items}
    places = sorted((place for place in found if read_to is None or place >= read_to), reverse=True)
    end = places[limit - 1] if len(places) > limit else read_to
    return queries.Page([found[place] for place in places[:limit]], end.cursor() if end else None)


def _without_others(page: queries.Page) -> queries.Page:
    """Replace the plan in the cursor by its time, so that the cursor names no plan of other callers.

    The next page reads few plans again because of that.
    """
    if not page.next_cursor:
        return page
    newest = Place(Place.read(page.next_cursor).created, NEWEST_ID)
    return page._replace(next_cursor=min([newest, *map(_place_of, page.items[-1:])]).cursor())


def _place_of(plan: PlanSummary) -> Place:
    return Place(milliseconds(datetime.fromisoformat(plan.created_at)), plan.plan_id)


def count_states(
    doors: Context, sight: Sight, tenant: str | None = None, repo: str | None = None
) -> dict[str, int] | None:
    """Return the number of visible plans in each state, of one tenant and repository if they are named.

    None if it cannot be known, or would take too long.
    """
    ours, theirs = sight.tenant, sight.repositories
    if (ours and tenant not in (None, ours)) or (theirs and repo and repo not in theirs):
        return {}
    whose = [lifecycle.of_tenant(name)] if (name := ours or tenant) else []
    repositories = [repo] if repo else theirs or [None]
    among = [[*whose, *([lifecycle.of_repository(each)] if each else [])] for each in repositories]
    return plan_lists.count_states(doors.client, doors.partitions, among)
