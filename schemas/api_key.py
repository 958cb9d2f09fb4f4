"""The API keys of the gateway's callers, and the rights of each."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, NamedTuple

from pydantic import Field, StringConstraints

from schemas.base import Name, QueueName, Record

PERIODS = {"s": 1, "m": 60, "h": 3600}  # seconds, by the letter that a rate ends with
ALWAYS_SHARED = "default"  # the queue that no tenant can have for itself

KeyId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]{1,32}$")]
Repository = Annotated[str, StringConstraints(min_length=1, max_length=200)]
PersonName = Annotated[
    str, StringConstraints(pattern=r"^\w[\w .,'@+-]{0,59}$")
]  # no parenthesis: the caller's name has the key's id in parentheses
RateText = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,6}/[smh]$")]


class Right(StrEnum):
    """A right of a key; `ADMIN` includes all others."""

    PRODUCER = "producer"  # goals of its tenant, on its queues and repositories, and their results
    CONTROLLER = "controller"  # claims, heartbeats and outcomes of its queues
    ANSWER = "answer"  # questions that inform
    OPERATOR = "operator"  # commands, consent, dead entries
    VIEWER = "viewer"  # reads
    ADMIN = "admin"


class Rate(NamedTuple):
    """The rate of requests for a key: `requests` at once, and as many again in each period."""

    requests: int
    period_s: int


class ApiKey(Record):
    """A key as it is stored, without its secrets."""

    key_id: KeyId
    name: PersonName | None = None  # of the person who holds it
    rights: tuple[Right, ...]
    tenant: Name | None = None  # for all tenants without one
    queues: tuple[QueueName, ...] = Field(default=(ALWAYS_SHARED,), min_length=1, max_length=100)
    repositories: tuple[Repository, ...] = Field(default=(), max_length=1000)  # for all without one
    rate: RateText | None = None  # such as 100/m; not limited without one
    created_at: str | None = None
    expires_at: str | None = None  # the key and its record are gone then
    subject: str | None = None  # of the OIDC token that it was given for

    @property
    def called(self) -> str:
        """The caller's name in commands and the audit."""
        return f"{self.name} (key {self.key_id})" if self.name else f"key {self.key_id}"

    @property
    def sees_all(self) -> bool:
        """Return whether the key is for every tenant and every repository."""
        return self.tenant is None and not self.repositories

    def may(self, right: Right) -> bool:
        """Return whether the key has a right."""
        return right in self.rights or Right.ADMIN in self.rights


def rate_of(text: str) -> Rate:
    """Read a rate such as 100/m."""
    requests, _, period = text.partition("/")
    return Rate(int(requests), PERIODS[period])
