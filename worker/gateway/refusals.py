"""Records refused requests in the audit log: the first ones of each minute, and the number of all others."""

from __future__ import annotations

import logging
import time

from redis import Redis
from redis.exceptions import RedisError
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import Scope

from worker.gateway.access import ORIGIN
from worker.gateway.problems import UNAUTHORIZED
from worker.store import api_keys, audit
from worker.store.audit import Act

log = logging.getLogger("planner.gateway")

MOST = 60  # a minute of a process
MINUTE_S = 60
FORBIDDEN = 403
NOBODY = "no_key"  # code of a request without a key, as from each browser that has not signed in


class Refusals:
    """The refusals of a process."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._minute, self._noted, self._left_out = 0, 0, 0

    async def note(self, scope: Scope) -> None:
        """Record a request in the audit log if it was refused (401, 403); without Redis, in the process's log."""
        problem = scope.get("state", {}).get("refused")
        if problem is None or problem.status not in (UNAUTHORIZED, FORBIDDEN) or problem.code == NOBODY:
            return
        minute = int(time.monotonic() // MINUTE_S)
        if minute != self._minute:
            self._minute, self._noted = minute, 0
        if self._noted >= MOST:
            self._left_out += 1
            return
        self._noted += 1
        beside = f", and {self._left_out} more were refused before" if self._left_out else ""
        self._left_out = 0
        about = getattr(scope.get("route"), "path", None) or scope["path"]
        reason = f"{problem.code}: {problem.detail}{beside}"
        act = Act(f"{scope['method']} {about}", _who(scope), ORIGIN.get(), scope["path"], audit.REFUSED, reason)
        try:
            await run_in_threadpool(audit.note, self._client, act)
        except RedisError as error:
            log.warning("not noted", extra={**act._asdict(), "error": type(error).__name__})


def _who(scope: Scope) -> str:
    """Return the refused caller: the name of a valid key, or the key id that came with a wrong secret."""
    caller = scope.get("state", {}).get("caller")
    if caller:
        return str(caller.key.called)
    shown = api_keys.read_token(Headers(scope=scope).get("authorization", "").partition(" ")[2].strip())
    return f"a caller with a wrong secret of key {shown.key_id[:32]}" if shown else "an unknown caller"
