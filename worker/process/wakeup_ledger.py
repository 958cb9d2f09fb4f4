"""The wake-ups of a process that were sent and have not ended, at most one for each task and its arguments."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

LOST_S = 0.25  # a wake-up that a worker with a free slot was not given for so long is lost, or another worker has it
ANSWERED_S = 0.02  # the same where another's wake-up for the same work was done here meanwhile
MOST_LOST_S = 1.0  # limit of LOST_S, which grows with every loss in a row
MOST_PASSED = 32  # wake-ups of other queues after which a missing one is lost: a worker takes from queues in turn
DEAF_S = 2.0  # maximum wait for a wake-up while this worker hears nothing from its broker


class Key(NamedTuple):
    """The work of a wake-up: a task and its arguments, such as the number of a partition."""

    task: str
    args: tuple[int, ...] = ()


class Request(Protocol):
    """A wake-up that this worker has received: the needed parts of Celery's request object."""

    @property
    def id(self) -> str:
        """The id of the wake-up."""

    @property
    def name(self) -> str:
        """The name of the wake-up's task."""

    @property
    def args(self) -> Iterable[int]:
        """The arguments of the wake-up's task."""


class WakeupState(Enum):
    """The state of a work, and the action of poller and reader in this state."""

    FREE = "send a wake-up"
    BUSY = "wait: a wake-up is under way, or is done here"
    DEAF = "work by yourself: this worker hears nothing from its broker, which may have a wake-up already"


@dataclass(slots=True)
class _Sent:
    id: str
    queue: str
    number: int
    since: float
    is_received: bool = False
    passed: int = 0  # wake-ups in a row that came from other queues, and none from this one


class Ledger:
    """Records the wake-ups that a process sent; the process does `slots` tasks at a time.

    While all slots are busy, a wake-up may wait in the broker for any time. It counts as lost in three cases. A later
    one of the same queue was received: queues are first in, first out. Or a slot was free and it did not arrive. Or
    many wake-ups of other queues arrived and none of this queue: a worker takes from its queues in turn.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._lock = threading.Lock()
        self._sent: dict[Key, _Sent] = {}
        self._keys: dict[str, Key] = {}  # the sent wake-ups by id
        self._numbers = 0
        self._received: Counter[str] = Counter()  # by queue: the highest number of a wake-up of ours that came back
        self._answered: set[Key] = set()  # done here by another's wake-up while ours was under way
        self._lost: Counter[Key] = Counter()  # wake-ups in a row
        self._taken: dict[Key, dict[str, float]] = {}  # requests in progress, with their start
        self._unable = 0.0  # when this worker was last seen unable to take a wake-up: every slot busy, or deaf

    def send(self, key: Key, wakeup: str, now: float, queue: str = "") -> float | None:
        """Record a wake-up to `queue` (default: its task's queue). Return the share of its time that its work may take.

        With these shares, each waiting work has its turn within the time of one whole drain. Returns None if another
        thread has sent a wake-up for the same work meanwhile.
        """
        with self._lock:
            if key in self._sent:
                return None
            self._numbers += 1
            self._sent[key] = _Sent(wakeup, queue or key.task, self._numbers, now)
            self._keys[wakeup] = key
            waiting = Counter(each.queue for each in self._sent.values())
            return min(1.0, self._slots / (len(waiting) * max(waiting.values())))

    def sent(self) -> set[Key]:
        """Return the keys of wake-ups that were sent and have not ended, as far as is known."""
        with self._lock:
            return set(self._sent)

    def take_back(self, key: Key) -> None:
        """Remove a wake-up that the broker did not accept."""
        with self._lock:
            self._forget(key)

    def note_received(self, wakeup: str) -> None:
        """Record that this worker received a wake-up; it may have been sent by another worker."""
        with self._lock:
            if key := self._keys.get(wakeup):
                sent = self._sent[key]
                sent.is_received = True
                self._received[sent.queue] = max(self._received[sent.queue], sent.number)
                del self._lost[key]
            for other in self._sent.values():
                other.passed = other.passed + 1 if key and other.queue != sent.queue else 0

    def look(self, key: Key, requests: Mapping[str, Request] | None, now: float, stuck_s: float) -> WakeupState:
        """Return the state of the work `key`; `requests` are this worker's wake-ups, None while the broker is away."""
        with self._lock:
            sent = self._sent.get(key)
            if requests is None or len(requests) >= self._slots:
                self._unable = now
            if requests is None and sent:
                return WakeupState.BUSY if now - sent.since < DEAF_S else WakeupState.DEAF
            if requests is None:
                return WakeupState.FREE
            if self._is_in_hand(key, requests, now, stuck_s):
                return WakeupState.BUSY
            if sent is None:
                return WakeupState.FREE
            if not self._has_gone(key, sent, now):
                return WakeupState.BUSY
            self._forget(key)
            return WakeupState.FREE

    def _is_in_hand(self, key: Key, requests: Mapping[str, Request], now: float, stuck_s: float) -> bool:
        """Return whether this worker does the work, by a wake-up that it received less than `stuck_s` seconds ago."""
        known = self._taken.get(key, {})
        ids = [each.id for each in tuple(requests.values()) if each.name == key.task and tuple(each.args) == key.args]
        self._taken[key] = {each: known.get(each, now) for each in ids}
        sent = self._sent.get(key)
        if sent and any(each != sent.id for each in ids):
            self._answered.add(key)
        return any(now - since < stuck_s for since in self._taken[key].values())

    def _has_gone(self, key: Key, sent: _Sent, now: float) -> bool:
        if sent.is_received or sent.number < self._received[sent.queue]:
            return True
        if sent.passed >= MOST_PASSED:
            self._lost[key] += 1
            return True
        patience = ANSWERED_S if key in self._answered else min(MOST_LOST_S, LOST_S * 2 ** self._lost[key])
        if now - max(sent.since, self._unable) < patience:
            return False
        self._lost[key] += 1
        return True

    def _forget(self, key: Key) -> None:
        if sent := self._sent.pop(key, None):
            self._keys.pop(sent.id, None)
        self._answered.discard(key)
