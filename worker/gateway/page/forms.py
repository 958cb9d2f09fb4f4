"""Forms that the page sends: their fields and files, and the proof that a page of ours sent them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Annotated, NamedTuple
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from worker.gateway.access import NO_KEY, Access, Context, Credentials, Doors
from worker.gateway.bodies import MAX_FORM_BYTES
from worker.gateway.cookies import session_in
from worker.gateway.problems import Refusal
from worker.gateway.shares import Kind
from worker.store import page_sessions

MEDIA_TYPE = "application/x-www-form-urlencoded"
WITH_FILES = "multipart/form-data"
MOST_FIELDS = 50

Fields = Mapping[str, str]
NO_FILES: Mapping[str, bytes] = MappingProxyType({})


class Form(NamedTuple):
    """The fields of a form and its sender; `files` has the content of each file that is not empty, by field name."""

    fields: Fields
    caller: Access
    session: str
    files: Mapping[str, bytes] = NO_FILES


async def read_fields(request: Request) -> Fields:
    """Read the fields of a form that a page of this site sent.

    The guard has already refused foreign origins. Raises Refusal 403 if the browser names no origin, 415 for a wrong
    media type, and 422 for an unreadable form.
    """
    _demand(request, MEDIA_TYPE)
    try:
        body = (await request.body()).decode()
        pairs = parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        raise _unreadable() from None
    return dict(pairs)


class Upload(NamedTuple):
    """The fields and the files of a form."""

    fields: Fields
    files: Mapping[str, bytes]


async def read_upload(request: Request) -> Upload:
    """Read a form that has files, which stay in memory; raises Refusal as `read_fields` does."""
    _demand(request, WITH_FILES)
    limits = {"max_files": 1, "max_fields": MOST_FIELDS, "max_part_size": MAX_FORM_BYTES}
    try:
        parser = MultiPartParser(request.headers, request.stream(), **limits)
        parser.spool_max_size = MAX_FORM_BYTES
        form = await parser.parse()
    except (MultiPartException, KeyError, ValueError):  # KeyError: no boundary
        raise _unreadable() from None
    items = form.multi_items()
    fields = {name: value for name, value in items if isinstance(value, str)}
    files = {name: await value.read() for name, value in items if isinstance(value, UploadFile)}
    await form.close()
    return Upload(fields, {name: body for name, body in files.items() if body})


def _unreadable() -> Refusal:
    return Refusal("invalid_form", "The form cannot be read.", 422)


def _demand(request: Request, media_type: str) -> None:
    if "origin" not in request.headers and request.headers.get("sec-fetch-site") != "same-origin":
        raise Refusal("foreign_origin", "Forms are taken from the pages of this site alone.", 403)
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != media_type:
        raise Refusal("wrong_media_type", f"A form comes as {media_type}.", 415)


async def _form(request: Request, doors: Doors, fields: Annotated[Fields, Depends(read_fields)]) -> AsyncIterator[Form]:
    async with _signed(request, doors, Upload(fields, NO_FILES)) as form:
        yield form


async def _form_with_files(
    request: Request, doors: Doors, said: Annotated[Upload, Depends(read_upload)]
) -> AsyncIterator[Form]:
    async with _signed(request, doors, said) as form:
        yield form


@asynccontextmanager
async def _signed(request: Request, doors: Context, said: Upload) -> AsyncIterator[Form]:
    """Yield a form with its signed-in sender, who occupies a share of the gateway until the answer has ended.

    Raises Refusal 401 without a valid session, and 403 if another session's page made the form.
    """
    session = session_in(request)
    if session is None:
        raise Refusal("no_key", NO_KEY, 401)
    if not page_sessions.is_csrf(session, said.fields.get("csrf", "")):
        raise Refusal("foreign_form", "This form is not of your session: open the page again and repeat it.", 403)
    caller = await doors.checks.find(Credentials(session=session))
    request.state.caller = caller
    async with doors.shares.held(Kind.REQUESTS, caller.key):
        yield Form(said.fields, caller, session, said.files)


Signed = Annotated[Form, Depends(_form)]
SignedUpload = Annotated[Form, Depends(_form_with_files)]
