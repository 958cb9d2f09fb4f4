"""`/`: the list of plans, filtered by its address, before it those that wait for a person."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field, ValidationError

from schemas.base import GoalKind, Name, PlanState, Word
from schemas.plan import PlanSummary
from worker.gateway.access import Access
from worker.gateway.context import Context, Doors
from worker.gateway.page.rendering import render
from worker.gateway.page.route import PageRoute
from worker.gateway.parameters import MOST_ITEMS, PAGE, Moment
from worker.gateway.visible import PlanReader, count_states, list_plans
from worker.store.plan_lists import PlanFilter, WrongCursor

router = APIRouter(route_class=PageRoute, include_in_schema=False)

MOST_WAITING = 6  # of the plans that wait for a person, before the list
PERIODS = {"1h": "last hour", "1d": "last day", "7d": "last 7 days", "30d": "last 30 days"}
UNUSABLE = 422


class ListQuery(BaseModel):
    """What the address of the list asks for."""

    state: PlanState | None = None
    kind: GoalKind | None = None
    repo: Name | None = None
    tenant: Name | None = None
    rule: Word | None = None
    waiting: bool = False
    since: Moment | None = None
    until: Moment | None = None
    id_prefix: str = Field("", max_length=64)
    limit: int = Field(PAGE, ge=1, le=MOST_ITEMS)
    cursor: str | None = None

    @property
    def wanted(self) -> PlanFilter:
        """The plans that are asked for."""
        return PlanFilter(**self.model_dump(exclude={"limit", "cursor"}))


class Listed(NamedTuple):
    """What the list shows."""

    items: list[PlanSummary]
    next_cursor: str | None
    waiting: list[PlanSummary]
    more_wait: bool
    counts: dict[str, int] | None


@router.get("/")
def plans(request: Request, caller: PlanReader, doors: Doors) -> Response:
    """List plans, the newest first; of several filters each must hold."""
    asked = {name: value for name, value in request.query_params.items() if value and name in ListQuery.model_fields}
    try:
        found, errors = _find(doors, caller, ListQuery.model_validate(asked), filters=asked), {}
    except ValidationError as error:
        found, errors = (
            None,
            {str(each["loc"][0]): each["msg"].removeprefix("Value error, ") for each in error.errors()},
        )
    except WrongCursor:
        found, errors = None, {"cursor": "this is no place in the list"}
    return render(
        request,
        "plans.html",
        UNUSABLE if errors else 200,
        asked=asked,
        chosen={**dict.fromkeys(ListQuery.model_fields), **asked},
        errors=errors,
        found=found,
        states=list(PlanState),
        kinds=list(GoalKind),
        periods=PERIODS,
    )


def _find(doors: Context, caller: Access, asked: ListQuery, filters: dict[str, Any]) -> Listed:
    found = list_plans(doors, caller, asked.wanted, asked.limit, asked.cursor)
    waiting: list[PlanSummary] = []
    more_wait = False
    if not filters:
        page = list_plans(doors, caller, PlanFilter(waiting=True), MOST_WAITING, None)
        waiting, more_wait = page.items, page.next_cursor is not None
    return Listed(found.items, found.next_cursor, waiting, more_wait, count_states(doors, caller))
