"""The content of callbacks: a short signed message to a webhook, or the status of a commit to a forge; pure."""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from schemas import codec
from schemas.base import PlanState
from schemas.times import rfc3339
from tasks.plan.lifecycle import PLAN_ENDS
from worker.store.endpoints import Endpoint

CONTEXT = "planner"  # name of the status of a commit
AGENT = "planner-callbacks/1"
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
STATUSES = {  # of a commit: at GitHub, at GitLab, and in words
    "plan.completed": ("success", "success", "The plan is completed."),
    "plan.halted": ("failure", "failed", "The plan was halted."),
    "plan.rejected": ("error", "failed", "The goal was rejected."),
    "plan.input_requested": ("pending", "pending", "The plan waits for a person."),
}
NO_COMMIT = "the plan has no full base_sha, to which a status could be given"
NO_STATUS = "it is about no commit"
OVERTAKEN = "the plan has ended meanwhile"
PREFIX = "whsec_"
SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class About:
    """The subject of a callback delivery: an event of a plan, with its time in ms."""

    type: str
    plan_id: str
    goal_id: str
    state: str
    at: int
    base_sha: str | None = None

    @classmethod
    def decode(cls, raw: bytes) -> About:
        """Return the subject that `encode` wrote; fields of newer versions are skipped."""
        record = codec.loads(raw)
        return cls(**{name: record.get(name) for name in cls.__slots__})

    def encode(self) -> bytes:
        """Return the subject as JSON."""
        return codec.dumps({name: getattr(self, name) for name in self.__slots__})


@dataclass(frozen=True, slots=True)
class Post:
    """A POST request: URL, headers and body."""

    url: str
    headers: dict[str, str]
    body: bytes


def write(
    endpoint: Endpoint, about: About, message_id: str, secrets: Sequence[str], public_url: str | None, now: int
) -> Post:
    """Return the request to an endpoint at `now`, in seconds; `secrets` are the valid ones."""
    path = f"/v1/plans/{about.plan_id}"
    link = f"{public_url.rstrip('/')}{path}" if public_url else None
    if endpoint.kind != "webhook":
        return _status(endpoint, about, secrets[0], link)
    data = {
        "plan_id": about.plan_id,
        "goal_id": about.goal_id,
        "state": about.state,
        "links": {"plan": link or path},
    }
    body = codec.dumps({"type": about.type, "timestamp": rfc3339(about.at), "data": data})
    return Post(endpoint.url, _headers() | sign(secrets, message_id, now, body), body)


def obstacle(endpoint: Endpoint, about: About, state: str | None) -> str:
    """Return the reason why a delivery is not needed; an empty text if it must be sent.

    `state` is the current state of the plan, None if the plan does not exist any more.
    """
    if endpoint.kind == "webhook":
        return ""
    if about.type not in STATUSES:
        return NO_STATUS
    if not COMMIT.fullmatch(about.base_sha or ""):
        return NO_COMMIT
    if about.type == "plan.input_requested" and state is not None and PlanState(state) in PLAN_ENDS:
        return OVERTAKEN  # statuses have no order but that of their coming
    return ""


def _status(endpoint: Endpoint, about: About, token: str, link: str | None) -> Post:
    github, gitlab, words = STATUSES[about.type]
    base, repo = endpoint.url.rstrip("/"), endpoint.repo or ""
    said: dict[str, Any] = {"description": words} | ({"target_url": link} if link else {})
    if endpoint.kind == "github":
        headers = {"authorization": f"Bearer {token}", "accept": "application/vnd.github+json"}
        url = f"{base}/repos/{quote(repo)}/statuses/{about.base_sha}"
        return Post(url, _headers() | headers, codec.dumps({"state": github, "context": CONTEXT, **said}))
    url = f"{base}/projects/{quote(repo, safe='')}/statuses/{about.base_sha}"
    return Post(url, _headers() | {"private-token": token}, codec.dumps({"state": gitlab, "name": CONTEXT, **said}))


def _headers() -> dict[str, str]:
    return {"content-type": "application/json", "user-agent": AGENT, "accept-encoding": "identity"}


def write_secret(random: bytes) -> str:
    """Return a secret in the form for endpoints."""
    return PREFIX + b64encode(random).decode()


def sign(secrets: Iterable[str], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a message, with a signature for each secret, so that a receiver needs only one of them."""
    content = b"%s.%d." % (message_id.encode(), timestamp) + body
    made = [
        b64encode(hmac.digest(b64decode(secret.removeprefix(PREFIX)), content, sha256)).decode() for secret in secrets
    ]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{each}" for each in made),
    }
