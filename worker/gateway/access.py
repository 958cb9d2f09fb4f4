"""Who calls, by the key that the request shows, and what that key may do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from schemas.api_key import ApiKey, Right
from worker.gateway.context import Doors
from worker.gateway.problems import Refusal
from worker.store import api_keys
from worker.store.keys import NO_TENANT

BEARER = HTTPBearer(auto_error=False, description="A key: `pk_<id>_<secret>`.")


class Access:
    """A caller: what its key lets it see and do."""

    def __init__(self, key: ApiKey) -> None:
        self.key = key

    def demand(self, *rights: Right) -> None:
        """Raise Refusal 403 where the key has none of `rights`."""
        if not any(self.key.may(right) for right in rights):
            raise Refusal("no_right", f"This key has not the right: {' or '.join(rights)}.", 403)

    def may_see(self, tenant: str, repo: str | None) -> bool:
        """Tell whether things of this tenant and repository are the caller's; for it others do not exist (404)."""
        whose = self.key.tenant in (None, tenant)
        return whose and (not self.key.repositories or repo in self.key.repositories)

    def tenant_for(self, named: str | None) -> str:
        """Return the tenant of a goal: the key's. Raises Refusal 403 where the goal names another one."""
        if self.key.tenant is None:
            return named or NO_TENANT
        if named not in (None, self.key.tenant):
            raise Refusal("wrong_tenant", f"This key is of tenant {self.key.tenant}.", 403)
        return self.key.tenant

    def demand_queue(self, queue: str) -> None:
        """Raise Refusal 403 for a queue that is not the key's."""
        if queue not in self.key.queues:
            raise Refusal("wrong_queue", f"This key is not for the queue {queue}.", 403)

    def demand_repository(self, repo: str | None) -> None:
        """Raise Refusal 403 for a repository that is not the key's."""
        if self.key.repositories and repo not in self.key.repositories:
            raise Refusal("wrong_repository", f"This key is for {', '.join(self.key.repositories)} alone.", 403)


def _caller(doors: Doors, shown: Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]) -> Access:
    key = api_keys.find(doors.client, shown.credentials) if shown else None
    if key is None:
        raise Refusal("no_key", "Show a key: Authorization: Bearer pk_...", 401)
    return Access(key)


Caller = Annotated[Access, Depends(_caller)]


def having(*rights: Right) -> Callable[[Access], Access]:
    """Make a dependency: a caller whose key has one of `rights`."""

    def _having(caller: Caller) -> Access:
        caller.demand(*rights)
        return caller

    return _having


Viewer = Annotated[Access, Depends(having(Right.VIEWER))]
Producer = Annotated[Access, Depends(having(Right.PRODUCER))]
Controller = Annotated[Access, Depends(having(Right.CONTROLLER))]
Operator = Annotated[Access, Depends(having(Right.OPERATOR))]
