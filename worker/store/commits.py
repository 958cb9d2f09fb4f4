"""The last commit that a worker knows of a partition, which reveals a rollback.

A server that was restored from an older file, or a replica without the last writes, has counted fewer commits than a
worker remembers. The two counts are compared on every new connection and with every sweep. A commit that meets an older
count is refused (commit.lua). Then a new epoch begins, and every worker names the plans that it knows to have changed
since. It uses its own records, and the files of other processes, which may have ended.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakSet

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from redis import Redis

from worker.host import temporary
from worker.store import functions
from worker.store.clients import Connects
from worker.store.keys import Partition

OLD_S = 7 * 86_400  # a process of another host cannot be checked; a live one writes its file again


class JournalRecord(BaseModel):
    """The record of one process about the commits of one partition, with the identity of the process.

    Newer versions may add fields.
    """

    model_config = ConfigDict(frozen=True)

    epoch: int
    known: int
    forgotten: int
    recent: dict[str, int]
    lost: tuple[int, list[str] | None] | None
    host: str = Field(default_factory=lambda: socket.gethostname())
    pid: int = Field(default_factory=os.getpid)
    started: str = Field(default_factory=lambda: temporary.start_time(os.getpid()) or "")  # its number may come again

    @field_validator("lost", mode="before")
    @classmethod
    def _known_elements(cls, value: Any) -> Any:
        return value[:2] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class OtherJournal:
    """The journal file of another process, with its content.

    `lives` is False if the process has ended, or if the file is old. For a process on another host only the age counts.
    """

    path: Path
    kept: JournalRecord
    lives: bool

    def forget(self) -> None:
        """Remove the file, because every plan knows of this process's lost commits.

        The file stays if the process has written it again.
        """
        with suppress(OSError, ValidationError):
            if JournalRecord.model_validate_json(self.path.read_bytes()) == self.kept:
                self.path.unlink()


class CommitJournal:
    """The journal files of one partition in `folder`; this object writes only the file of this process."""

    def __init__(self, folder: Path, partition: int) -> None:
        self._folder = folder
        self._prefix = f"commits-{partition}-"
        self._own = uuid.uuid4().hex

    def put(self, data_id: str, kept: JournalRecord) -> bool:
        """Store the record about the data set `data_id`. Returns whether that was possible, and logs a failure."""
        path = self._folder / f"{self._prefix}{data_id}-{self._own}.json"
        fresh = path.with_suffix(".new")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fresh.write_text(kept.model_dump_json())
            fresh.replace(path)
        except OSError as error:
            log.warning("commits are not kept", extra={"path": str(path), "error": str(error)})
            return False
        return True

    def others(self, data_id: str) -> list[OtherJournal]:
        """Return the records of other processes about the data set `data_id`; removes damaged files."""
        found = []
        for path in sorted(self._folder.glob(f"{self._prefix}{data_id}-*.json")):
            if self._own in path.name:
                continue
            with suppress(OSError):
                try:
                    kept = JournalRecord.model_validate_json(path.read_bytes())
                except ValidationError:
                    path.unlink()
                else:
                    is_foreign = kept.host != socket.gethostname()  # processes of another host cannot be checked
                    lives = is_foreign or temporary.start_time(kept.pid) == kept.started
                    found.append(OtherJournal(path, kept, lives and path.stat().st_mtime > time.time() - OLD_S))
        return found


log = logging.getLogger("planner.commits")

REMEMBERED = 2000  # plans whose last commit is kept
SAVE_S = 1.0
COMPARE_S = 1.0  # a sweep that comes sooner after the last comparison makes none


_open: WeakSet[Commits] = WeakSet()  # of this process: a forked process has none of its parent's
os.register_at_fork(after_in_child=_open.clear)


@atexit.register
def close_all() -> None:
    """Save all records at the end of a process.

    A daemon thread that runs compiled code during interpreter shutdown is killed. glibc then reports "FATAL: exception
    not rethrown" or worse. So no thread may save at that time.
    """
    for each in tuple(_open):
        each.close()


class Lost(NamedTuple):
    """Lost commits: all after number `base`. They changed the plans in `plans`; None means possibly any plan."""

    base: int
    plans: list[str] | None

    def and_also(self, other: Lost | None) -> Lost:
        """Return the union of two losses."""
        if other is None:
            return self
        known = self.plans is not None and other.plans is not None
        plans = list(dict.fromkeys([*(self.plans or ()), *(other.plans or ())])) if known else None
        return Lost(min(self.base, other.base), plans)


class Count(NamedTuple):
    """The commit count of a server; `base` is the number after which commits were lost, -1 for none."""

    data_id: str
    epoch: int
    counted: int
    base: int


class Commits:
    """Counts the commits that this process knows of one partition, and compares the count with the server's.

    The record is stored in `folder` for other and later processes of this host. `connects` counts the connections that
    commits use: after a new one, the server has to be compared first. One thread at a time may use it. Until `close`, a
    separate thread saves the record.
    """

    def __init__(
        self, client: Redis, partition: Partition, folder: Path | None = None, connects: Connects | None = None
    ) -> None:
        self._client = client
        self._partition = partition
        self._journal = CommitJournal(folder, partition.number) if folder else None
        self._connects = connects
        self._compared = -1  # the connection of the last comparison
        self._compared_at = -COMPARE_S
        self._lock = threading.Lock()  # for the file and all values that must be consistent in it
        self._data_id = ""
        self._epoch = 0
        self.field = "n:0"  # of `planner:{p}:commits`, which counts the commits of this epoch
        self._recent: dict[str, int] = {}  # plan -> number of its last commit, in their order
        self._forgotten = 0  # the highest number that `_recent` had to drop
        self._lost: Lost | None = None
        self._heard: list[OtherJournal] = []  # whose loss is part of `_lost`
        self._unsaved = False
        self._saving: threading.Timer | None = None  # the newest thread that saves, or has
        self._closed = False
        self.known = 0
        _open.add(self)

    @property
    def is_compared(self) -> bool:
        """Whether the server was compared on the current connection."""
        return self._connects is None or self._connects.count == self._compared

    @property
    def compared_on(self) -> int:
        """The number of the connection of the last comparison, in this process; -1 for none yet."""
        return self._compared

    def note(self, plan_id: str, number: int) -> None:
        """Record the number of a commit. It is in the file within SAVE_S."""
        self._recent.pop(plan_id, None)
        self._recent[plan_id] = number
        if len(self._recent) > REMEMBERED:
            self._forgotten = self._recent.pop(next(iter(self._recent)))
        if number > self.known:
            self.known = number
        if not self._unsaved:
            self._unsaved = True
            if not self._closed:
                self._saving = threading.Timer(SAVE_S, self.save)
                self._saving.daemon = True
                self._saving.start()

    def sees_loss(self) -> bool:
        """Compare the server with our record, unless that was just done. Return whether the server lost commits."""
        if self.is_compared and time.monotonic() - self._compared_at < COMPARE_S:
            return False
        return self.compare() is not None

    def compare(self) -> Lost | None:
        """Compare the server's commits with the records of this and other processes, and join the server's epoch.

        Returns the lost commits that the plans do not all know of yet; None if there are none.
        """
        data_id = self._ask(self._epoch, self.known).data_id
        connection = self._connects.count if self._connects else -1  # another thread may make one meanwhile
        others = self._journal.others(data_id) if self._journal else []
        highest = max([(self._epoch, self.known), *((each.kept.epoch, each.kept.known) for each in others)])
        server = self._ask(*highest)  # where it lacks some of that it has begun a new epoch
        base = self._base_since(self._epoch, server)
        with self._lock:
            if 0 <= base < self.known:
                log.error("data rolled back", extra={"count": self.known - base, "epoch": server.epoch})
                self._lost = _lost_after(base, self._recent, self._forgotten).and_also(self._lost)
                self._recent = {plan: number for plan, number in self._recent.items() if number <= base}
                self._forgotten = min(self._forgotten, base)
            self._take_up(others, server)
            self._data_id, self._epoch, self.known = server.data_id, server.epoch, server.counted
            self.field = f"n:{server.epoch}"
        self.save()
        for each in others:
            if not each.lives:
                each.path.unlink(missing_ok=True)
        self._compared = connection
        self._compared_at = time.monotonic()
        return self._lost

    def forget_loss(self) -> None:
        """Forget the loss, because every plan has heard of it."""
        self._lost = None
        self.save()
        for each in self._heard:
            each.forget()
        self._heard = []

    def save(self) -> None:
        """Store the record for the other processes of this host."""
        with self._lock:
            self._unsaved = False
            known = self.known  # before the plans: none of those numbers may lack its plan
            record = JournalRecord(
                epoch=self._epoch, known=known, forgotten=self._forgotten, recent=dict(self._recent), lost=self._lost
            )
            if self._journal and self._data_id and not self._journal.put(self._data_id, record):
                self._journal = None

    def close(self) -> None:
        """Save the record now, and stop the saving thread, because the process ends."""
        self._closed = True
        if self._saving:
            self._saving.cancel()
            self._saving.join()
        if self._unsaved:
            self.save()

    def _ask(self, epoch: int, known: int) -> Count:
        key, fresh = self._partition.commits, uuid.uuid4().hex
        found = functions.call(self._client, "FCALL", functions.EPOCH, 1, key, epoch, known, fresh)
        return Count(found[0].decode(), *found[1:])

    def _base_since(self, epoch: int, server: Count) -> int:
        """Return the number of the last commit before the loss, if the server lost commits since `epoch`; else -1."""
        return self._ask(epoch, 0).base if epoch < server.epoch else -1

    def _take_up(self, others: list[OtherJournal], server: Count) -> None:
        """Add the losses that the records of other processes show.

        Also adds all commits in the records of processes that have ended.
        """
        for each in others:
            kept, base = each.kept, self._base_since(each.kept.epoch, server)
            if 0 <= base < kept.known:
                lost = _lost_after(base, kept.recent, kept.forgotten)
                log.error("data rolled back", extra={"count": kept.known - base, "host": kept.host})
                self._lost = lost.and_also(self._lost)
                self._heard.append(each)
            if kept.lost and not each.lives:
                self._lost = Lost(*kept.lost).and_also(self._lost)
            if not each.lives:
                left = {plan: number for plan, number in kept.recent.items() if base < 0 or number <= base}
                merged = {**left, **self._recent}
                self._recent = dict(sorted(merged.items(), key=lambda pair: pair[1]))
                self._forgotten = max(self._forgotten, min(kept.forgotten, base) if base >= 0 else kept.forgotten)


def _lost_after(base: int, recent: Mapping[str, int], forgotten: int) -> Lost:
    """Return the plans that changed after commit `base`; all of them if more changed than are remembered."""
    return Lost(base, None if forgotten > base else [plan for plan, number in recent.items() if number > base])
