"""The session cookie of the page. Over TLS the browser sends it only by TLS, and no neighbouring host can set it."""

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
    """Set the session cookie in the browser for `seconds`; an empty `session` for 0 s removes the cookie."""
    is_secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
    name = SECURE if is_secure else PLAIN
    response.set_cookie(name, session, seconds, secure=is_secure, httponly=True, samesite="lax")
