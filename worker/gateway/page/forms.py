"""Forms that the page sends: their fields, and the proof that a page of ours sent them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from worker.gateway.access import NO_KEY, SESSION_COOKIE, Access, caller_in_session
from worker.gateway.context import Doors
from worker.gateway.problems import Refusal
from worker.store import page_sessions

MEDIA_TYPE = "application/x-www-form-urlencoded"
MOST_FIELDS = 50

Fields = Mapping[str, str]


class Form(NamedTuple):
    """The fields of a form, and who sent it."""

    fields: Fields
    caller: Access
    session: str


async def read_fields(request: Request) -> Fields:
    """Read the fields of a form that a page of this site sent.

    The guard has refused origins that are not ours. Raises Refusal 403 where a browser names none, 415 and 422.
    """
    if "origin" not in request.headers and request.headers.get("sec-fetch-site") != "same-origin":
        raise Refusal("foreign_origin", "Forms are taken from the pages of this site alone.", 403)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != MEDIA_TYPE:
        raise Refusal("wrong_media_type", f"A form comes as {MEDIA_TYPE}.", 415)
    try:
        body = (await request.body()).decode()
        pairs = parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise Refusal("invalid_form", "The form cannot be read.", 422) from None
    return dict(pairs)


async def _form(request: Request, doors: Doors, fields: Annotated[Fields, Depends(read_fields)]) -> Form:
    session = request.cookies.get(SESSION_COOKIE)
    if session is None:
        raise Refusal("no_key", NO_KEY, 401)
    if not page_sessions.is_csrf(session, fields.get("csrf", "")):
        raise Refusal("foreign_form", "This form is not of your session: open the page anew and try again.", 403)
    caller = await run_in_threadpool(caller_in_session, doors.client, session)
    request.state.caller = caller
    return Form(fields, caller, session)


Signed = Annotated[Form, Depends(_form)]
