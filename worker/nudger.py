"""Sends nudges through the broker, and knows when not to try: a broker that is away must not hold up any work."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from worker.outage import Outage

log = logging.getLogger("planner.nudger")

TIMEOUT_S = 2  # what a stalled broker may cost, once for each of these:
RETRY_S = (1.0, 2.0, 5.0, 15.0, 30.0)  # after failures in a row; meanwhile whoever would nudge works by himself
OPTIONS = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S}


class Nudger:
    """One connection to the broker for all watches of a process."""

    def __init__(self, app: Any, outage: Outage) -> None:
        self._app = app
        self._outage = outage
        self._connection: Any = None
        self._lock = threading.Lock()
        self._failures = 0
        self._again = 0.0  # when the broker is tried next

    def send(self, task: str, args: tuple[int, ...]) -> bool:
        """Send a nudge; returns whether the broker has it. After a failure it is not even asked for a while."""
        with self._lock:
            if time.monotonic() < self._again:
                return False
            try:
                self._send(task, args)
            except Exception as error:  # refused, stalled, full, renamed commands: whatever it is, we can do without
                self._failed(error)
                return False
            self._failures = 0
            self._outage.ends("nudger")
            return True

    def _send(self, task: str, args: tuple[int, ...]) -> None:
        if self._connection is None:
            options = {**self._app.conf.broker_transport_options, **OPTIONS}
            self._connection = self._app.connection_for_write(transport_options=options)
        self._app.send_task(task, args, connection=self._connection, ignore_result=True, retry=False)

    def _failed(self, error: Exception) -> None:
        self._outage.begins("nudger", error)
        self._again = time.monotonic() + RETRY_S[min(self._failures, len(RETRY_S) - 1)]
        self._failures += 1
        connection, self._connection = self._connection, None
        if connection is not None:
            threading.Thread(target=_close, args=(connection,), name="close-broker", daemon=True).start()


def _close(connection: Any) -> None:
    """Close a connection that may be stalled, which may take as long as its timeouts."""
    try:
        connection.collect(socket_timeout=TIMEOUT_S)
    except Exception as error:
        log.debug("broker connection not closed", extra={"error": str(error)})
