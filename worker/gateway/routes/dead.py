"""`/v1/dead`: entries that could not be read or decided about, listed and sent back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field, StringConstraints

from schemas.base import Inbound, Outbound, Word
from schemas.times import milliseconds
from worker.gateway.access import ORIGIN, Access, Context, Doors, Operator
from worker.gateway.responses import PAGE, Limit, Moment, json, page
from worker.gateway.routes.plans import may_see_dead
from worker.store import audit, dead
from worker.store.audit import Act
from worker.store.dead import Dead, Filter
from worker.store.queries import MOST_LOOKS

router = APIRouter(tags=["dead entries"])

EntryName = Annotated[str, StringConstraints(pattern=r"^(goals|commands|[0-9]{1,3})/[0-9]{1,15}-[0-9]{1,15}$")]
MOST_REPLAYED = 100
NO_ENTRY = "there is no such entry"


class DeadPage(Outbound):
    """Dead entries, the newest first, as `planner dead list --json` prints them, with their data as in `dead show`."""

    items: tuple[dict[str, Any], ...]
    next_cursor: str | None


class Replay(Inbound, defer_build=False):  # FastAPI builds no body that is deferred
    """Which dead entries are sent back, by their names."""

    ids: tuple[EntryName, ...] = Field(min_length=1, max_length=MOST_REPLAYED)


class Replayed(Outbound):
    """The number of entries that were sent back, and the reasons why others were not."""

    replayed: int
    passed_over: int
    reasons: tuple[dict[str, str], ...]


@router.get("/v1/dead", response_model=DeadPage)
def entries(
    caller: Operator,
    doors: Doors,
    cause: Annotated[Word | None, Query(description="Only those of this cause, such as invalid_json.")] = None,
    stream: Annotated[Word | None, Query(description="Only these: goals, outcomes, commands, a partition.")] = None,
    since: Annotated[Moment | None, Query(description="Only younger ones.")] = None,
    include: Annotated[Literal["data"] | None, Query(description="`data` adds the entries themselves.")] = None,
    limit: Limit = PAGE,
    cursor: Annotated[EntryName | None, Query(description="`next_cursor` of the page before.")] = None,
) -> Response:
    """List dead entries, the newest first. A page with a next one may be short."""
    wanted = Filter(cause or "", stream or "", max(0, milliseconds(since)) if since else 0)
    found, last = find_page(doors, caller, wanted, limit, cursor or "")
    return page([one.document(body=include is not None) for one in found], last)


def find_page(doors: Context, caller: Access, wanted: Filter, limit: int, after: str) -> tuple[list[Dead], str | None]:
    """Return the caller's dead entries after the one named `after`, and the name that the next page starts after."""
    younger = Filter(since_ms=wanted.since_ms)  # what else is wanted is asked here: each entry read is a look
    found: list[Dead] = []
    last = ""
    for looks, one in enumerate(dead.newest(doors.client, doors.partitions, younger, after)):
        if len(found) == limit or looks == MOST_LOOKS:
            return found, last
        last = one.name
        if wanted.fits(one) and may_see_dead(doors, caller, one):
            found.append(one)
    return found, None


@router.post("/v1/dead:replay", response_model=Replayed)
def replay(caller: Operator, doors: Doors, wanted: Replay) -> Response:
    """Send dead entries back to the streams that they came from."""
    fit, passed = choose(doors, caller, wanted.ids)
    if fit:
        replay_noted(doors, caller, fit)
    reasons = tuple({"entry": name, "reason": why} for name, why in passed.items())
    return json(Replayed(replayed=len(fit), passed_over=len(passed), reasons=reasons))


def replay_noted(doors: Context, caller: Access, fit: Sequence[Dead]) -> None:
    """Replay entries, and record it in the audit log."""
    dead.replay(doors.client, fit)
    about = ", ".join(one.name for one in fit)
    audit.note(doors.client, Act("dead entries sent back", caller.key.called, ORIGIN.get(), about))


def choose(doors: Context, caller: Access, names: Iterable[str]) -> tuple[list[Dead], dict[str, str]]:
    """Return the named entries that can be replayed, and by name the reasons why others cannot."""
    fit: list[Dead] = []
    passed: dict[str, str] = {}
    for name in dict.fromkeys(names):
        one = _find(doors, caller, name)
        if why := one.obstacle() if one else NO_ENTRY:
            passed[name] = why
        elif one:
            fit.append(one)
    return fit, passed


def _find(doors: Context, caller: Access, name: str) -> Dead | None:
    one = dead.find(doors.client, doors.partitions, name)
    return one if one and may_see_dead(doors, caller, one) else None
