"""API keys in Redis: `pk_<id>_<secret>`, of which only a digest of the secret is stored."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Any

from redis import Redis

from schemas import codec
from schemas.api_key import ApiKey

PREFIX = "pk_"


def _place(key_id: str) -> str:
    return f"planner:keys:{key_id}"  # hash {key, secret}


def add(client: Redis, key: ApiKey) -> str:
    """Store a key; returns the token that its holder shows, which is kept nowhere."""
    secret = secrets.token_urlsafe(32)
    client.hset(_place(key.key_id), mapping={"key": codec.encode(key), "secret": _digest(secret)})
    return f"{PREFIX}{key.key_id}_{secret}"


def find(client: Redis, token: str) -> ApiKey | None:
    """Return the key of a token; None where it is wrong."""
    key_id, _, secret = token.removeprefix(PREFIX).partition("_")
    if not (token.startswith(PREFIX) and key_id.isalnum() and secret):
        return None
    found: Any = client.hmget(_place(key_id), "key", "secret")
    raw, digest = found
    if raw is None or not hmac.compare_digest(digest, _digest(secret)):
        return None
    return ApiKey.model_validate_json(raw)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).hexdigest().encode()
