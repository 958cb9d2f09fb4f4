"""The last commit that a worker knows of a partition: by it a rollback of the data is seen (DESIGN.md section 5).

A server that was restored from an older file, or a replica that lacked the last writes, has counted fewer commits
than a worker remembers. On every new connection the two are compared, and a commit that meets an older count is
refused (commit.lua). Then a new epoch begins, and every worker names the plans that it knows to have changed since.
"""

from __future__ import annotations

import logging
import time
import uuid
from pathlib import Path
from typing import NamedTuple

from redis import Redis

from worker.clients import Connects
from worker.store import functions
from worker.store.keys import Partition
from worker.store.shelf import Kept, Shelf

log = logging.getLogger("planner.commits")

REMEMBERED = 2000  # plans whose last commit is kept
SAVE_S = 1.0


class Lost(NamedTuple):
    """The commits after number `base` are gone, and with them what happened to `plans`; None: to any of them."""

    base: int
    plans: list[str] | None

    def and_also(self, other: Lost | None) -> Lost:
        """Join what was lost at two times."""
        if other is None:
            return self
        known = self.plans is not None and other.plans is not None
        plans = list(dict.fromkeys([*(self.plans or ()), *(other.plans or ())])) if known else None
        return Lost(min(self.base, other.base), plans)


class Commits:
    """What one process knows of one partition; kept in `folder`, for the others of this host and those to come.

    `connects` counts the connections that commits go over: on a new one the server has to be compared first.
    """

    def __init__(
        self, client: Redis, partition: Partition, folder: Path | None = None, connects: Connects | None = None
    ) -> None:
        self._client = client
        self._partition = partition
        self._shelf = Shelf(folder, partition.number) if folder else None
        self._connects = connects
        self._compared = -1  # the connection on which it was
        self._taken_up = False
        self._born = ""
        self._epoch = 0
        self._recent: dict[str, int] = {}  # plan -> number of its last commit, in their order
        self._forgotten = 0  # the highest number that `_recent` had to drop
        self._lost: Lost | None = None
        self._saved = time.monotonic()
        self._unsaved = False
        self.known = 0

    @property
    def field(self) -> str:
        """The field of `planner:{p}:commits` that counts the commits of this epoch."""
        return f"n:{self._epoch}"

    @property
    def is_compared(self) -> bool:
        """Whether the server of this connection was compared with what is known here."""
        return self._connects is None or self._connects.count == self._compared

    def note(self, plan_id: str, number: int) -> None:
        """Keep the number of a commit that was made."""
        self.known = max(self.known, number)
        self._recent.pop(plan_id, None)
        self._recent[plan_id] = number
        if len(self._recent) > REMEMBERED:
            self._forgotten = self._recent.pop(next(iter(self._recent)))
        self._unsaved = True
        if time.monotonic() - self._saved > SAVE_S:
            self.save()

    def compare(self) -> Lost | None:
        """Compare the server with what is known on this host, and go on in its epoch.

        Returns what was lost and not yet `told`.
        """
        born, *_ = self._ask()
        self._take_up(born)
        known = self.known
        self._born, self._epoch, counted, base = self._ask()
        if 0 <= base < known:
            log.error("data rolled back", extra={"count": known - base, "epoch": self._epoch})
            plans = [plan for plan, number in self._recent.items() if number > base]
            self._lost = Lost(base, None if self._forgotten > base else plans).and_also(self._lost)
            self._recent = {plan: number for plan, number in self._recent.items() if number <= base}
            self._forgotten = min(self._forgotten, base)
            self._unsaved = True
        self.known = counted
        self.save()
        self._compared = self._connects.count if self._connects else -1
        return self._lost

    def told(self) -> None:
        """Forget what was lost: every plan has heard of it."""
        self._lost, self._unsaved = None, True
        self.save()

    def save(self) -> None:
        """Keep what is known where the others of this host find it."""
        if self._shelf and self._unsaved and not self._shelf.put(self._born, self._kept()):
            self._shelf = None
        self._saved, self._unsaved = time.monotonic(), False

    def _ask(self) -> tuple[str, int, int, int]:
        key, fresh = self._partition.commits, uuid.uuid4().hex
        call = ("FCALL", functions.EPOCH, 1, key, self._epoch, self.known, fresh)
        born, epoch, counted, base = functions.call(self._client, *call)
        return born.decode(), epoch, counted, base

    def _take_up(self, born: str) -> None:
        """Know how far those that live on this host are, and all that those knew that ended here."""
        if self._shelf is None:
            return
        for kept in self._shelf.living(born):
            if kept.epoch == self._epoch or not self._taken_up:
                self._epoch, self.known = max((self._epoch, self.known), (kept.epoch, kept.known))
        with self._shelf.left_behind(born) as those:
            for kept in those:
                self._inherit(kept)
            if those:
                self._born, self._unsaved = born, True
                self.save()
        self._taken_up = True

    def _inherit(self, kept: Kept) -> None:
        self._lost = Lost(kept.lost[0], kept.lost[1]).and_also(self._lost) if kept.lost else self._lost
        if kept.epoch >= self._epoch:  # what an older epoch had lost is told before it ends
            self._epoch, self.known = max((self._epoch, self.known), (kept.epoch, kept.known))
            self._forgotten = max(self._forgotten, kept.forgotten)
            recent = {**kept.recent, **self._recent}
            self._recent = dict(sorted(recent.items(), key=lambda pair: pair[1]))

    def _kept(self) -> Kept:
        return Kept(
            epoch=self._epoch,
            known=self.known,
            forgotten=self._forgotten,
            recent=self._recent,
            lost=self._lost,
        )
