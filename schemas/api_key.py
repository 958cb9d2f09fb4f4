"""The keys that callers of the gateway show, and what each of them may do."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from schemas.base import Record


class Right(StrEnum):
    """What a key is for; `ADMIN` has all of the others."""

    PRODUCER = "producer"  # goals of its tenant, on its queues and repositories, and what became of them
    CONTROLLER = "controller"  # claims, heartbeats and outcomes of its queues
    ANSWER = "answer"  # questions that inform
    OPERATOR = "operator"  # commands, consent, dead entries
    VIEWER = "viewer"  # reads
    ADMIN = "admin"


class ApiKey(Record):
    """A key as it is stored, without its secrets."""

    key_id: str
    rights: tuple[Right, ...]
    tenant: str | None = None  # for all tenants without one
    queues: tuple[str, ...] = ("default",)
    repositories: tuple[str, ...] = ()  # for all without one
    expires_at: str | None = None

    def may(self, right: Right) -> bool:
        """Tell whether the key has a right."""
        return right in self.rights or Right.ADMIN in self.rights


def key_of(found: Any) -> ApiKey:
    """Read a stored key."""
    return ApiKey.model_validate_json(found)
