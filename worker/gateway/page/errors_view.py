"""`/errors`: the cause and the solution of every error code, for people without a key too."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from schemas.envelope import ERRORS_PAGE
from schemas.error_codes import SECTIONS
from worker.gateway.page.rendering import PageRoute, render

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(ERRORS_PAGE)
def errors(request: Request) -> Response:
    """Show all error codes; the `type` of a problem is the address of its code on this page."""
    return render(request, "errors.html", sections=SECTIONS)
