"""Sends wake-ups through the broker, unless it is known to be away: an outage must not delay any work."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from kombu import Exchange, Queue
from redis.exceptions import OutOfMemoryError

from worker.process.solo_pool import Solo
from worker.process.wakeup_ledger import Key, Ledger, WakeupState
from worker.telemetry.outage import Outage

log = logging.getLogger("planner.nudger")

TIMEOUT_S = 2  # maximum delay by a stalled broker, once for each of these:
FULL_RETRY_S = 2.0  # for a full broker: it answers at once, and may have capacity soon
RETRY_S = (1.0, 2.0, 5.0, 15.0, 30.0)  # after failures in a row; meanwhile the sender does the work itself
SHARE = "planner_share"  # header of a wake-up: the share of its time that a drain may take; by default all
OPTIONS = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S}

FORGOTTEN_S = 600.0  # after this time the broker deletes the queue of a worker that is gone

Requests = Callable[[], Mapping[str, Any] | None]  # the wake-ups in hand by id; None while the broker is not heard


class Wakeups:
    """Sends the wake-ups of a process over one connection.

    Wake-ups for a partition that this worker owns go to the queue `own`, which only this worker consumes.
    """

    def __init__(
        self, app: Any, outage: Outage, ledger: Ledger, requests: Requests, solo: Solo, own: Queue | None = None
    ) -> None:
        self._app = app
        self._outage = outage
        self._ledger = ledger
        self._requests = requests
        self._solo = solo
        self._own = own
        self._connection: Any = None
        self._lock = threading.Lock()
        self._failures = 0
        self._again = 0.0  # when the broker is tried next

    def state(self, key: Key, stuck_s: float) -> WakeupState:
        """Return the state of the work `key`, as Ledger.look does.

        An outage lasts until this worker hears from the broker again. Until then it sends no wake-ups, even if the
        broker would accept them: no process here would receive them.
        """
        requests = self._requests()
        state = self._ledger.look(key, requests, time.monotonic(), stuck_s)
        if requests is None and state is WakeupState.FREE and self._outage.lasts:
            state = WakeupState.DEAF
        if state is WakeupState.DEAF:
            self._outage.begins("consumer", ConnectionError("The consumer of wake-ups is not connected."))
        elif requests is not None and self._outage.ends("consumer"):
            self._failures, self._again = 0, 0.0
        if (is_busy := self._solo.is_busy(key)) is not None:
            return WakeupState.BUSY if is_busy else WakeupState.FREE
        return state

    def under_way(self, task: str) -> set[Key]:
        """Return the keys of `task` that may be BUSY by `state`; every other key is FREE or DEAF."""
        requests = tuple((self._requests() or {}).values())
        mine = {Key(each.name, tuple(each.args)) for each in requests if each.name == task}
        return mine | {key for key in self._ledger.sent() | self._solo.keys() if key.task == task}

    def is_begun(self, key: Key) -> bool:
        """Return whether this worker's pool does the work of `key` now, or is about to."""
        requests = tuple((self._requests() or {}).values())
        mine = (each for each in requests if each.name == key.task and tuple(each.args) == key.args)
        return bool(self._solo.is_busy(key)) or any(each.worker_pid for each in mine)

    def send(self, key: Key, *, is_own: bool = False) -> bool:
        """Send a wake-up, to this worker's queue if `is_own`. Returns whether the broker has it.

        After a failure the broker is not tried for a while. While a goal has the one slot of this worker, the wake-up
        stays in this process.
        """
        if self._solo.take(key):
            return True
        with self._lock:
            if time.monotonic() < self._again:
                return False
            wakeup = str(uuid.uuid4())
            own = self._own if is_own else None
            share = self._ledger.send(key, wakeup, time.monotonic(), own.name if own else key.task)
            if share is None:
                return True
            try:
                if self._connection is None:
                    options = {**self._app.conf.broker_transport_options, **OPTIONS}
                    self._connection = self._app.connection_for_write(transport_options=options)
                sent = {"task_id": wakeup, "headers": {SHARE: share}, "connection": self._connection}
                sent |= {"queue": own} if own else {}
                self._app.send_task(key.task, key.args, ignore_result=True, retry=False, **sent)
            except Exception as error:  # refused, stalled, full, renamed commands: work continues after any error
                self._ledger.take_back(key)
                self._failed(error)
                return False
            self._failures = 0
            self._outage.ends("wakeups")
            return True

    def _failed(self, error: Exception) -> None:
        self._outage.begins("wakeups", error)
        pause = RETRY_S[min(self._failures, len(RETRY_S) - 1)]
        if isinstance(error.__cause__, OutOfMemoryError):
            pause = min(pause, FULL_RETRY_S)
        self._again = time.monotonic() + pause
        self._failures += 1
        connection, self._connection = self._connection, None
        if connection is not None:
            threading.Thread(target=_close, args=(connection,), name="close-broker", daemon=True).start()


def own_queue(app: Any, token: str) -> Queue:
    """Add the queue that only this worker consumes to the queues that it consumes, and return it.

    It is like Celery's `worker_direct`, with a unique name that access rules of brokers allow. It has no binding, which
    would outlive the worker; Celery sends to the queue by its name. Nothing is acknowledged, because no other worker
    needs the wake-ups.
    """
    queue = app.amqp.queues.select_add(Queue(f"planner.worker.{token}", no_ack=True, expires=FORGOTTEN_S))
    queue.exchange = Exchange("")
    return queue


def _close(connection: Any) -> None:
    """Close a connection that may be stalled; this can take as long as its timeouts."""
    try:
        connection.collect(socket_timeout=TIMEOUT_S)
    except Exception as error:
        log.debug("broker connection not closed", extra={"error": str(error)})
