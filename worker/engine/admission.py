"""Admission of new plans: whether there is capacity, and the state that a new plan starts with."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from redis import Redis

from schemas import codec
from schemas.base import name_unknown_fields
from schemas.command import Command, Scope
from schemas.envelope import Problem
from schemas.event import event_type
from schemas.goal import Goal
from schemas.stored import LogHead, read_part
from schemas.times import DAY_MS, rfc3339
from tasks.handlers.bulk_commands import Records, find_paused_queues, find_standing, named_by, scopes_of
from tasks.memory.outcomes import MOST_READ
from tasks.plan.snapshot import Grant, StandingCommand
from tasks.policy.pipeline import RECALLS
from tasks.policy.plan_seed import PlanSeed
from tasks.rules import estimates
from tasks.rules.budget import WARN_SHARE
from worker.host.code_version import CODE_VERSION
from worker.store import clients, functions, keys
from worker.store.keys import Partition, bucket, partition_of
from worker.store.memory import ServerMemory
from worker.store.plans import EVENTS_CAP
from worker.streams.inbox import RedisCommand

Replies = Mapping[RedisCommand, Any]  # by the command, as functions.ask returns them
GRANT_SHARE = 20  # a grant is this part of a partition's share: so much may be unused elsewhere at the end of a day
KEPT_S = 2 * 86_400
TRIES = 20  # at finding a partition whose server is there
MAX_TOP_UP = 10**12  # tokens


@dataclass(frozen=True, slots=True)
class Admission:
    """Decides whether plans are admitted; a tenant has at most `max_plans` that have not ended."""

    client: Redis
    memory: ServerMemory
    quota: Quota
    max_plans: int
    switches: Mapping[str, int] = field(default_factory=dict)  # as in PlanSeed

    def refusal(self, goal: Goal) -> Problem | None:
        """Return why no plan of `goal` is created now; None if one is. The goal may be sent again later."""
        if not self.memory.takes_goals:
            return self.out_of_memory()
        live = self.live_plans(goal.tenant, functions.ask(self.client, self.live_calls(goal.tenant), bears=True))
        if live < self.max_plans:
            return None
        detail = f"The tenant {goal.tenant} has {live} plans that have not ended; the limit is {self.max_plans}."
        return Problem.of("tenant_full", detail, status=429)

    def live_calls(self, tenant: str) -> list[RedisCommand]:
        """Return the commands that count the plans of a tenant that have not ended."""
        return [("HGET", Partition(number).tenants, tenant) for number in range(self.quota.partitions)]

    def live_plans(self, tenant: str, replies: Replies) -> int:
        """Return the number of a tenant's live plans, from the replies to `live_calls`.

        Plans of partitions whose server is away are not counted.
        """
        found = (replies[call] for call in self.live_calls(tenant))
        return sum(int(reply or 0) for reply in found if not isinstance(reply, Exception))

    def out_of_memory(self) -> Problem:
        """Return the refusal (507) of a goal because the server's memory is full."""
        detail = f"The server's memory is {self.memory.share:.0%} full; replay the goal once there is room."
        return Problem.of("out_of_memory", detail, status=507)

    def plan_seed(
        self, partition: Partition, goal: Goal, goal_id: str, plan_id: str, traceparent: str | None = None
    ) -> PlanSeed:
        """Return the seed of a plan: its identity, and the records of its tenant and repository."""
        stored = ("HMGET", partition.plan(plan_id).plan, "version", "live")
        replies = functions.ask(self.client, [*self.seed_calls(partition, goal), stored])
        version, live = replies[stored]
        plan_seed = self.fresh_seed(partition, goal, goal_id, plan_id, replies, traceparent)
        if not live:
            return plan_seed
        known = codec.loads(live)
        return replace(  # a creation that was interrupted, or waits for a drafter
            plan_seed,
            version=int(version),
            log_head=read_part(known, LogHead),
            created=known["times"]["created"],
            standing=self._standing(partition, goal, known["times"]["created"], plan_seed.now, replies),
        )

    def seed_calls(self, partition: Partition, goal: Goal) -> list[RedisCommand]:
        """Return the commands that read the context of a new plan; goals that share a part of it share the commands."""
        calls: list[RedisCommand] = [("TIME",), ("HGETALL", partition.scopes), ("HGET", partition.sweep, "down")]
        if scopes := self.quota.of(goal.tenant, goal.context.repo):
            calls.append(("HMGET", partition.grants, *scopes))
        return [*calls, *self._recall_calls(partition, goal).values(), *_used_calls(partition, goal).values()]

    def fresh_seed(
        self,
        partition: Partition,
        goal: Goal,
        goal_id: str,
        plan_id: str,
        replies: Replies,
        traceparent: str | None = None,
    ) -> PlanSeed:
        """Return the seed of a plan that does not exist yet, from the replies to `seed_calls`."""
        seconds, microseconds = map(int, replies[("TIME",)])
        now = seconds * 1000 + microseconds // 1000
        scopes = self.quota.of(goal.tenant, goal.context.repo)
        return PlanSeed(
            plan_id=plan_id,
            goal_id=goal_id,
            now=now,
            created=now,
            seed=os.urandom(12).hex(),  # the leases of the plan are derived from it
            reply_to=partition.outcomes,
            lease_prefix=partition.lease_prefix(plan_id),
            code=CODE_VERSION,
            down=int(replies["HGET", partition.sweep, "down"] or 0),
            standing=self._standing(partition, goal, now, now, replies),
            paused_queues=find_paused_queues(_records(partition, replies), now),
            unknown=name_unknown_fields(goal),
            grants=self.quota.grants(scopes, replies["HMGET", partition.grants, *scopes], now) if scopes else {},
            traceparent=traceparent,
            switches=self.switches,
            recalled=self._recalled(partition, goal, replies, now),
            learned=_learned(partition, goal, replies),
        )

    def _recall_calls(self, partition: Partition, goal: Goal) -> dict[str, RedisCommand]:
        """Return, by name, the commands that read the records that earlier plans left for the goal's repository."""
        return {
            each.name: _recall_call(partition, each.kept_as, name)
            for each in RECALLS
            if self.switches.get(each.switch) != 0 and (name := each.where(goal))
        }

    def _recalled(self, partition: Partition, goal: Goal, replies: Replies, now: int) -> dict[str, Any]:
        calls, found = self._recall_calls(partition, goal), dict[str, Any]()
        for each in RECALLS:
            if each.name not in calls:
                continue
            flat = replies[calls[each.name]]
            if each.kept_as == "list":
                found[each.name] = each.read(flat, goal, now)
            elif flat:
                fields = {
                    name.decode(errors="replace"): value for name, value in zip(flat[::2], flat[1::2], strict=True)
                }
                found[each.name] = each.read(fields, goal, now)
        return found

    def _standing(
        self, partition: Partition, goal: Goal, created: int, now: int, replies: Replies
    ) -> StandingCommand | None:
        return find_standing(_records(partition, replies), goal.tenant, goal.context.repo, created, now)


