"""Sessions of the page in Redis: the key that signed in, by a digest of the browser's token.

A session is valid only as long as its key: each reader of a session checks the key.
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

SESSION_S = 12 * 3600  # after this time a person signs in again
TOKEN_BYTES = 32
MOST_CHARS = 100  # of a token
CSRF = b"planner page csrf"


def begin(client: Redis, shown: Shown) -> str:
    """Store a session for the credentials. Returns its token, which is not stored anywhere."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    pipeline = client.pipeline()
    pipeline.hset(_place(token), mapping={"key_id": shown.key_id, "secret": shown.digest})
    pipeline.expire(_place(token), SESSION_S)
    pipeline.execute()
    return token


def find(client: Redis, token: str) -> Shown | None:
    """Return the credentials that a session began with; None if it has expired or does not exist."""
    (found,) = find_each(client, [token])
    return found


def find_each(client: Redis, tokens: Sequence[str]) -> list[Shown | None]:
    """Find several sessions as `find` does, in one round trip."""
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
    """Return the CSRF value of a session: each form contains it, and no other site can know it."""
    return hmac.new(token.encode(), CSRF, hashlib.sha256).hexdigest()


def is_csrf(token: str, given: str) -> bool:
    """Return whether a form belongs to this session."""
    return hmac.compare_digest(csrf_of(token).encode(), given.encode())


def _place(token: str) -> str:
    return keys.page_session(hashlib.sha256(token.encode()).hexdigest())
