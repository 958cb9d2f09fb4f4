"""The thread that maintains a worker's share of the partitions: it renews, takes and releases their leases.

The processes of a pool are one worker. No work depends on an owner: if none is known, each worker wakes its pool.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from redis import Redis
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import NoPermissionError, RedisError
from redis.exceptions import TimeoutError as TookTooLong

from worker.settings.settings import Settings
from worker.store import clients, owners
from worker.store.functions import FunctionsMissing
from worker.store.owners import FRESH_MS, LEASE_MS, Act


class Moves(NamedTuple):
    """The partitions that a worker may take, and the partitions that it has to release."""

    take: frozenset[int] = frozenset()
    give: frozenset[int] = frozenset()


def share(owners: Mapping[int, str], workers: Collection[str], me: str) -> Moves:
    """Return the partitions that the worker `me` takes and releases; `owners` has "" for a free partition. Pure.

    All workers compute the same result from the same data. The workers with the fewest partitions take free ones. If
    none is free, a worker with more than its share releases the rest. A difference of one partition changes nothing.
    """
    counts = Counter(dict.fromkeys((*workers, me), 0))
    counts.update(owner for owner in owners.values() if owner in counts)
    least, rest = divmod(len(owners), len(counts))
    others_lack = any(count < least for worker, count in counts.items() if worker != me)
    most = least + bool(rest)
    may_have = least if others_lack else most
    mine = sorted(number for number, owner in owners.items() if owner == me)
    free = sorted(number for number, owner in owners.items() if not owner)
    return Moves(frozenset(free[: max(0, may_have - len(mine))]), frozenset(mine[may_have:] if not free else ()))


log = logging.getLogger("planner.ownership")

LOOK_S = 0.2  # between looks: maximum delay until a released partition is taken
ATTEND_S = 1.0  # between looks at who else is there
HANGS_S = 10.0  # time for one action of the reader; after it, others take its partitions
PATIENCE_S = 2.0  # with a server that does not answer
JOIN_S = 3.0


class Owner(Enum):
    """The owner of a partition, as this worker knows it."""

    HERE = "this worker"
    ELSEWHERE = "another worker, which is there"
    NOBODY = "no worker, or an unknown one"


class Ownership(threading.Thread):
    """Maintains the leases of one worker; `token` is the worker's name."""

    def __init__(self, settings: Settings, token: str, partitions: Iterable[int]) -> None:
        super().__init__(name="ownership", daemon=True)
        self.token = token
        self._settings = settings
        self._owners = dict.fromkeys(partitions, "")
        self._seen_at = -LEASE_MS / 1000  # when the last successful look began
        self._watched = time.monotonic()
        self._found: Mapping[int, Owner] = {}
        self._attended = 0.0
        self._workers: frozenset[str] = frozenset()
        self._ending = threading.Event()
        self._is_refused = False

    def of(self, number: int) -> Owner:
        """Return the owner of a partition, by the same rules as `all`."""
        return self.all().get(number, Owner.NOBODY)

    def all(self) -> Mapping[int, Owner]:
        """Return the owner of each partition by number; a partition that is missing has no known owner.

        The data are valid for the time of a lease: a worker that was stopped for longer owns nothing when it continues.
        """
        is_fresh = time.monotonic() - self._seen_at < (LEASE_MS - FRESH_MS) / 1000
        return self._found if is_fresh else {}

    def note_watched(self) -> None:
        """Record that the reader runs. Without such a record for a while, other workers take the partitions."""
        self._watched = time.monotonic()

    @property
    def owned(self) -> tuple[int, ...]:
        """The partitions that this worker owns."""
        return tuple(number for number, owner in self.all().items() if owner is Owner.HERE)

    def run(self) -> None:
        """Maintain the leases until `stop`, then release them.

        During an outage it waits; poller and reader report that.
        """
        while self._owners and not self._ending.is_set():
            try:
                with clients.connect(self._settings.redis_url, patience_s=PATIENCE_S) as client:
                    self._keep(client)
            except NoPermissionError as error:  # it works as one that knows no owners
                if not self._is_refused:
                    log.warning("no owners", extra={"error": str(error)})
                self._is_refused = True
            except (RedisError, FunctionsMissing) as error:
                log.debug("no look at the owners", extra={"error": str(error)})
            except Exception:
                log.exception("ownership failed")
            self._ending.wait(ATTEND_S)

    def stop(self) -> None:
        """Release all partitions of this worker, so that others take them at once, and take no more."""
        self._ending.set()
        if self.ident:
            self.join(JOIN_S)

    def _keep(self, client: Redis) -> None:
        while not self._ending.is_set():
            self._look(client)
            self._ending.wait(LOOK_S)
        self._take_note(time.monotonic(), owners.hold(client, self.token, dict.fromkeys(self._owners, "give")))
        owners.register(client, self.token, leaves=True)

    def _look(self, client: Redis) -> None:
        began = time.monotonic()
        if began - self._attended >= ATTEND_S:
            try:
                self._workers = owners.register(client, self.token)
            except (NoConnection, TookTooLong):  # in a cluster the leases may be on other servers
                if not clients.has_several(client):
                    raise
            self._attended = began
        moves = share(self._owners, self._workers, self.token)
        acts: dict[int, Act] = dict.fromkeys(self._owners, "look")
        acts.update(dict.fromkeys(moves.take, "take"))
        acts.update(dict.fromkeys(moves.give, "give"))
        if began - self._watched > HANGS_S:
            acts = dict.fromkeys(self._owners, "give")
        self._take_note(began, owners.hold(client, self.token, acts))

    def _take_note(self, began: float, found: dict[int, str]) -> None:
        before = {number for number, owner in self._owners.items() if owner == self.token}
        own = {token: Owner.HERE if token == self.token else Owner.ELSEWHERE for token in found.values() if token}
        self._found = {number: own[owner] for number, owner in found.items() if owner}
        self._owners, self._seen_at = found, began
        after = {number for number, owner in found.items() if owner == self.token}
        if taken := sorted(after - before):
            log.info("partitions taken", extra={"partitions": taken})
        if given := sorted(before - after):
            log.info("partitions given", extra={"partitions": given})
