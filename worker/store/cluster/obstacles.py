"""The refusals of a cluster, as an error of a lost connection; and a server without a cluster."""

from __future__ import annotations

from redis.exceptions import AskError, ClusterDownError, MasterDownError, TryAgainError
from redis.exceptions import ConnectionError as NoConnection

from worker.settings.cluster import Address
from worker.store.clients import RefusedRedis

MOVING = (AskError, TryAgainError, ClusterDownError, MasterDownError)  # MOVED is an AskError, too


class SlotMoved(NoConnection):
    """A server does not serve a slot, or not yet; it did nothing."""


class NoCluster(RefusedRedis):
    """A server that a cluster's URL names belongs to no cluster."""

    def __init__(self, address: Address) -> None:
        where = f"{address.host}:{address.port}"
        super().__init__(
            "wrong_settings", f"{where} is a single server and no cluster: set PLANNER_REDIS_URL=redis://{where}."
        )
