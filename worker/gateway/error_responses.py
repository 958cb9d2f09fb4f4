"""Responses to refused and failed requests: a page for browsers, a problem document (RFC 9457) for other clients."""

from __future__ import annotations

from contextlib import suppress

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from worker.gateway.access import Credentials
from worker.gateway.cookies import session_in
from worker.gateway.page.rendering import refused
from worker.gateway.problems import Refusal, respond

HEALTH = frozenset({"/healthz", "/readyz"})  # requested by address, by the supervisor of this process
POLLED = HEALTH | {"/metrics", "/v1/steps:claim", "/v1/steps:heartbeat"}
MCP = "/mcp"
UNAVAILABLE = 503
FAILED = "The gateway failed. Its log has the reason under the id of this request."
FOR_PEOPLE = {  # text of a page by the code of a problem that has only a status
    "not_found": "There is no page at this address.",
    "no_such_method": "This address takes a form; there is nothing to look at.",
}


async def tell(scope: Scope, refusal: Refusal) -> Response:
    """Return the response to a refusal: a page for a browser, else a problem document."""
    scope.setdefault("state", {})["refused"] = refusal.problem
    if not asks_for_page(scope):
        return respond(refusal.problem, refusal.retry_after_s)
    problem = refusal.problem
    if said := FOR_PEOPLE.get(problem.code):
        refusal = Refusal(problem.code, said, problem.status)
    request = Request(scope)
    if problem.status != UNAVAILABLE:  # at 503 no key can be looked up
        await _recognize(request)
    return refused(request, refusal)


async def _recognize(request: Request) -> None:
    """Find the session's caller for a request without a route, so that the error page has navigation.

    This look-up does not count against the rate of the key.
    """
    session, app = session_in(request), request.scope.get("app")
    if session and app is not None and not hasattr(request.state, "caller"):
        with suppress(Refusal):
            request.state.caller = await app.state.context.checks.find(Credentials(session=session, counts=False))


async def tell_failure(scope: Scope) -> Response:
    """Return the response to an internal error: a problem document if the page cannot be made."""
    failure = Refusal("internal_error", FAILED, 500)
    try:
        return await tell(scope, failure)
    except Exception:  # the first failure was reported, and its caller needs an answer
        return respond(failure.problem)


def asks_for_page(scope: Scope) -> bool:
    """Return whether the client is a browser, by path and `Accept` header."""
    is_page = not scope["path"].startswith(("/v1/", MCP)) and scope["path"] not in POLLED
    return is_page and "text/html" in Headers(scope=scope).get("accept", "")
