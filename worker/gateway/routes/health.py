"""`GET /healthz` and `/readyz`: whether this process lives, and whether it can do its work."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from redis.exceptions import RedisError

from worker.gateway.access import Doors
from worker.gateway.problems import RETRY_S, Refusal
from worker.store import deployment, functions

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def live() -> dict[str, Any]:  # in no thread: those may all wait for Redis
    """Report that this process answers."""
    return {"ok": True}


@router.get("/readyz")
def ready(doors: Doors) -> dict[str, Any]:
    """Report that Redis answers and has the planner's functions; otherwise 503."""
    try:
        doors.client.ping()
        deployment.check(doors.client, doors.partitions)
        if not functions.are_loaded(doors.client):
            functions.load(doors.client)
    except deployment.WrongDeployment as error:
        raise Refusal("not_ready", str(error), 503, retry_after_s=RETRY_S) from error
    except RedisError as error:
        raise Refusal("not_ready", "Redis does not serve us.", 503, retry_after_s=RETRY_S) from error
    return {"ok": True}
