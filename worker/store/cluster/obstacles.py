"""Errors of a cluster: a slot that its server does not serve, and a server that belongs to no cluster."""

from __future__ import annotations

from redis.exceptions import AskError, ClusterDownError, MasterDownError, TryAgainError
from redis.exceptions import ConnectionError as NoConnection

from worker.settings.cluster import Address
from worker.store.clients import RefusedRedis

MOVING = (AskError, TryAgainError, ClusterDownError, MasterDownError)  # MOVED is an AskError, too


class SlotMoved(NoConnection):
    """A server refuses a command, because it does not serve the slot, or not yet. The command had no effect."""


class NoCluster(RefusedRedis):
    """A server that a cluster's URL names belongs to no cluster."""

    def __init__(self, address: Address) -> None:
        where = f"{address.host}:{address.port}"
        super().__init__(
            "wrong_settings", f"{where} is a single server and no cluster: set PLANNER_REDIS_URL=redis://{where}."
        )
