"""Renders templates as HTML: every text is escaped, after its control characters are removed."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from redis.exceptions import RedisError

from schemas.api_key import ApiKey
from schemas.base import PlanState
from schemas.plan import BudgetLine, PlanSummary, StepView
from schemas.times import rfc3339
from tasks.policy.pre_steps import names_mend
from worker.gateway.access import Access, Doors
from worker.gateway.cookies import session_in
from worker.gateway.page.static_files import address_of
from worker.gateway.problems import UNAUTHORIZED, Refusal, refusal_of
from worker.gateway.routes.fleet import FLEET_RIGHTS
from worker.render.plan import look_of, shown_state, span
from worker.store import page_sessions

PLAN_MARKS = {  # in addition to the colour, which not every user can see
    PlanState.COMPLETED: "✔",
    PlanState.EXECUTING: "▶",
    PlanState.REVISING: "↻",
    PlanState.HALTED: "■",
    PlanState.REJECTED: "✘",
}
OTHER_PLAN = "○"
SCARCE = 0.6  # a list shows a budget from this share on
CODE = re.compile(r"`([^`\n]+)`")
KEPT = "\n\t"  # control characters that remain
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "same-origin",  # with `no-referrer` browsers name no origin when a form is sent
    "Vary": "Cookie, Authorization",
}
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def shown(value: Any) -> Any:
    """Return a text without invisible characters: those that control terminals or change the direction of writing."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return "" if value is None else value
    return "".join(
        letter if letter.isprintable() or letter in KEPT else "\N{REPLACEMENT CHARACTER}" for letter in value
    )


def share(part: float, whole: float | None) -> float:
    """Return `part` in percent of `whole`, at most 100; 0 if `whole` is None or 0."""
    return round(min(100.0, 100 * part / whole), 2) if whole else 0


def held(line: BudgetLine) -> float:
    """Return the amount that attempts in flight reserve, in percent of a budget's limit."""
    return min(share(line.reserved, line.limit), 100 - share(line.spent, line.limit))


def query(values: Mapping[str, Any], **changed: Any) -> str:
    """Return a query string of `values`, changed as in `changed`; None values are left out."""
    pairs = {name: value for name, value in {**values, **changed}.items() if value is not None}
    return f"?{urlencode(pairs)}" if pairs else "?"


def scarce(plan: PlanSummary) -> Iterator[tuple[str, BudgetLine]]:
    """Yield each budget, except tokens, that a live plan has mostly used: its name and its amounts."""
    for name, line in plan.budget if plan.ended_at is None else ():
        if name != "tokens" and line.limit and line.spent + line.reserved >= SCARCE * line.limit:
            yield name.removesuffix("_s").replace("_", " "), line


def took(plan: PlanSummary) -> int | None:
    """Return the seconds from the creation of a plan to its end; None while it runs."""
    if not plan.ended_at:
        return None
    return int((datetime.fromisoformat(plan.ended_at) - datetime.fromisoformat(plan.created_at)).total_seconds())


def asked_of(question: str) -> str:
    """Return a question without its hint for answers at a terminal."""
    return question.partition(" Then: planner ")[0]


def is_mend(step: StepView) -> bool:
    """Return whether a step was inserted to repair failures that another step found."""
    return bool(step.inserted_by) and names_mend(step.step_id)


def coded(text: Any) -> Markup:
    """Return HTML with the parts between backticks as code; all of the text is escaped first."""
    return Markup(CODE.sub(r"<code>\1</code>", str(escape(shown(text)))))  # noqa: S704 (escaped)


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("worker.gateway.page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["coded"] = coded
    made.globals |= {
        "address_of": address_of,
        "asked_of": asked_of,
        "at": rfc3339,
        "held": held,
        "is_mend": is_mend,
        "is_mended": lambda put_before: any(map(names_mend, put_before)),
        "plan_mark": lambda state: PLAN_MARKS.get(state, OTHER_PLAN),
        "query": query,
        "scarce": scarce,
        "share": share,
        "span": span,
        "step_mark": lambda state, told="": look_of(state, told)[0],
        "shown_state": shown_state,
        "took": took,
    }
    return made


ENVIRONMENT = _environment()


def fragment(template: str, **values: Any) -> Markup:
    """Render a part of a page that is the same for everyone who may see it, with any key or session."""
    return Markup(ENVIRONMENT.get_template(template).render(**values))  # noqa: S704 (a template's, which escapes)


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page for the caller of this request, if the caller is known."""
    caller: Access | None = getattr(request.state, "caller", None)
    key: ApiKey | None = caller.key if caller else None
    session = session_in(request) if caller else None
    body = ENVIRONMENT.get_template(template).render(
        key=key,
        csrf=page_sessions.csrf_of(session) if session else None,
        path=request.url.path,
        since=getattr(request.state, "since", None),
        may_see_fleet=bool(key and any(key.may(right) for right in FLEET_RIGHTS)),
        **values,
    )
    return HTMLResponse(body, status, HEADERS)


async def note_position(request: Request, doors: Doors) -> None:
    """Note the current position of events for the page, so that its script asks only for later events."""
    request.state.since = (await doors.hub.position()).encode()


class PageRoute(APIRoute):
    """A route that answers with HTML, also for refusals. A caller who is not signed in gets the sign-in form."""

    def get_route_handler(self) -> Handler:
        """Return the handler of a request."""
        answer = super().get_route_handler()

        async def _answer(request: Request) -> Response:
            try:
                return await answer(request)
            except Refusal as refusal:
                return refused(request, refusal)
            except RedisError as error:
                return refused(request, refusal_of(error))
            except RequestValidationError:
                return refused(request, Refusal("invalid_request", "A parameter of this address is not valid.", 422))

        return _answer


def refused(request: Request, refusal: Refusal) -> Response:
    """Return a page with the reason of a refusal, or the form for a key."""
    problem = refusal.problem
    if problem.status == UNAUTHORIZED:
        was_signed_in = session_in(request)
        return sign_in(request, "You were signed out: the session or its key is over." if was_signed_in else None)
    response = render(request, "refusal.html", problem.status or 500, problem=problem)
    if refusal.retry_after_s is not None:
        response.headers["Retry-After"] = str(refusal.retry_after_s)
    return response


def sign_in(request: Request, error: str | None, wanted: str | None = None) -> Response:
    """Return the form for a key, which leads to `wanted` or back to the requested page."""
    query = f"?{request.url.query}" if request.url.query else ""
    here = request.url.path + query if request.method == "GET" else "/"
    response = render(request, "sign_in.html", UNAUTHORIZED, error=error, wanted=wanted or here)
    response.headers["WWW-Authenticate"] = "Bearer"
    return response
