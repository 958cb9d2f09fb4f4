"""Signing in on the page with a key, and out again."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse
from starlette.concurrency import run_in_threadpool

from worker.gateway.access import ORIGIN, Context, Doors, caller_of
from worker.gateway.cookies import set_session
from worker.gateway.page.forms import Fields, Signed, read_fields
from worker.gateway.page.rendering import HEADERS, PageRoute, sign_in
from worker.gateway.problems import UNAUTHORIZED, Refusal
from worker.gateway.visible import READ_RIGHTS
from worker.store import api_keys, audit, page_sessions
from worker.store.audit import Act

router = APIRouter(route_class=PageRoute, include_in_schema=False)

SEE_OTHER, FORBIDDEN = 303, 403
REFUSED = (UNAUTHORIZED, FORBIDDEN)


@router.post("/sign-in")
async def signs_in(request: Request, doors: Doors, fields: Annotated[Fields, Depends(read_fields)]) -> Response:
    """Begin a session for a key that may look at plans, and lead to the page that was asked for."""
    wanted = _path(fields.get("wanted", ""))
    try:
        session = await run_in_threadpool(_begin, doors, fields.get("key", "").strip())
    except Refusal as refusal:
        if refusal.problem.status in REFUSED:
            request.state.refused = refusal.problem
            return sign_in(request, refusal.problem.detail, wanted)
        raise
    response = RedirectResponse(wanted, SEE_OTHER, HEADERS)
    set_session(request, response, session, page_sessions.SESSION_S)
    return response


def _begin(doors: Context, token: str) -> str:
    shown = api_keys.read_token(token)
    caller = caller_of(doors.client, token)
    caller.demand(*READ_RIGHTS)
    assert shown  # noqa: S101 (the caller was found by it)
    session = page_sessions.begin(doors.client, shown)
    audit.note(doors.client, Act("sign-in", caller.key.called, ORIGIN.get(), "the page"))
    return session


@router.post("/sign-out")
def signs_out(request: Request, form: Signed, doors: Doors) -> Response:
    """End the session."""
    page_sessions.end(doors.client, form.session)
    response = RedirectResponse("/", SEE_OTHER, HEADERS)
    set_session(request, response, "", 0)
    return response


def _path(wanted: str) -> str:
    """Return a path of this site; `//host` and `/\\host` would lead to another one."""
    is_ours = wanted.startswith("/") and not wanted.startswith(("//", "/\\")) and wanted.isprintable()
    return wanted if is_ours and wanted.isascii() else "/"
