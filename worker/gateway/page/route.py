"""Routes of the page: what other routes refuse as a problem in JSON, these tell as a page."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from redis.exceptions import RedisError

from worker.gateway.context import Doors
from worker.gateway.cookies import session_in
from worker.gateway.page.rendering import render
from worker.gateway.problems import UNAUTHORIZED, Refusal, refusal_of

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


async def note_position(request: Request, doors: Doors) -> None:
    """Note up to where events are in the page that is made: its script asks for those that come after them."""
    request.state.since = (await doors.hub.position()).encode()


class PageRoute(APIRoute):
    """A route that answers with HTML, also where it refuses; who has not signed in is asked to, at any address."""

    def get_route_handler(self) -> Handler:
        """Make what answers a request."""
        answer = super().get_route_handler()

        async def _answer(request: Request) -> Response:
            try:
                return await answer(request)
            except Refusal as refusal:
                return refused(request, refusal)
            except RedisError as error:
                return refused(request, refusal_of(error))
            except RequestValidationError:
                return refused(request, Refusal("invalid_request", "This address asks for what cannot be.", 422))

        return _answer


def refused(request: Request, refusal: Refusal) -> Response:
    """Answer with a page that says why nothing is done, or that asks for a key."""
    problem = refusal.problem
    if problem.status == UNAUTHORIZED:
        was_signed_in = session_in(request)
        return sign_in(request, "You were signed out: the session or its key is over." if was_signed_in else None)
    response = render(request, "refusal.html", problem.status or 500, problem=problem)
    if refusal.retry_after_s is not None:
        response.headers["Retry-After"] = str(refusal.retry_after_s)
    return response


def sign_in(request: Request, error: str | None, wanted: str | None = None) -> Response:
    """Answer with the form that takes a key, and leads to `wanted` or back to the page that was asked for."""
    query = f"?{request.url.query}" if request.url.query else ""
    here = request.url.path + query if request.method == "GET" else "/"
    response = render(request, "sign_in.html", UNAUTHORIZED, error=error, wanted=wanted or here)
    response.headers["WWW-Authenticate"] = "Bearer"
    return response
