"""API keys in Redis: `pk_<id>_<secret>`; only a digest of the secret is stored.

A gateway keeps a key that it has found for one second (worker/gateway/known_keys.py).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from redis import Redis

from schemas import codec
from schemas.api_key import ALWAYS_SHARED, ApiKey, Right, rate_of
from schemas.times import milliseconds, rfc3339
from tasks.base.errors import PlannerError
from worker.store import claims, functions, keys

PREFIX = "pk_"
MOST_CHARS = 200  # of a token
ID_BYTES, SECRET_BYTES = 8, 32
RIGHTS = frozenset(Right)


class QueueTaken(PlannerError):
    """A key names a queue that belongs to another tenant."""

    def __init__(self, queue: str, owner: str) -> None:
        super().__init__(f"The queue {queue} belongs to the tenant {owner}, whose keys name it: take another queue.")


class Shown(NamedTuple):
    """The credentials of a caller: the key's id, and a digest of the secret."""

    key_id: str
    digest: bytes


def new_id() -> str:
    """Return a new id for a key."""
    return secrets.token_hex(ID_BYTES)


def add(client: Redis, key: ApiKey) -> str:
    """Store a key. Returns its token, which is not stored anywhere.

    Raises QueueTaken if the key names a queue of another tenant.
    """
    secret = secrets.token_hex(SECRET_BYTES)
    now = int(time.time() * 1000)
    key = key.model_copy(update={"created_at": key.created_at or rfc3339(now)})
    refused: Any = functions.call_or_load(
        client,
        "FCALL",
        functions.ADD_KEY,
        2,
        keys.API_KEYS,
        keys.QUEUE_OWNERS,
        keys.api_key(),
        key.key_id,
        codec.encode(key),
        _digest(secret),
        now,
        milliseconds(datetime.fromisoformat(key.expires_at)) if key.expires_at else "",
        key.tenant or "",
        *(queue for queue in dict.fromkeys(key.queues) if queue != ALWAYS_SHARED),
    )
    if refused:
        raise QueueTaken(*(each.decode() for each in refused))
    return f"{PREFIX}{key.key_id}_{secret}"


def read_token(token: str) -> Shown | None:
    """Return the key's id and the digest of the secret in a token; None if the text is no token."""
    key_id, _, secret = token.removeprefix(PREFIX).partition("_")
    if not (token.startswith(PREFIX) and token.isascii() and key_id.isalnum() and secret and len(token) <= MOST_CHARS):
        return None
    return Shown(key_id, _digest(secret))


def find(client: Redis, token: str) -> ApiKey | None:
    """Return the key of a token; None if the token is wrong."""
    shown = read_token(token)
    return check(client, shown) if shown else None


def check(client: Redis, shown: Shown) -> ApiKey | None:
    """Return the key for these credentials; None if it is missing, expired or revoked, or the secret is wrong."""
    (found,) = check_each(client, [shown])
    return found


def check_each(client: Redis, shown: Sequence[Shown]) -> list[ApiKey | None]:
    """Return the result of `check` for each of several keys, in their order, in one round trip."""
    pipeline = client.pipeline(transaction=False)
    for each in shown:
        pipeline.hmget(keys.api_key(each.key_id), "key", "secret")
        pipeline.get(keys.older_secret(each.key_id))
    found: Any = pipeline.execute()
    return [_checked(each, *stored, older) for each, stored, older in zip(shown, found[::2], found[1::2], strict=True)]


def _checked(shown: Shown, raw: bytes | None, *digests: bytes | None) -> ApiKey | None:
    is_one = [hmac.compare_digest(each or b"", shown.digest) for each in digests]
    return _read(raw) if raw is not None and any(is_one) else None


def rotate(client: Redis, key_id: str, keep_ms: int) -> str | None:
    """Give a key a new secret. Returns its new token; None if there is no such key.

    The previous secret stays valid for `keep_ms`. A secret of an earlier rotation ends at once.
    """
    secret = secrets.token_hex(SECRET_BYTES)
    places = (keys.api_key(key_id), keys.older_secret(key_id))
    command = ("FCALL", functions.ROTATE_KEY, len(places), *places, _digest(secret), keep_ms)
    there = functions.call_or_load(client, *command)
    return f"{PREFIX}{key_id}_{secret}" if there else None


def revoke(client: Redis, key_id: str) -> bool:
    """Delete a key. Returns whether it existed. A server with full memory accepts this, too."""
    pipeline = client.pipeline()
    pipeline.delete(keys.api_key(key_id))
    pipeline.delete(keys.older_secret(key_id))
    pipeline.zrem(keys.API_KEYS, key_id)
    return bool(pipeline.execute()[0])


def every(client: Redis) -> list[ApiKey]:
    """Return all keys, the oldest first."""
    ids: Any = client.zrange(keys.API_KEYS, 0, -1)
    pipeline = client.pipeline(transaction=False)
    for key_id in ids:
        pipeline.hget(keys.api_key(key_id.decode()), "key")
    found = [_read(raw) for raw in pipeline.execute() if raw]
    return sorted(found, key=lambda key: (key.created_at or "", key.key_id))


def owner_of(client: Redis, queue: str) -> str | None:
    """Return the tenant that a queue belongs to; None for a shared queue."""
    owner: Any = None if queue == ALWAYS_SHARED else client.hget(keys.QUEUE_OWNERS, queue)
    return owner.decode() if owner else None


def take(client: Redis, name: str, rate: str) -> int:
    """Take one request from the bucket of `name`. Returns 0, or the time in ms until the next request is allowed."""
    (wait_ms,) = take_each(client, [(name, rate)])
    return wait_ms


def take_each(client: Redis, wanted: Sequence[tuple[str, str]]) -> list[int]:
    """Take one request from each named bucket, in one round trip. Return the result of `take` for each.

    `wanted` contains pairs of a name and a rate.
    """
    calls = []
    for name, rate in wanted:
        requests, period_s = rate_of(rate)
        calls.append(("FCALL", functions.TAKE, 1, keys.token_bucket(name), requests, period_s * 1000))
    return [int(wait_ms) for wait_ms in claims.call(client, calls)]


def _read(raw: bytes) -> ApiKey:
    """Return a key from its record; rights that only a newer version knows are left out."""
    said = codec.loads(raw)
    return ApiKey.model_validate({**said, "rights": [each for each in said["rights"] if each in RIGHTS]})


def _digest(secret: str) -> bytes:
    """Return the digest of a secret: with so many random bits it needs neither salt nor a slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest().encode()
