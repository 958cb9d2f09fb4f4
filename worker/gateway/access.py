"""The state that all endpoints share, and the caller of a request with the rights of its key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from typing import Annotated, NamedTuple

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from redis import Redis

from schemas.api_key import ApiKey, Right
from schemas.goal import Goal
from worker.gateway.claiming import ClaimDesk
from worker.gateway.cookies import session_in
from worker.gateway.event_hub import EventHub
from worker.gateway.key_checks import KeyChecks
from worker.gateway.known_keys import KnownKeys
from worker.gateway.problems import Refusal
from worker.gateway.shares import Shares, kind_of
from worker.render.result_reading import Results
from worker.settings.settings import Settings
from worker.store import api_keys, page_sessions
from worker.store.keys import NO_TENANT
from worker.webhooks.sources_file import SourcesFile


@dataclass(frozen=True, slots=True)
class Context:
    """The shared state of a gateway's process.

    `client` has a pool of connections for many threads, `hub` delivers events, and controllers wait for steps in
    `claims`.
    """

    settings: Settings
    client: Redis
    hub: EventHub
    claims: ClaimDesk
    webhooks: SourcesFile | None = None
    shares: Shares = field(default_factory=Shares)
    stopping: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # set at shutdown: waiting requests are answered, streams close
    checks: KeyChecks[Credentials, Access] = field(init=False)
    results: Results = field(init=False)

    def __post_init__(self) -> None:
        known = KnownKeys()
        checks = KeyChecks(partial(callers_of, self.client, known), partial(caller_at_hand, self.client, known))
        object.__setattr__(self, "checks", checks)
        object.__setattr__(self, "results", Results(self.client, self.partitions))

    @property
    def partitions(self) -> int:
        """Number of partitions."""
        return self.settings.partitions


async def _context(request: Request) -> Context:
    found: Context = request.app.state.context
    return found


Doors = Annotated[Context, Depends(_context)]


ORIGIN: ContextVar[str] = ContextVar("ORIGIN", default="http")  # origin of the request that is being answered
NO_KEY = "Show a key: Authorization: Bearer pk_..."
INSIDE = "planner.inside"  # set for a request inside an MCP call, which was counted
READS = frozenset({"GET", "HEAD", "OPTIONS"})
BEARER = HTTPBearer(auto_error=False, description="A key: `pk_<id>_<secret>`.")


@dataclass(frozen=True, slots=True)
class Sight:
    """The tenant and the repositories that a caller may see; None and an empty tuple mean all."""

    tenant: str | None = None
    repositories: tuple[str, ...] = ()

    def reaches(self, tenant: str, repo: str | None) -> bool:
        """Return whether the caller sees things of this tenant and repository. If not, the endpoint answers 404."""
        return self.tenant in (None, tenant) and (not self.repositories or repo in self.repositories)


class Access:
    """The caller of a request: its key or session, and the checks of the rights of that key."""

    def __init__(self, key: ApiKey, client: Redis, shown: api_keys.Shown, session: str | None = None) -> None:
        self.key = key
        self.sight = Sight(key.tenant, key.repositories)
        self._client = client
        self.shown = shown
        self.session = session

    def lasts(self) -> bool:
        """Return whether the key and the session are still valid.

        Streams and waiting requests check this before each answer.
        """
        return self in lasting(self._client, [self])

    def name_of(self, controller: str) -> str:
        """Return a controller's name for leases. The key's id is in front, so equal names under two keys stay apart."""
        return f"{self.key.key_id}/{controller}"

    def demand(self, *rights: Right) -> None:
        """Raise Refusal 403 if the key has none of `rights`."""
        if not any(self.key.may(right) for right in rights):
            raise Refusal("no_right", f"This key has not the right: {' or '.join(rights)}.", 403)

    def may_see(self, tenant: str, repo: str | None) -> bool:
        """Return whether the caller sees things of this tenant and repository. If not, the endpoint answers 404."""
        return self.sight.reaches(tenant, repo)

    def tenant_for(self, named: str | None) -> str:
        """Return the key's tenant; without one, the `named` tenant or NO_TENANT.

        Raises Refusal 403 if the key has a tenant and `named` is another one.
        """
        if self.key.tenant is None:
            return named or NO_TENANT
        if named not in (None, self.key.tenant):
            raise Refusal("wrong_tenant", f"This key is of tenant {self.key.tenant}.", 403)
        return self.key.tenant

    def admit(self, goal: Goal) -> str:
        """Return the tenant of a goal that the key may send.

        Raises Refusal 403 if the key does not permit the goal's tenant, its repository, or one of its queues.
        """
        tenant = self.tenant_for(goal.tenant if "tenant" in goal.model_fields_set else None)
        self.demand_repository(goal.context.repo)
        for queue in {goal.queue, *(step.queue for step in goal.steps or () if step.queue)}:
            self.demand_queue(queue)
            if self.key.tenant is None and (owner := api_keys.owner_of(self._client, queue)) not in (None, tenant):
                raise Refusal("wrong_queue", f"The queue {queue} belongs to the tenant {owner}.", 403)
        return tenant

    def demand_queue(self, queue: str) -> None:
        """Raise Refusal 403 if the key does not permit this queue."""
        if queue not in self.key.queues:
            ours = ", ".join(self.key.queues)
            detail = (
                f"This key is for {ours}, not for the queue {queue}: name one, or take a key of `keys add --queue`."
            )
            raise Refusal("wrong_queue", detail, 403)

    def demand_repository(self, repo: str | None) -> None:
        """Raise Refusal 403 if the key does not permit this repository."""
        if self.key.repositories and repo not in self.key.repositories:
            raise Refusal("wrong_repository", f"This key is for {', '.join(self.key.repositories)} alone.", 403)


def lasting(client: Redis, callers: Collection[Access]) -> set[Access]:
    """Return the callers whose key and session are still valid, in two round trips to Redis for all of them."""
    sessions = list({each.session for each in callers if each.session})
    signed_in = dict(zip(sessions, page_sessions.find_each(client, sessions), strict=True))
    shown = list({each.shown for each in callers})
    keys = dict(zip(shown, api_keys.check_each(client, shown), strict=True))
    return {
        each
        for each in callers
        if keys[each.shown] == each.key and (each.session is None or signed_in[each.session] == each.shown)
    }


class Credentials(NamedTuple):
    """The credentials of a request: a key's token or a page session, and whether it counts against the key's rate."""

    token: str = ""
    session: str | None = None
    counts: bool = True


def caller_of(client: Redis, token: str) -> Access:
    """Return the caller with this token. Raises Refusal 401 for a wrong key, and 429 above the key's rate."""
    (found,) = callers_of(client, KnownKeys(), [Credentials(token)])
    if isinstance(found, Refusal):
        raise found
    return found