def _recall_call(partition: Partition, kept_as: str, name: str) -> RedisCommand:
    if kept_as == "list":
        return ("LRANGE", partition.memory(name), 0, MOST_READ - 1)
    return ("HGETALL", partition.recall(name) if kept_as == "counters" else partition.kept(name))


def _used_calls(partition: Partition, goal: Goal) -> Mapping[str, RedisCommand]:
    """Return the commands that read the consumption of recent attempts that are like the goal's steps."""
    return {name: ("LRANGE", partition.used(name), 0, estimates.LAST - 1) for name in estimates.names_of(goal)}


def _learned(partition: Partition, goal: Goal, replies: Replies) -> Mapping[str, int]:
    calls = _used_calls(partition, goal)
    return estimates.learn({name: [int(tokens) for tokens in replies[call]] for name, call in calls.items()})


def _records(partition: Partition, replies: Replies) -> Records:
    flat = replies["HGETALL", partition.scopes]
    return dict(zip(flat[::2], flat[1::2], strict=True))


def fresh_plan_id(repo: str | None) -> str:
    """Return a new plan id, in the bucket of its repository.

    A plan without a repository has its own bucket. The rest is a UUIDv7 as 32 hex digits, which sorts by its
    millisecond (RFC 9562 section 5.7).
    """
    ms, noise = time.time_ns() // 1_000_000, int.from_bytes(os.urandom(10))
    unique = f"{ms << 80 | 0x7 << 76 | (noise >> 68) << 64 | 0b10 << 62 | noise & (1 << 62) - 1:032x}"
    return f"plan_{bucket(repo or unique)}-{unique}"


def reachable_plan_id(client: Redis, repo: str | None, partitions: int) -> str:
    """Return a new plan id.

    Without a repository, which determines the partition, the server of the id's partition is not known to be away.
    """
    for _ in range(1 if repo else TRIES):
        plan_id = fresh_plan_id(repo)
        if not clients.is_away(client, Partition(partition_of(plan_id, partitions)).plans):
            break
    return plan_id


@dataclass(frozen=True, slots=True)
class Quota:
    """The day budget of each tenant and each repository, in tokens; None means no limit."""

    client: Redis
    partitions: int
    tenant: int | None
    repository: int | None

    def of(self, tenant: str, repo: str | None) -> list[str]:
        """Return each scope (tenant, repository) of a plan that has a day budget."""
        return [scope for scope in scopes_of(tenant, repo) if self._limit(scope) is not None]

    def grants(self, scopes: list[str], found: list[bytes | None], now: int) -> Mapping[str, Grant]:
        """Return the grant of each of `scopes` from its stored form in `found`; a grant of another day is empty."""
        grants = {}
        for scope, raw in zip(scopes, found, strict=True):
            day, left, exhausted, *_ = raw.split() if raw else (b"-1", b"0", b"0")
            is_of_today = int(day) == now // DAY_MS
            grants[scope] = Grant(int(left), exhausted == b"1") if is_of_today else Grant(0)
        return grants

    def refill(self, partition: Partition, short: Mapping[str, int], now: int) -> None:
        """Get more tokens from the day budget for each scope in `short`, which maps scopes to the missing tokens.

        If the day budget has fewer tokens left than are missing, marks the scope as exhausted.
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
        """Subtract `tokens` from today's grants of `scopes`, for a plan that ended while its drafter worked."""
        for scope in scopes if tokens else ():
            self._refill(partition, scope, now // DAY_MS, -tokens, exhausted=False)

    def _warn(self, partition: Partition, scope: str, limit: int, now: int) -> None:
        """Publish an event when most of a scope's day budget has been granted, at most once a day."""
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
        """Add `value.tokens` of the command to today's budget of `scope`; a repeated command adds nothing.

        Returns the reason if the command is refused, else None.
        """
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
