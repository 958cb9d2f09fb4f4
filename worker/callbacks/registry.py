"""Endpoints for operators: added with a secret that is shown once, rotated, described."""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import replace
from typing import Any, NamedTuple

from redis import Redis

from schemas.times import rfc3339
from tasks.base.errors import PlannerError
from worker.callbacks.addresses import Network, literal, may_call, parse_url
from worker.callbacks.message import SECRET_BYTES, write_secret
from worker.callbacks.queue import Delivery
from worker.callbacks.sealing import SecretBox
from worker.store import endpoints
from worker.store.endpoints import EVENTS, Endpoint, EndpointKind, EventName, Secret

MOST_ENDPOINTS = 1000
OWNER_AND_NAME = {"github": re.compile(r"[\w.-]+/[\w.-]+"), "gitlab": re.compile(r"[\w.-]+(?:/[\w.-]+)+")}
TOKEN = re.compile(r"[\x21-\x7e]{1,4000}")


class WrongEndpoint(PlannerError):
    """The endpoint is invalid, or there are too many endpoints."""


class Wanted(NamedTuple):
    """An operator's description of a new endpoint; `token` is only for a forge."""

    url: str
    kind: EndpointKind = "webhook"
    events: tuple[str, ...] = EVENTS
    tenant: str | None = None
    repo: str | None = None
    named: bool = False
    token: str = ""


def add(
    client: Redis, box: SecretBox, wanted: Wanted, partitions: int, allowed: tuple[Network, ...]
) -> tuple[Endpoint, str]:
    """Add an endpoint. Return it with its secret, which cannot be shown again.

    Raises PlannerError if the endpoint is invalid or cannot be stored.
    """
    events = _checked(wanted, allowed)
    if len(endpoints.read_all(client)) >= MOST_ENDPOINTS:
        raise WrongEndpoint(f"There are {MOST_ENDPOINTS} endpoints, which is the most.")
    secret = wanted.token or write_secret(secrets.token_bytes(SECRET_BYTES))
    made = Endpoint(
        id=f"ep_{secrets.token_hex(8)}",
        kind=wanted.kind,
        url=wanted.url,
        events=events,
        tenant=wanted.tenant,
        repo=wanted.repo,
        named=wanted.named,
        created=int(time.time() * 1000),
        secrets=(Secret(box.seal(secret)),),
    )
    endpoints.write(client, made, partitions)
    return made, secret


def rotate(
    client: Redis, box: SecretBox, endpoint: Endpoint, partitions: int, keep_s: float, token: str = ""
) -> tuple[Endpoint, str]:
    """Give an endpoint another secret; messages are also signed with the old one for `keep_s`.

    Every secret is encrypted again with the newest key of the file. A forge's token is replaced at once.
    """
    if (endpoint.kind == "webhook") == bool(token):
        raise WrongEndpoint("A token is for the status of a commit, and that has no other secret.")
    if token and not TOKEN.fullmatch(token):
        raise WrongEndpoint("The token is empty, too long, or has blanks.")
    now = int(time.time() * 1000)
    secret = token or write_secret(secrets.token_bytes(SECRET_BYTES))
    newest, *_ = endpoint.secrets
    kept = (Secret(box.seal(box.unseal(newest.sealed)), now + int(keep_s * 1000)),) if keep_s and not token else ()
    made = replace(endpoint, secrets=(Secret(box.seal(secret)), *kept))
    endpoints.write(client, made, partitions)
    return made, secret


def describe(endpoint: Endpoint) -> dict[str, Any]:
    """Return an endpoint for JSON, without its secrets."""
    return {
        "endpoint_id": endpoint.id,
        "kind": endpoint.kind,
        "url": endpoint.url,
        "events": list(endpoint.events),
        "tenant": endpoint.tenant,
        "repo": endpoint.repo,
        "named": endpoint.named,
        "created_at": rfc3339(endpoint.created),
        "disabled": endpoint.off or None,
        "secrets": len([each for each in endpoint.secrets if not each.until or each.until > time.time() * 1000]),
    }


def describe_delivery(delivery: Delivery) -> dict[str, Any]:
    """Return a delivery for JSON: its subject, and the results of its tries."""
    due = rfc3339(delivery.due) if delivery.due and not delivery.leased else None
    return {
        "webhook_id": delivery.id,
        "type": delivery.about.type,
        "plan_id": delivery.about.plan_id,
        "goal_id": delivery.about.goal_id,
        "at": rfc3339(delivery.about.at),
        "state": delivery.ended or ("sending" if delivery.leased > time.time() * 1000 else "waiting"),
        "tries": delivery.tries,
        "next_try_at": due if not delivery.ended else None,
        "attempts": delivery.log,
    }


def _checked(wanted: Wanted, allowed: tuple[Network, ...]) -> tuple[EventName, ...]:
    url = parse_url(wanted.url)
    address = literal(url.raw_host.decode())
    if address and not may_call(address, allowed, url.scheme):
        how = "it is not public" if url.scheme == "https" else "without TLS callbacks go to allowed addresses alone"
        raise WrongEndpoint(f"{address} is not called: {how}. PLANNER_CALLBACK_ALLOW may allow it, for workers too.")
    if not wanted.events or (unknown := set(wanted.events).difference(EVENTS)):
        raise WrongEndpoint(f"--events takes some of {', '.join(EVENTS)}" + _other(unknown if wanted.events else ()))
    if wanted.kind != "webhook":
        if not OWNER_AND_NAME[wanted.kind].fullmatch(wanted.repo or "") or ".." in (wanted.repo or ""):
            raise WrongEndpoint("The status of a commit needs --repo, as goals name it and the forge does: acme/shop.")
        if not TOKEN.fullmatch(wanted.token):
            raise WrongEndpoint("The token is empty, too long, or has blanks.")
        if url.query:
            raise WrongEndpoint("The URL of a forge's API has no query.")
    return tuple(event for event in EVENTS if event in wanted.events)


def _other(unknown: object) -> str:
    return f", not {', '.join(sorted(map(str, unknown)))}." if isinstance(unknown, set) and unknown else "."
