"""Refusals of endpoints as application/problem+json (RFC 9457)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from redis.exceptions import OutOfMemoryError, RedisError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Scope

from schemas.envelope import FieldError, Problem, field_error
from schemas.wording import expected
from tasks.base.errors import PlannerError

MEDIA_TYPE = "application/problem+json"
CODES = {400: "bad_request", 401: "no_key", 403: "no_right", 404: "not_found", 405: "no_such_method"}
RETRY_S = 2
UNAUTHORIZED, NO_SUCH_METHOD = 401, 405


class Refusal(PlannerError):
    """An endpoint refuses a request; `problem` has the reason."""

    def __init__(
        self,
        code: str,
        detail: str,
        status: int = 422,
        errors: Sequence[FieldError] = (),
        *,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.problem = Problem.of(code, detail, tuple(errors), status)
        self.retry_after_s = retry_after_s


def refusal_of(error: RedisError) -> Refusal:
    """Return the refusal (503) for an error of Redis."""
    if isinstance(error, OutOfMemoryError):
        return Refusal("out_of_memory", "Redis takes nothing new: its memory is full.", 503, retry_after_s=RETRY_S)
    return Refusal("no_redis", "Redis does not answer: try again soon.", 503, retry_after_s=RETRY_S)


def respond(problem: Problem, retry_after_s: int | None = None) -> JSONResponse:
    """Return the response for a problem."""
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    if problem.status == UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    body = problem.model_dump(mode="json", exclude_none=True)
    return JSONResponse(body, problem.status, headers, MEDIA_TYPE)


def pointer_of(place: Sequence[Any]) -> str:
    """Return a place in a document as a JSON pointer."""
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in place)


def _methods_of(app: FastAPI, path: str) -> list[str]:
    """Return the HTTP methods that the routes at this path accept."""
    items = app.openapi()["paths"].items()
    found = {method.upper() for template, item in items if compile_path(template)[0].match(path) for method in item}
    return sorted(found)


def install(app: FastAPI, tell: Callable[[Scope, Refusal], Awaitable[Response]]) -> None:
    """Register handlers in `app`: they turn every error into a refusal, and send the response that `tell` returns."""

    @app.exception_handler(Refusal)
    async def _refusal(request: Request, error: Refusal) -> Response:
        return await tell(request.scope, error)

    @app.exception_handler(RequestValidationError)
    async def _shape(request: Request, error: RequestValidationError) -> Response:
        wrong = error.errors()
        if any(each["type"] == "json_invalid" for each in wrong):
            return await tell(request.scope, Refusal("invalid_json", "The body is no JSON.", 400))
        errors = tuple(field_error(pointer_of(each["loc"][1:]), each["type"], expected(each)) for each in wrong)
        detail = "The request has not the shape that it should have."
        return await tell(request.scope, Refusal("invalid_request", detail, errors=errors))

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        code = CODES.get(error.status_code, "refused")
        response = await tell(request.scope, Refusal(code, str(error.detail), error.status_code))
        response.headers.update(error.headers or {})
        if error.status_code == NO_SUCH_METHOD and (methods := _methods_of(app, request.url.path)):
            response.headers["Allow"] = ", ".join(methods)  # a route names its own alone
        return response

    @app.exception_handler(RedisError)
    async def _redis(request: Request, error: RedisError) -> Response:
        return await tell(request.scope, refusal_of(error))
