"""The cookie of the page's sessions: over TLS it never leaves by another way, and no neighbour of the host sets it."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.responses import Response

PLAIN = "planner_session"  # on this machine alone, where nothing has TLS
SECURE = f"__Host-{PLAIN}"  # browsers take it with `Secure`, for `/` and this host alone


def session_in(request: HTTPConnection) -> str | None:
    """Return the session that a request's cookie has; over TLS only the `__Host-` cookie counts."""
    found = request.cookies.get(SECURE)
    return found or (None if request.url.scheme == "https" else request.cookies.get(PLAIN))


def set_session(request: HTTPConnection, response: Response, session: str, seconds: int) -> None:
    """Have the browser show a session from now on, for so long; an empty one takes it away."""
    is_secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
    name = SECURE if is_secure else PLAIN
    response.set_cookie(name, session, seconds, secure=is_secure, httponly=True, samesite="lax")
