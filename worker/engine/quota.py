"""Day budgets of tenants and repositories, granted to partitions piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from redis import Redis

from schemas import codec
from schemas.command import Command, Scope
from schemas.event import event_type
from schemas.times import DAY_MS, rfc3339
from tasks.handlers.bulk_commands import named_by, scopes_of
from tasks.plan.snapshot import Grant
from tasks.rules.budget import WARN_SHARE
from worker.store import functions, keys
from worker.store.keys import Partition
from worker.store.plans import EVENTS_CAP

GRANT_SHARE = 20  # a grant is this part of a partition's share: as much may lie unused elsewhere when a day runs out
KEPT_S = 2 * 86_400
MAX_TOP_UP = 10**12  # tokens


@dataclass(frozen=True, slots=True)
class Quota:
    """What a day allows each tenant and each repository, in tokens; None means no limit."""

    client: Redis
    partitions: int
    tenant: int | None
    repository: int | None

    def of(self, tenant: str, repo: str | None) -> list[str]:
        """Name the scopes with a day budget that a plan counts for."""
        return [scope for scope in scopes_of(tenant, repo) if self._limit(scope) is not None]

    def grants(self, scopes: list[str], found: list[bytes | None], now: int) -> Mapping[str, Grant]:
        """Read what `planner:{p}:grants` holds for `scopes`; what is of another day is over."""
        grants = {}
        for scope, raw in zip(scopes, found, strict=True):
            day, left, exhausted, *_ = raw.split() if raw else (b"-1", b"0", b"0")
            is_of_today = int(day) == now // DAY_MS
            grants[scope] = Grant(int(left), exhausted == b"1") if is_of_today else Grant(0)
        return grants

    def refill(self, partition: Partition, short: Mapping[str, int], now: int) -> None:
        """Get more for the scopes that lacked so many tokens, as the day allows.

        Marks the others as exhausted.
        """
        day = now // DAY_MS
        for scope, lacked in short.items():
            limit = self._limit(scope)
            if limit is None:  # it was lifted since the plan was made
                self._refill(partition, scope, day, lacked, exhausted=False)
                continue
            wanted = max(lacked, limit // (GRANT_SHARE * self.partitions))
            key = keys.day_grants(day, scope)
            given = functions.call(self.client, "FCALL", functions.GRANT, 1, key, limit, wanted, KEPT_S)
            self._refill(partition, scope, day, given, exhausted=given < lacked)
            self._warn(partition, scope, limit, now)

    def charge(self, partition: Partition, scopes: Iterable[str], tokens: int, now: int) -> None:
        """Take from the day the tokens of a plan that had ended meanwhile."""
        for scope in scopes if tokens else ():
            self._refill(partition, scope, now // DAY_MS, -tokens, exhausted=False)

    def _warn(self, partition: Partition, scope: str, limit: int, now: int) -> None:
        """Tell, once a day and scope, that most of what the day allows has been granted."""
        key = keys.day_grants(now // DAY_MS, scope)
        found: Any = self.client.hmget(key, "granted", "extra")
        granted, extra = (int(value or 0) for value in found)
        if granted < WARN_SHARE * (limit + extra):
            return
        if functions.call(self.client, "FCALL", functions.COUNT, 1, key, "warned", 1) > 1:
            return
        event = {**named_by(scope), "scope": scope, "budget": "tokens", "spent": granted, "limit": limit + extra}
        event["at"] = rfc3339(now)
        call = ("FCALL", functions.ADD, 1, partition.events, EVENTS_CAP)
        functions.call(self.client, *call, "type", event_type("budget.low"), "data", codec.dumps(event))

    def top_up(self, scope: str, command: Command, now: int) -> str | None:
        """Add `value.tokens` to what today allows, once a command; returns why that cannot be."""
        tokens = command.value.get("tokens") if isinstance(command.value, dict) else None
        if type(tokens) is not int or not 0 < tokens <= MAX_TOP_UP or set(command.value) != {"tokens"}:
            return 'a day budget is topped up by a `value` such as {"tokens": 50000}'
        if self._limit(scope) is None:
            return f"{scope} has no day budget"
        day = now // DAY_MS
        key = keys.day_grants(day, scope)
        functions.call(self.client, "FCALL", functions.TOP_UP, 1, key, command.command_id, tokens, KEPT_S)
        for number in range(self.partitions):
            self._refill(Partition(number), scope, day, 0, exhausted=False)
        return None

    def _refill(self, partition: Partition, scope: str, day: int, tokens: int, *, exhausted: bool) -> None:
        call: tuple[Any, ...] = ("FCALL", functions.REFILL, 1, partition.grants, scope, day, tokens, int(exhausted))
        functions.call(self.client, *call)

    def _limit(self, scope: str) -> int | None:
        kind = scope.partition(":")[0]
        return self.tenant if kind == Scope.TENANT else self.repository if kind == Scope.REPOSITORY else None
