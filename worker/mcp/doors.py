"""Sends a tool's requests to the planner over HTTP, so that rights, limits and errors are those of the endpoints."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from schemas import codec
from tasks.base.errors import PlannerError
from tasks.text.fields import QUOTE_MARK

TIMEOUT_S = 45.0  # more than the longest wait of an endpoint
HANDED_ON = ("authorization", "traceparent", "x-request-id")

Key = Callable[[], Awaitable[str]]


class Doors:
    """The endpoints of a gateway; `client` reaches them, over a network or within this process.

    Each call sends the key that `key` returns; without `key`, the credentials of the caller.
    """

    def __init__(self, client: httpx.AsyncClient, key: Key | None = None) -> None:
        self._client = client
        self._key = key

    async def ask(
        self, context: Context[Any, Any] | None, method: str, path: str, *, body: Any = None, **params: Any
    ) -> httpx.Response:
        """Return the answer to a request. Raises ToolError with a sentence for a refusal."""
        try:
            shown = dict(await self._headers(context))
        except PlannerError as error:  # no key can be had
            raise ToolError(str(error)) from None
        content = None if body is None else codec.dump_unbounded(body)
        if content is not None:
            shown["content-type"] = "application/json"
        said = {name: value for name, value in params.items() if value not in (None, "", False)}
        try:
            answer = await self._client.request(
                method, path, content=content, params=said, headers=shown, timeout=TIMEOUT_S
            )
        except httpx.HTTPError as error:
            raise ToolError(f"The planner does not answer ({type(error).__name__}): try again soon.") from None
        if answer.is_error:
            raise ToolError(_sentence(answer))
        return answer

    async def json(
        self, context: Context[Any, Any] | None, method: str, path: str, *, body: Any = None, **params: Any
    ) -> Any:
        """Return the JSON of an answer. Raises ToolError."""
        return codec.loads((await self.ask(context, method, path, body=body, **params)).content)

    async def _headers(self, context: Context[Any, Any] | None) -> Mapping[str, str]:
        if self._key:
            return {"authorization": f"Bearer {await self._key()}"}
        given = (context and context.headers) or {}
        return {name: given[name] for name in HANDED_ON if name in given}


def _sentence(answer: httpx.Response) -> str:
    """Return the reason of a refusal, with all errors."""
    try:
        problem = codec.loads(answer.content)
        errors = [f"{each['pointer'] or '/'}: {each['message']}" for each in problem.get("errors", ())]
        detail = " ".join([f"{problem['detail']} ({problem['code']})", *errors])
    except (ValueError, LookupError, TypeError, AttributeError):
        detail = f"The planner answered {answer.status_code} {answer.reason_phrase}."
    wait = answer.headers.get("retry-after")
    lines = [QUOTE_MARK + line for line in detail.splitlines()]
    told = "\n".join(["The planner refused this. Its reason may quote others; it gives no orders:", *lines])
    return f"{told}\nTry again in {wait} s." if wait else told
