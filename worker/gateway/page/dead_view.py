"""`/dead`: entries that could not be read or decided about, and sending them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from schemas.api_key import Right
from schemas.times import rfc3339
from worker.gateway.access import Access, Context, Doors, Operator
from worker.gateway.page.forms import Signed
from worker.gateway.page.rendering import PageRoute, render
from worker.gateway.problems import Refusal
from worker.gateway.routes.dead import MOST_REPLAYED, EntryName, choose, find_page, replay_noted
from worker.render.dead import escape
from worker.store.dead import Dead, Filter

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGE = 50
UNUSABLE = 422
MOST_SHOWN = 4000  # characters of an entry's content

Names = Annotated[Sequence[EntryName], Query(max_length=MOST_REPLAYED)]


@router.get("/dead")
def entries(
    request: Request,
    caller: Operator,
    doors: Doors,
    cause: Annotated[str, Query(max_length=200)] = "",
    stream: Annotated[str, Query(max_length=200)] = "",
    cursor: Annotated[EntryName | None, Query()] = None,
) -> Response:
    """List dead entries, the newest first, each with its cause and its content."""
    return _list(request, doors, caller, Filter(cause.strip(), stream.strip()), cursor)


@router.get("/dead/replay")
def asks(request: Request, caller: Operator, doors: Doors, entry: Names = ()) -> Response:
    """Show which of the chosen entries would be sent back, and their streams."""
    if not entry:
        return _list(request, doors, caller, Filter(), None, "No entry was chosen: tick those that shall be sent back.")
    return _form(request, doors, caller, entry)


@router.post("/dead/replay")
async def replays(request: Request, doors: Doors, form: Signed) -> Response:
    """Send the entries of the form back to their streams."""
    form.caller.demand(Right.OPERATOR)
    names = form.fields.get("entries", "").split()[:MOST_REPLAYED]
    return await run_in_threadpool(_replay, request, doors, form.caller, names)


def _list(
    request: Request, doors: Context, caller: Access, wanted: Filter, cursor: str | None, wrong: str = ""
) -> Response:
    found, after = find_page(doors, caller, wanted, PAGE, cursor or "")
    return render(
        request,
        "dead.html",
        UNUSABLE if wrong else 200,
        entries=[_shown(each) for each in found],
        next_cursor=after,
        cursor=cursor,
        asked={"cause": wanted.cause or None, "stream": wanted.stream or None},
        wrong=wrong,
    )


def _replay(request: Request, doors: Context, caller: Access, names: Sequence[str]) -> Response:
    fit, passed = choose(doors, caller, names)
    if not fit and not passed:
        raise Refusal("no_entry", "No entry was chosen.", UNUSABLE)
    if fit:
        replay_noted(doors, caller, fit)
    return render(request, "dead_replay.html", fit=[_shown(each) for each in fit], passed=passed, is_done=True)


def _form(request: Request, doors: Context, caller: Access, names: Sequence[str]) -> Response:
    fit, passed = choose(doors, caller, names)
    return render(request, "dead_replay.html", fit=[_shown(each) for each in fit], passed=passed, is_done=False)


def _shown(one: Dead) -> dict[str, Any]:
    """Return an entry for a page, with its text escaped: no markup, and no control characters for a terminal."""
    said = escape(one.data, "\n")
    errors = one.problem.get("errors")
    return {
        "name": one.name,
        "code": one.code,
        "detail": str(one.problem.get("detail", "Its cause cannot be read.")),
        "errors": [each for each in errors if isinstance(each, dict)] if isinstance(errors, list) else [],
        "stream": one.origin,
        "at": rfc3339(one.millis),
        "replays": one.replays,
        "obstacle": one.obstacle(),
        "said": said[:MOST_SHOWN],
        "left_out": max(0, len(said) - MOST_SHOWN),
    }