def caller_at_hand(client: Redis, known: KnownKeys, asked: Credentials) -> Access | None:
    """Return the caller if this process knows the key; None if Redis must check the session, the key or its rate."""
    shown = None if asked.session else api_keys.read_token(asked.token)
    key = known.find(shown) if shown else None
    return Access(key, client, shown) if key and shown and not (asked.counts and key.rate) else None


def callers_of(client: Redis, known: KnownKeys, requests: Sequence[Credentials]) -> list[Access | Refusal]:
    """Return the caller of each request, or its refusal, in at most three round trips to Redis for all of them.

    Afterwards `known` contains each valid key that Redis had to check.
    """
    sessions = list({each.session for each in requests if each.session})
    signed_in = dict(zip(sessions, page_sessions.find_each(client, sessions), strict=True))
    shown = [signed_in[each.session] if each.session else api_keys.read_token(each.token) for each in requests]
    found = _keys_of(client, known, {each for each in shown if each})
    keys = [found[each] if each else None for each in shown]
    counted = [
        at for at, (each, key) in enumerate(zip(requests, keys, strict=True)) if each.counts and key and key.rate
    ]
    buckets = [(key.key_id, key.rate) for key in (keys[at] for at in counted) if key and key.rate]
    waits_ms = dict(zip(counted, api_keys.take_each(client, buckets), strict=True))
    answers: list[Access | Refusal] = []
    for at, (each, of, key) in enumerate(zip(requests, shown, keys, strict=True)):
        if of is None or key is None:
            answers.append(Refusal("wrong_key", "This key is wrong, over or revoked: ask for another.", 401))
        elif wait_ms := waits_ms.get(at):
            detail = f"This key may make {key.rate} requests."
            answers.append(Refusal("rate_limited", detail, 429, retry_after_s=ceil(wait_ms / 1000)))
        else:
            answers.append(Access(key, client, of, each.session))
    return answers


def _keys_of(client: Redis, known: KnownKeys, shown: Collection[api_keys.Shown]) -> dict[api_keys.Shown, ApiKey | None]:
    """Return the key of each credential, None for a wrong one. Redis checks only credentials that `known` lacks."""
    found = {each: known.find(each) for each in shown}
    unknown = [each for each, key in found.items() if key is None]
    looked_at = known.clock()
    for each, key in zip(unknown, api_keys.check_each(client, unknown), strict=True):
        found[each] = key
        if key:
            known.keep(each, key, looked_at)
    return found


def _shown(request: Request, given: HTTPAuthorizationCredentials | None) -> Credentials:
    session = session_in(request)
    if given:
        return Credentials(given.credentials, counts=INSIDE not in request.scope)
    if session and request.method in READS:  # browsers show a cookie also where another site had them write
        return Credentials(session=session)
    raise Refusal("no_key", NO_KEY, 401)


async def _caller(
    request: Request, doors: Doors, given: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]
) -> AsyncIterator[Access]:
    """Yield the caller of a request. The request occupies a share of the gateway until its answer has ended."""
    caller: Access | None = getattr(request.state, "caller", None)  # of a write: the guard asked before it read a body
    if caller is None:
        caller = await doors.checks.find(_shown(request, given))
    request.state.caller = caller
    if getattr(request.state, "holds_share", False):
        yield caller
    else:
        async with doors.shares.held(kind_of(request.url.path, request.scope["query_string"]), caller.key):
            yield caller


Caller = Annotated[Access, Depends(_caller)]


def having(*rights: Right) -> Callable[[Access], Coroutine[None, None, Access]]:
    """Return a FastAPI dependency: it returns the caller, or raises Refusal 403 if its key has none of `rights`.

    The dependency is a coroutine, because FastAPI runs every other dependency in a thread.
    """

    async def _having(caller: Caller) -> Access:
        caller.demand(*rights)
        return caller

    return _having


Producer = Annotated[Access, Depends(having(Right.PRODUCER))]
Controller = Annotated[Access, Depends(having(Right.CONTROLLER))]
Operator = Annotated[Access, Depends(having(Right.OPERATOR))]
