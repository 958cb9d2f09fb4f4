"""`/`: the list of plans, filtered by its query, with the plans that wait for a person at the top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from markupsafe import Markup
from pydantic import BaseModel, Field, ValidationError
from redis.exceptions import NoPermissionError

from schemas import codec
from schemas.api_key import Right
from schemas.base import GoalKind, Name, PlanState, Word
from schemas.delivered import DeliveryState
from schemas.plan import PlanSummary, StandingStill
from schemas.wording import expected
from worker.gateway.access import Access, Context, Doors, Sight
from worker.gateway.broadcast import SHORTEST_S, Broadcasts
from worker.gateway.event_streams import STREAM_HEADERS, Event
from worker.gateway.page.rendering import PageRoute, fragment, render
from worker.gateway.responses import MOST_ITEMS, PAGE, Moment
from worker.gateway.visible import PlanReader, count_states, list_plans, rank_plans
from worker.render.review import ToReview, to_review
from worker.store.plan_lists import PlanFilter, WrongCursor
from worker.store.plan_ranks import MOST_AT_WORK, MOST_RANKED
from worker.store.standing_still import find_standing_still
from worker.store.step_activity import controllers_of, read_activities

router = APIRouter(route_class=PageRoute, include_in_schema=False)

MOST_WAITING = 6  # of the plans that wait for a person, before the list
LOOKED_AT = 50  # of the plans that were completed last, for those that wait for a review
PERIODS = {"1h": "last hour", "1d": "last day", "7d": "last 7 days", "30d": "last 30 days"}
UNUSABLE = 422
FIGURES_S = 3.0  # from one list to the next where only the figures of plans have moved: a long list costs 28 ms
PACES = {  # s from one list to the next, by an event's type or its first word
    "plan": SHORTEST_S,
    "step.approval_requested": SHORTEST_S,
    "command.obeyed": SHORTEST_S,
    "step": FIGURES_S,
    "outcome": FIGURES_S,
    "budget": FIGURES_S,
}
AIMED = {"state", "rule", "waiting", "since", "until", "id_prefix", "cursor"}  # filters without waiting plans on top


SORTS = {  # by the columns of the list; those of TEXTS go from A to Z
    "state": "State",
    "goal": "Goal",
    "steps": "Steps",
    "controller": "Controller",
    "tokens": "Tokens",
    "cost": "Cost",
    "took": "Took",
    "made": "Age",
}
TEXTS = ("state", "goal", "controller")
STILLS = {  # the reason why nothing moves -> its words in a row
    "no_controller": "no controller",
    "handed_back": "handed back",
    "paused": "",
    "breaker": "breaker open",
    "person": "needs a person",
    "files": "waits for files",
    "drafter": "drafter asked",
    "backoff": "tried again soon",
    "review": "waits for reviews",
}
CHANGES = {  # the state of a delivered change -> its words and their colour
    DeliveryState.DELIVERABLE: ("waits for room", ""),
    DeliveryState.OPEN: ("open", "blue"),
    DeliveryState.CHECKS_RED: ("checks red", "red"),
    DeliveryState.CHANGES_ASKED: ("changes asked", "amber"),
    DeliveryState.MERGED: ("merged", "green"),
    DeliveryState.CLOSED: ("closed", ""),
    DeliveryState.REVERTED: ("reverted", "red"),
}


class ListQuery(BaseModel):
    """The filters in the address of the list."""

    state: PlanState | None = None
    kind: GoalKind | None = None
    repo: Name | None = None
    tenant: Name | None = None
    rule: Word | None = None
    waiting: bool = False
    since: Moment | None = None
    until: Moment | None = None
    id_prefix: str = Field("", max_length=64)
    text: str = Field("", max_length=200)
    limit: int = Field(PAGE, ge=1, le=MOST_ITEMS)
    cursor: str | None = None
    sort: Literal["state", "goal", "steps", "controller", "tokens", "cost", "took"] | None = None

    @property
    def wanted(self) -> PlanFilter:
        """The filter that the query describes."""
        return PlanFilter(**self.model_dump(exclude={"limit", "cursor", "sort"}))


class Doing(NamedTuple):
    """The controllers that work on a plan, or the reason why none does."""

    controllers: tuple[str, ...]
    standing_still: StandingStill | None


def tell_doing(doors: Context, plans: Sequence[PlanSummary]) -> dict[str, Doing]:
    """Return who works on each plan that has not ended, by plan id; empty if the gateway may not read this."""
    live = {plan.plan_id: plan for plan in plans if not plan.ended_at}
    try:
        known = read_activities(doors.client, doors.partitions, list(live))
    except NoPermissionError:
        return {}
    found = {}
    for plan_id, (steps, _) in known.items():
        found[plan_id] = Doing(controllers_of(steps), find_standing_still(live[plan_id], steps, None))
    return found


class Listed(NamedTuple):
    """The content of the list."""

    items: list[PlanSummary]
    next_cursor: str | None
    waiting: list[PlanSummary]
    more_wait: bool
    review: list[ToReview]  # of those who may approve: delivered changes that wait for a review, the oldest first
    counts: dict[str, int] | None
    doing: dict[str, Doing]  # of the plans that have not ended


@dataclass(frozen=True, slots=True)
class Listing:
    """The filters and the rights of a caller of the list. Together with the plans they determine the HTML."""

    sight: Sight
    may_submit: bool
    may_act: bool
    asked: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, request: Request, caller: Access) -> Listing:
        """Return the listing that a caller asks for."""
        given = request.query_params
        asked = tuple((name, given[name]) for name in ListQuery.model_fields if given.get(name))
        return cls(caller.sight, caller.key.may(Right.PRODUCER), caller.key.may(Right.OPERATOR), asked)

    def html(self, doors: Context) -> tuple[Markup, bool]:
        """Return the HTML of the list now, and whether the query was valid."""
        asked, found, errors = dict(self.asked), None, {}
        try:
            query, is_aimed = ListQuery.model_validate(asked), not AIMED.isdisjoint(asked)
            found = _find(doors, self.sight, query, is_aimed=is_aimed, reviews=self.may_act and not is_aimed)
        except ValidationError as error:
            errors = {str(each["loc"][0]): expected(each) for each in error.errors()}
        except WrongCursor:
            errors = {"cursor": "this is no place in the list"}
        html = fragment(
            "plan_list.html",
            asked=asked,
            chosen={**dict.fromkeys(ListQuery.model_fields), **asked},
            errors=errors,
            found=found,
            states=list(PlanState),
            kinds=list(GoalKind),
            periods=PERIODS,
            may_submit=self.may_submit,
            may_act=self.may_act,
            sorts=SORTS,
            texts=TEXTS,
            changes=CHANGES,
            stills=STILLS,
            of_tenants=self.sight.tenant is None,
            most_ranked=MOST_RANKED,
            most_at_work=MOST_AT_WORK,
        )
        return html, not errors

    def frame(self, doors: Context) -> bytes:
        """Return the list as an event that updates a page."""
        return b"event: page\ndata: %b\n\n" % codec.dumps(self.html(doors)[0])

    def pace_of(self, what: str) -> float | None:
        """Return the least time in s between the last list and a new one after event type `what`; None if unchanged."""
        return PACES.get(what, PACES.get(what.partition(".")[0]))

    def is_about(self, event: Event) -> bool:
        """Return whether an event is about a plan that the caller sees."""
        told = event.data
        return self.sight.reaches(told.get("tenant") or "", told.get("repo"))


@router.get("/")
def plans(request: Request, caller: PlanReader, doors: Doors) -> Response:
    """List plans, the newest first; a plan must match all filters."""
    listing = Listing.of(request, caller)
    html, is_usable = listing.html(doors)
    return render(request, "plans.html", 200 if is_usable else UNUSABLE, html=html, asked=dict(listing.asked))


@router.get("/live")
async def live(request: Request, caller: PlanReader) -> StreamingResponse:
    """Stream the list that `/` shows for the same query, and send it again when one of its plans may have changed."""
    broadcasts: Broadcasts = request.app.state.broadcasts
    listing = Listing.of(request, caller)
    broadcasts.demand_room(listing, caller)
    frames = broadcasts.frames(listing, caller)
    return StreamingResponse(frames, media_type="text/event-stream", headers=STREAM_HEADERS)


def _find(doors: Context, sight: Sight, asked: ListQuery, *, is_aimed: bool, reviews: bool) -> Listed:
    if asked.sort:
        found = rank_plans(doors, sight, asked.wanted, asked.sort, asked.limit, asked.cursor)
    else:
        found = list_plans(doors, sight, asked.wanted, asked.limit, asked.cursor)
    waiting: list[PlanSummary] = []
    more_wait = False
    if not is_aimed:
        page = list_plans(doors, sight, replace(asked.wanted, waiting=True), MOST_WAITING, None)
        waiting, more_wait = page.items, page.next_cursor is not None
    review: list[ToReview] = []
    if reviews:
        ended = list_plans(doors, sight, replace(asked.wanted, state=PlanState.COMPLETED), LOOKED_AT, None)
        review = to_review(ended.items)
    counts = count_states(doors, sight, asked.tenant, asked.repo)
    return Listed(found.items, found.next_cursor, waiting, more_wait, review, counts, tell_doing(doors, found.items))
