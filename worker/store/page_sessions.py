"""Sessions of the page in Redis: which key signed in, by a digest of what the browser shows.

A session is worth what its key is worth: whoever reads one asks whether the key still holds.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import Any

from redis import Redis

from worker.store import keys
from worker.store.api_keys import Shown

SESSION_S = 12 * 3600  # after which a person signs in again
TOKEN_BYTES = 32
MOST_CHARS = 100  # of a token
CSRF = b"planner page csrf"


def begin(client: Redis, shown: Shown) -> str:
    """Store a session of the key that is shown; returns its token, which is kept nowhere."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    pipeline = client.pipeline()
    pipeline.hset(_place(token), mapping={"key_id": shown.key_id, "secret": shown.digest})
    pipeline.expire(_place(token), SESSION_S)
    pipeline.execute()
    return token


def find(client: Redis, token: str) -> Shown | None:
    """Return what the holder of a session's token showed when it began; None where it is over or there is none."""
    (found,) = find_each(client, [token])
    return found


def find_each(client: Redis, tokens: Sequence[str]) -> list[Shown | None]:
    """Find several sessions as `find` does, in one trip."""
    pipeline = client.pipeline(transaction=False)
    asked = {token: None for token in tokens if token.isascii() and len(token) <= MOST_CHARS}
    for token in asked:
        pipeline.hmget(_place(token), "key_id", "secret")
    stored: Any = pipeline.execute()
    found = dict(zip(asked, stored, strict=True))
    shown = (found.get(token, (None, None)) for token in tokens)
    return [Shown(key_id.decode(), digest) if key_id and digest else None for key_id, digest in shown]


def end(client: Redis, token: str) -> None:
    """End a session."""
    if token.isascii() and len(token) <= MOST_CHARS:
        client.delete(_place(token))


def csrf_of(token: str) -> str:
    """Return what every form of a session has and no other site can know."""
    return hmac.new(token.encode(), CSRF, hashlib.sha256).hexdigest()


def is_csrf(token: str, given: str) -> bool:
    """Return whether a form is one of this session's."""
    return hmac.compare_digest(csrf_of(token).encode(), given.encode())


def _place(token: str) -> str:
    return keys.page_session(hashlib.sha256(token.encode()).hexdigest())
