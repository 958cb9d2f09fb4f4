"""Reads the outcomes of all partitions that a worker owns in a thread, and applies them while its pool is idle.

One read waits for entries of all these partitions. A partition with many or slow outcomes is handed to the pool, and
returns when the pool has finished.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from tasks.routes import OUTCOMES
from worker.process import jobs
from worker.process.blocking_read import BlockingRead
from worker.process.hands import Hands
from worker.process.idle_drain import IdleDrain, count_of
from worker.process.ownership import Owner, Ownership
from worker.process.partition_engines import consumer, forget_plans
from worker.process.poller import BLOCK_MS, ELSEWHERE_S, LOOK_S, make_groups
from worker.process.wakeup import Wakeups
from worker.process.wakeup_ledger import Key, WakeupState
from worker.process.watchdog import Beat
from worker.process.watches import WAKEUP_STUCK_S
from worker.store import clients, functions, looks
from worker.store.keys import GROUP, Partition
from worker.telemetry.outage import Outage, pause

log = logging.getLogger("planner.ingress")

TURN_S = 0.02  # the pool has this time before the reader continues by itself
FIRST_LOOKS = 8  # engines that run without new entries, between two reads
STEADY_S = 5.0  # after this time an error counts as the first


class Seat:
    """The reader's state for one partition."""

    def __init__(self, partition: Partition) -> None:
        self.number = partition.number
        self.work = Key(OUTCOMES.task, (partition.number,))
        self.drain = IdleDrain(partition)
        self.woken = 0.0  # when the pool was asked
        self.is_pools = False  # whether the pool had the work at the last look
        self.failures = 0  # in a row
        self.again = 0.0  # when it is read next, after a failure
        self.is_refused = False  # whether the server refused to read its stream

    def fail(self) -> None:
        """Count a failure; the partition then waits, longer after each failure in a row."""
        self.again = time.monotonic() + pause(self.failures)
        self.failures += 1


