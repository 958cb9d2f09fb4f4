"""Gives steps to controllers that ask over HTTP: their requests wait here, and one thread reads the queues for all.

The first caller in line receives the first step. A step is read only for a caller that waits, then claimed in the
caller's name, and given. A step that was read and cannot be given returns to its queue at once.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from redis import Redis
from redis.exceptions import OutOfMemoryError, RedisError

from schemas import codec
from worker.gateway.queue_watch import QueueWatch
from worker.gateway.waiter import State, Waiter, Wanted
from worker.store import claims, functions, keys
from worker.store.claims import SpecEntry
from worker.store.keys import CONTROLLERS

log = logging.getLogger("planner.gateway")

LONGEST_WAIT_S = 60
REMEMBERED_S = 60  # a repeated claim within this time returns the same steps
SWEEP_S = 1.0  # between two looks for steps of dead gateways, while a caller waits ...
SWEEP_IDLE_S = 5.0  # ... and while no caller waits
UNWATCHED_S = 0.05  # between two looks into a queue that is not watched yet
TRUSTED_S = 5.0  # a key is checked again after this time
UNWANTED_MS = 3 * claims.STRANDED_MS  # before this time, only a gateway with a caller takes a step over
TIDY_S = 600.0
IDLE_MS = 3_600_000  # idle time after which an empty consumer is removed


class ClaimDesk:
    """The place where callers wait for steps."""

    def __init__(self, make_client: Callable[[], Redis]) -> None:
        self._make_client = make_client
        self._change = threading.Condition()
        self._new: list[Waiter] = []
        self._back: list[tuple[SpecEntry, str]] = []
        self._left: list[tuple[SpecEntry, str]] = []  # those to hand back whose server is away, until the next sweep
        self._news: set[str] = set()
        self._shut = self._over = False
        self._thread = threading.Thread(target=self._run, name="claims", daemon=True)
        self._waiting: dict[str, dict[Waiter, None]] = {}  # the callers of each queue, in order of arrival
        self._known: set[str] = set()
        self._swept = self._tidied = 0.0
        self._turn = 0

    def start(self) -> None:
        """Start the thread that serves callers, and that takes over steps from gateways that died."""
        self._thread.start()

    def enter(self, wanted: Wanted) -> Waiter:
        """Add a caller that waits for steps. Runs in the server's event loop, as `leave` and `abandon` do."""
        waiter = Waiter(wanted, asyncio.get_running_loop().create_future())
        with self._change:
            if self._shut:
                waiter.state = State.LEFT
                waiter.given.set_result([])
            else:
                self._new.append(waiter)
                self._change.notify()
        return waiter

    async def leave(self, waiter: Waiter) -> list[SpecEntry]:
        """Stop waiting. Returns the steps that were being claimed at that moment."""
        return await asyncio.shield(waiter.given) if self._is_served(waiter) else []

    def abandon(self, waiter: Waiter) -> None:
        """Treat a caller as gone: its steps return to their queues, also those that are being claimed."""

        def _hand_back(given: asyncio.Future[list[SpecEntry]]) -> None:
            if not given.cancelled() and not given.exception():
                with self._change:
                    self._back += [(spec, waiter.token) for spec in given.result()]
                    self._change.notify()

        if self._is_served(waiter):
            waiter.given.add_done_callback(_hand_back)

    def _is_served(self, waiter: Waiter) -> bool:
        with self._change:
            if waiter.state is State.WAITS:
                waiter.state = State.LEFT
            waiter.leaves = True
            return waiter.state is State.IS_SERVED

    def waiting(self, stream: str) -> int:
        """Return the number of callers that wait for steps of a queue."""
        return len(self._waiting.get(stream, ()))

    def shut(self) -> None:
        """Answer all callers that wait, and admit no others."""
        with self._change:
            self._shut = True
            self._change.notify()

    def close(self) -> None:
        """Stop the thread after all steps that could not be given have returned to their queues."""
        with self._change:
            self._shut = self._over = True
            self._change.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _tell(self, streams: Iterable[str]) -> None:
        with self._change:
            self._news.update(streams)
            self._change.notify()

    def _run(self) -> None:
        with self._make_client() as client, self._make_client() as other:
            watch = QueueWatch(other, self._tell)
            watch.start()
            try:
                while not self._over or self._back:
                    self._turn_once(client, watch)
            finally:
                watch.stop()
                watch.join()

    def _turn_once(self, client: Redis, watch: QueueWatch) -> None:
        with self._change:
            self._change.wait_for(self._is_called, self._pause(watch))
            new, self._new = self._new, []
            back, self._back = self._back, []
            news, self._news = self._news, set()
        try:
            self._left += claims.hand_back(client, back)
            back = []
            if not self._shut:
                self._admit(client, new)
                fresh = {stream for waiter in new for stream in waiter.wanted.streams}
                wanted = self._wanted()
                self._read(client, [each for each in wanted if each in news | fresh or not watch.covers(each)])
                self._sweep(client)
            self._dismiss(new)
            watch.want(self._wanted())
        except Exception as error:  # the thread goes on: without it no caller would receive steps
            log.warning("claims fail", extra={"error": str(error)}, exc_info=not isinstance(error, RedisError))
            for waiter in dict.fromkeys((*self._all(), *new)):
                self._remove(waiter)
                if waiter.state is State.IS_SERVED and not waiter.wanted.record:  # else it can ask for them again
                    back += [(spec, waiter.token) for spec in waiter.drop()]
                if waiter.state is not State.LEFT:
                    waiter.fail(error)
            with self._change:
                self._back = [] if self._over else back + self._back
            time.sleep(UNWATCHED_S)

    def _is_called(self) -> bool:
        return bool(self._new or self._back or self._news or self._over or (self._shut and self._waiting))

    def _dismiss(self, new: Sequence[Waiter]) -> None:
        """Answer callers that do not want to wait for steps. If the desk is shut, answer all callers."""
        for waiter in (*self._all(), *new) if self._shut else new:
            if waiter.state is State.WAITS and (self._shut or not waiter.wanted.waits):
                self._remove(waiter)
                waiter.state = State.LEFT
                waiter.give([])

    def _pause(self, watch: QueueWatch) -> float:
        wanted = self._wanted()
        if not wanted:
            return SWEEP_IDLE_S
        return SWEEP_S if all(map(watch.covers, wanted)) else UNWATCHED_S

    def _wanted(self) -> list[str]:
        """Return the queues that a caller waits for."""
        for stream, waiting in list(self._waiting.items()):
            while waiting and (first := next(iter(waiting))).state is State.LEFT:
                del waiting[first]
            if not waiting:
                del self._waiting[stream]
        return list(self._waiting)

    def _all(self) -> list[Waiter]:
        return list(dict.fromkeys(waiter for waiting in self._waiting.values() for waiter in waiting))

    def _remove(self, waiter: Waiter) -> None:
        for stream in waiter.wanted.streams:
            self._waiting.get(stream, {}).pop(waiter, None)

    def _admit(self, client: Redis, new: Sequence[Waiter]) -> None:
        """Add callers to the lines of their queues. A caller that repeats an answered claim receives the same steps."""
        named = [waiter for waiter in new if waiter.wanted.record]
        kept = claims.call(client, [_remember(waiter) for waiter in named])
        before = {waiter: value for waiter, value in zip(named, kept, strict=True) if value.startswith(b"[")}
        for waiter in new:
            for stream in waiter.wanted.streams:
                self._waiting.setdefault(stream, {})[waiter] = None
        for waiter, value in before.items():
            steps = claims.read_again(client, codec.loads(value))
            if steps:
                waiter.got = steps
                self._serve(client, [waiter], again=True)
            else:
                claims.call(client, [_remember(waiter, anew=True)])

    def _read(self, client: Redis, streams: Sequence[str]) -> None:
        """Read steps from these queues for the callers that wait, and give the steps to them."""
        self._turn += 1
        start = self._turn % max(1, len(streams))  # so that no queue starves the others
        if fresh := set(streams) - self._known:
            with suppress(OutOfMemoryError):  # the next turn tries again
                client.sadd(keys.CLAIMED_QUEUES, *fresh)
                self._known |= fresh
        for stream in (*streams[start:], *streams[:start]):
            while demand := self._demand(stream):
                found = claims.read_new(client, stream, demand)
                self._distribute(client, found)
                if len(found) < min(demand, claims.MOST):
                    break

    def _demand(self, stream: str) -> int:
        """Return about how many steps of a queue the callers want."""
        count = 0
        for waiter in self._waiting.get(stream, ()):
            if waiter.state is State.WAITS:
                count += waiter.wanted.most - len(waiter.got)
            if count >= claims.MOST:
                break
        return count

    def _sweep(self, client: Redis) -> None:
        """Take over steps that a dead gateway had read and not given.

        If no caller here wants them, return them to their queues.
        """
        now = time.monotonic()
        if now - self._swept < (SWEEP_S if self._waiting else SWEEP_IDLE_S):
            return
        self._swept = now
        with suppress(RedisError):  # if the server is not back, the next sweep tries again
            self._left = claims.hand_back(client, self._left)
        self._known |= claims.known_streams(client)
        ours, others = list(self._waiting), sorted(self._known - self._waiting.keys())
        found = claims.take_stranded(client, ours, claims.STRANDED_MS)
        found += claims.take_stranded(client, others, UNWANTED_MS)
        held = list(zip(found, claims.holders(client, found), strict=True))
        claims.move(client, [(spec, name) for spec, name in held if name])  # given, or its holder is lost by its lease
        self._distribute(client, [spec for spec, name in held if not name])
        if now - self._tidied > TIDY_S:
            self._tidied = now
            tidy = ("FCALL", functions.TIDY, 1)
            claims.run(client, [(*tidy, stream, CONTROLLERS, IDLE_MS, "") for stream in sorted(self._known)])

    def _distribute(self, client: Redis, found: Sequence[SpecEntry]) -> None:
        """Give steps to the callers that have waited longest. Steps without a caller return to their queues."""
        rest = list(found)
        while rest:
            served: dict[Waiter, None] = {}
            unwanted: list[tuple[SpecEntry, str]] = []
            for spec in rest:
                waiter = next((each for each in self._waiting.get(spec.stream, ()) if each.has_room()), None)
                if waiter:
                    waiter.got.append(spec)
                    served[waiter] = None
                else:
                    unwanted.append((spec, ""))
            self._left += claims.hand_back(client, unwanted)
            rest = self._serve(client, list(served))

    def _serve(self, client: Redis, served: Sequence[Waiter], *, again: bool = False) -> list[SpecEntry]:
        """Claim the steps for their callers, and give them. Returns the steps of callers that have left.

        With `again`, the callers repeat an answered claim, and receive the steps that are stored under its id.
        """
        rest = self._begin_to_serve(served)
        if not again:
            rest += self._keep(client, served)
        here = [waiter for waiter in served if waiter.got]
        beats = [(waiter, spec) for waiter in here for spec in waiter.got]
        said = claims.run(
            client,
            [waiter.holder.beat(spec.lease_key, spec.attempt, spec.lease) for waiter, spec in beats],
        )
        refused: list[tuple[SpecEntry, str]] = []
        for (waiter, spec), reply in zip(beats, said, strict=True):
            action = b"" if isinstance(reply, Exception) else reply[0]
            if action == b"continue":
                continue
            waiter.got.remove(spec)
            if action == b"pause":  # its plan is paused: the step begins again when the plan goes on
                refused.append((spec, ""))
            elif not action:  # another program wrote something else to the lease's key
                log.warning("step cannot be claimed", extra={"plan_id": spec.plan_id, "error": str(reply)})
        given: list[tuple[SpecEntry, str]] = []
        for waiter in here:
            if waiter.got:
                self._remove(waiter)
                given += [(spec, waiter.wanted.holder.name) for spec in waiter.got]
                waiter.give(waiter.drop())
            else:
                self._wait_on(client, waiter)
        claims.move(client, given)
        self._left += claims.hand_back(client, refused)
        return rest

    def _begin_to_serve(self, served: Sequence[Waiter]) -> list[SpecEntry]:
        """Keep the callers that still wait and whose key is still valid. Returns the steps of the others."""
        rest: list[SpecEntry] = []
        with self._change:
            for waiter in served:
                if waiter.state is State.LEFT:
                    rest += waiter.drop()
                else:
                    waiter.state = State.IS_SERVED
        for waiter in served:
            if waiter.got and time.monotonic() - waiter.since > TRUSTED_S and not waiter.wanted.lasts():
                rest += waiter.drop()
                self._remove(waiter)
                waiter.give([])
        return rest

    def _keep(self, client: Redis, served: Sequence[Waiter]) -> list[SpecEntry]:
        """Store the given steps under the ids of claims.

        Returns the steps of claims that were repeated in the meantime.
        """
        rest: list[SpecEntry] = []
        named = [waiter for waiter in served if waiter.got and waiter.wanted.record]
        kept = claims.call(client, [_remember(waiter, waiter.got) for waiter in named])
        for waiter, value in zip(named, kept, strict=True):
            if value != _places(waiter.got):  # the last request of this claim is answered, maybe elsewhere
                rest += waiter.drop()
                self._remove(waiter)
                waiter.give([])
        return rest

    def _wait_on(self, client: Redis, waiter: Waiter) -> None:
        """Let a caller wait again because its steps could not be claimed; a caller that leaves gets no steps."""
        if waiter.wanted.record:
            claims.call(client, [_remember(waiter, anew=True)])
        with self._change:
            waiter.state = State.LEFT if waiter.leaves else State.WAITS
        if waiter.leaves:
            waiter.give([])


def _places(steps: Sequence[SpecEntry]) -> bytes:
    return codec.dumps([(step.stream, step.entry_id) for step in steps])


def _remember(waiter: Waiter, steps: Sequence[SpecEntry] = (), *, anew: bool = False) -> tuple[Any, ...]:
    """Return the Redis call that stores who waits for a claim's id or, with `steps`, which steps the claim received."""
    seconds = REMEMBERED_S if steps else LONGEST_WAIT_S + REMEMBERED_S
    given = _places(steps) if steps else b""
    return ("FCALL", functions.CLAIM_ID, 1, waiter.wanted.record, waiter.token, seconds, given, int(anew))
