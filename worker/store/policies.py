"""The policies of operators in Redis: their texts by digest, which never change, and the one in force.

A text is kept for ever, because plans that were made under it are decided by it. A worker reads each text once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from redis import Redis

from schemas import codec
from schemas.times import rfc3339
from tasks.base.errors import PlannerError
from tasks.base.policy import BUILT_IN, Policy
from tasks.base.policy_text import WrongPolicy, digest_of, read_policy
from worker.store import keys

log = logging.getLogger("planner.policy")

EVERYONE = "all"  # the field for all tenants without their own policy
MOST_HISTORY = 10_000  # entries that workers keep: operators can only append


class PolicyUnreadable(PlannerError):
    """The policy in force cannot be read here: no worker may make a plan under other rules."""

    def __init__(self, digest: str) -> None:
        super().__init__(
            f"The policy {digest} cannot be read by this worker: it is missing, or of a newer format. Start newer "
            "workers or apply it again (planner doctor)."
        )


class Applied(NamedTuple):
    """One entry of the history: the policy of a tenant, its new digest (None if withdrawn), the time and the actor."""

    at: str
    by: str
    tenant: str | None
    digest: str | None


@dataclass(eq=False, repr=False)
class Policies:
    """The policies that a worker has read; none is read twice."""

    client: Redis
    _known: dict[str | None, Policy] = field(default_factory=lambda: {None: BUILT_IN}, init=False)

    def find(self, digest: str | None) -> Policy | None:
        """Return the policy of a plan; None if it is missing, or this version cannot read it."""
        found = self._known.get(digest)
        if found is None and digest:
            text = read_text(self.client, digest)
            try:
                if text is None or digest_of(text) != digest:
                    raise WrongPolicy()
                self._known[digest] = found = read_policy(text)
            except WrongPolicy as error:
                log.warning("policy unreadable", extra={"policy": digest, "error": str(error) or "it is not there"})
        return found

    def current(self, tenant: str) -> Policy:
        """Return the policy for new plans of a tenant. Raises PolicyUnreadable."""
        return self.in_force(self.client.execute_command(*current_call(tenant)))

    def in_force(self, reply: Any) -> Policy:
        """Return the policy in the reply to `current_call`. Raises PolicyUnreadable."""
        digest = _first(reply)
        found = self.find(digest)
        if found is None:
            raise PolicyUnreadable(str(digest))
        return found


def apply(client: Redis, text: bytes, by: str, tenant: str | None = None) -> str:
    """Put a readable policy in force for a tenant, or for all tenants without their own. Returns its digest."""
    digest = digest_of(text)
    pipeline = client.pipeline(transaction=True)
    pipeline.hsetnx(keys.POLICY_TEXTS, digest, text)
    pipeline.hset(keys.POLICIES_CURRENT, _field(tenant), digest)
    _note(pipeline, Applied(_now(), by, tenant, digest))
    pipeline.execute()
    return digest


def withdraw(client: Redis, by: str, tenant: str | None = None) -> bool:
    """Withdraw the policy of a tenant, or of all tenants without their own. Returns False if there was none."""
    if not client.hdel(keys.POLICIES_CURRENT, _field(tenant)):
        return False
    _note(client, Applied(_now(), by, tenant, None))
    return True


def current(client: Redis, tenant: str | None = None) -> str | None:
    """Return the digest of the policy in force: that of the tenant, else that of all; None if there is none."""
    return _first(client.execute_command(*current_call(tenant)))


def current_call(tenant: str | None = None) -> tuple[str, ...]:
    """Return the command that reads the digest of the policy in force."""
    return ("HMGET", keys.POLICIES_CURRENT, _field(tenant), EVERYONE)


def _first(digests: Iterable[bytes | None]) -> str | None:
    return next((digest.decode() for digest in digests if digest), None)


def read_text(client: Redis, digest: str) -> bytes | None:
    """Return the text of a policy; None if it is missing."""
    found: Any = client.hget(keys.POLICY_TEXTS, digest)
    return found if found is None else bytes(found)


def digests(client: Redis) -> list[str]:
    """Return the digests of all stored policies."""
    found: Any = client.hkeys(keys.POLICY_TEXTS)
    return sorted(digest.decode() for digest in found)


def history(client: Redis) -> Iterator[Applied]:
    """Yield the applied and withdrawn policies, newest first."""
    found: Any = client.lrange(keys.POLICY_HISTORY, 0, -1)
    for raw in reversed(found):
        yield Applied(**codec.loads(raw))


def _note(client: Any, entry: Applied) -> None:
    client.rpush(keys.POLICY_HISTORY, codec.dumps(entry._asdict()))


def _field(tenant: str | None) -> str:
    return EVERYONE if tenant is None else f"tenant:{tenant}"


def _now() -> str:
    return rfc3339(time.time_ns() // 1_000_000)