class Reader(threading.Thread):
    """Applies the outcomes of the partitions that this worker owns, or has its pool apply them.

    Survives any error of a server.
    """

    def __init__(
        self,
        url: str,
        store: Outage,
        wakeups: Wakeups,
        ownership: Ownership,
        hands: Hands,
        partitions: Sequence[Partition],
        slot: str = "",
    ) -> None:
        super().__init__(name=f"reader{slot}", daemon=True)
        self._url = url
        self._store = store
        self._wakeups = wakeups
        self._ownership = ownership
        self._hands = hands
        self._seats = {partition.outcomes: Seat(partition) for partition in partitions}
        self._kept: set[int] = set()  # partitions that may have hot plans here
        self._since: Mapping[str, object] = {}  # what `look` of each drain was when the read that waits was sent
        self._beat = 0.0
        self._ending = threading.Event()

    def stop(self) -> None:
        """Stop the thread, which ends within BLOCK_MS or when its current work is done."""
        self._ending.set()

    def beats(self) -> list[Beat]:
        """Return the last beat of this thread, and whether it is alive, for each stream that it reads."""
        is_alive = self.is_alive() or self._ending.is_set()
        owners = self._ownership.all()
        return [
            Beat(stream, self._beat, is_alive, owners.get(seat.number) is not Owner.ELSEWHERE)
            for stream, seat in self._seats.items()
        ]

    def run(self) -> None:
        """Read and apply until `stop`. It waits during an outage, and reports it once."""
        failures = 0
        while not self._ending.is_set():
            started = time.monotonic()
            try:
                with clients.connect(self._url, BLOCK_MS / 1000) as client, BlockingRead(client, BLOCK_MS) as read:
                    self._read_on(client, read)
            except RedisError as error:
                self._store.begins(self.name, error)
            except Exception:
                log.exception("ingress failed", extra={"stream": "outcomes"})
            failures = 0 if time.monotonic() - started > STEADY_S else failures + 1
            self._beat = time.monotonic()
            self._ending.wait(pause(failures - 1) if failures else 0)

    def _read_on(self, client: Redis, read: BlockingRead) -> None:
        self._make_groups(client, list(self._seats))
        for stream in self._seats:
            log.info("ingress consumes", extra={"stream": stream})
        try:
            while not self._ending.is_set():
                self._round(client, read)
                self._store.ends(self.name)
            if read.streams:  # its reply would wait for another worker
                while not read.is_ready(BLOCK_MS / 1000):
                    pass
                self._take(self._receive(client, read), self._since)
        except Exception:
            self._lose(read.streams)
            raise

    def _lose(self, streams: Iterable[str]) -> None:
        for stream in streams:
            self._seats[stream].drain.lose_reply()

    def _round(self, client: Redis, read: BlockingRead) -> None:
        """Process each own partition once, and wait for new entries of the partitions that are not the pool's."""
        self._note_beat()
        ours = self._own()
        busy = self._wakeups.under_way(OUTCOMES.task) | self._hands.keys(OUTCOMES.task)
        seats = {
            stream: seat
            for stream, seat in ours.items()
            if not (seat.is_pools or seat.work in busy or seat.failures) or self._is_idle(client, seat)
        }
        free = {stream: seat for stream, seat in seats.items() if not seat.drain.is_full}
        if free and not read.streams:
            self._since = {stream: seat.drain.look for stream, seat in free.items()}
            read.send(self._command(free), dict.fromkeys(free, ">"))
        rest = {stream: seat for stream, seat in free.items() if stream not in read.streams}
        if rest:  # they have come back, or are new: until the read that waits is over they are read without waiting
            since = {stream: seat.drain.look for stream, seat in rest.items()}
            self._take(self._ask(client, rest), since)
        is_due = self._finish(seats)
        is_waiting = is_due or rest or len(seats) < len(ours) or len(free) < len(seats)
        if not read.streams:
            self._ending.wait(LOOK_S if ours else ELSEWHERE_S)
        elif read.is_ready(LOOK_S if is_waiting else BLOCK_MS / 1000):
            self._take(self._receive(client, read), self._since)

    def _note_beat(self) -> None:
        self._beat = time.monotonic()
        self._ownership.note_watched()

    def _own(self) -> dict[str, Seat]:
        """Return the partitions that this worker owns, by stream.

        Entries that were read earlier from other partitions are still applied, and their hot plans are dropped.
        """
        owners, ours, is_left = self._ownership.all(), dict[str, Seat](), jobs.is_some_left()
        for stream, seat in self._seats.items():
            owner = owners.get(seat.number, Owner.NOBODY)
            if owner is Owner.HERE:
                ours[stream] = seat
                self._kept.add(seat.number)
                if is_left and jobs.take_left(seat.work):
                    self._wake(seat)
                continue
            if seat.drain.has_left and max(seat.drain.due_at, seat.again) <= self._beat:
                self._try(seat, seat.drain.finish)
            if owner is Owner.ELSEWHERE and seat.number in self._kept and forget_plans(seat.number):
                self._kept.discard(seat.number)
        return ours

    def _is_idle(self, client: Redis, seat: Seat) -> bool:
        """Return whether this thread may process a partition, because the pool has no work for it.

        If the pool has just finished and new entries are there, the pool continues: it has the hot plans.
        """
        if seat.failures and self._beat < seat.again:
            return False
        if seat.is_refused and self._make_groups(client, [seat.drain.stream]):
            return False
        is_busy = self._wakeups.state(seat.work, WAKEUP_STUCK_S) is WakeupState.BUSY
        in_turn = self._beat - seat.woken < TURN_S
        if self._hands.are_at(seat.work) or (is_busy and (in_turn or self._wakeups.is_begun(seat.work))):
            seat.is_pools = True
            return False
        if seat.is_pools and not is_busy and looks.unread(client, [seat.drain.stream])[0].has_more:
            self._wake(seat)
            return False
        seat.is_pools = False
        return True

    def _finish(self, seats: Mapping[str, Seat]) -> bool:
        """Apply the leftover work of engines that are due, a few at a time. Return whether more are due soon."""
        now = time.monotonic()
        due = sorted((seat for seat in seats.values() if seat.drain.due_at <= now), key=attrgetter("drain.due_at"))
        for seat in due[:FIRST_LOOKS]:
            self._try(seat, seat.drain.finish)
        return len(due) > FIRST_LOOKS or any(seat.drain.has_left for seat in due)

    def _take(self, reply: Sequence[Any], since: Mapping[str, object]) -> None:
        left = {name.decode(): entries for name, entries in reply}
        for stream in since.keys() - left.keys():
            self._seats[stream].drain.forget_sizes()
        try:
            while left:
                stream, entries = next(iter(left.items()))
                seat = self._seats[stream]
                del left[stream]  # its drain has them from now on
                if self._try(seat, partial(seat.drain.take, entries, since[stream])):
                    self._wake(seat)
        except Exception:
            self._lose(left)
            raise

    def _try(self, seat: Seat, work: Any) -> bool:
        """Do `work` for a partition. After an error that concerns only this partition, the partition waits for a while.

        Raises errors that concern all partitions of a server.
        """
        self._note_beat()
        try:
            is_busy = bool(work())
        except Exception as error:
            if isinstance(error, RedisError) and clients.concerns_server(error):
                raise
            log.exception("ingress failed", extra={"stream": seat.drain.stream})
            seat.fail()
            return False
        seat.failures = 0
        return is_busy

    def _wake(self, seat: Seat) -> None:
        """Hand a partition to the pool, or to a thread of this process if the broker accepts no wake-up."""
        state = self._wakeups.state(seat.work, WAKEUP_STUCK_S)
        if state is WakeupState.FREE and self._wakeups.send(seat.work, is_own=True):
            seat.woken, seat.is_pools = time.monotonic(), True
        elif state is not WakeupState.BUSY:
            self._hands.do(seat.work)

    def _command(self, seats: Mapping[str, Seat]) -> tuple[Any, ...]:
        return ("XREADGROUP", "GROUP", GROUP, consumer(), "COUNT", count_of([seat.drain for seat in seats.values()]))

    def _ask(self, client: Redis, seats: Mapping[str, Seat]) -> list[Any]:
        """Return the new entries of these partitions, without waiting for any."""
        try:
            found = functions.call(client, *self._command(seats), "STREAMS", *seats, *(">" for _ in seats))
        except ResponseError as error:
            return self._mend(client, error)
        except RedisError:
            self._lose(seats)
            raise
        return found or []

    def _receive(self, client: Redis, read: BlockingRead) -> list[Any]:
        try:
            return read.receive()
        except ResponseError as error:
            return self._mend(client, error)

    def _mend(self, client: Redis, error: ResponseError) -> list[Any]:
        """Create the groups that are missing, and return no entries. Raise the error if that is not its cause."""
        is_refused = self._make_groups(client, list(self._seats))
        if clients.concerns_server(error) or not (is_refused or "NOGROUP" in str(error)):
            raise error
        return []

    def _make_groups(self, client: Redis, streams: Sequence[str]) -> bool:
        """Create the groups that are missing. Return whether a stream is refused; its partition then waits."""
        refused = make_groups(client, streams)
        for stream in streams:
            seat = self._seats[stream]
            if stream in refused:
                seat.is_refused = True
                seat.fail()
            elif seat.is_refused:
                seat.is_refused, seat.failures = False, 0
        return bool(refused)
