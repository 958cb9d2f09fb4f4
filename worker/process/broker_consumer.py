"""Consumes wake-ups as Celery does, but outlives the broker and looks for it often."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from celery.worker.consumer import Consumer as CeleryConsumer
from kombu.transport import redis, virtual

LOOKS_S = {"interval_start": 1, "interval_step": 1, "interval_max": 5}  # pauses between looks for a broker


class QoS(redis.QoS):  # type: ignore[misc]  # Kombu has no types
    """The wake-ups that Kombu has in hand; one that has ended takes no room, also where the broker was not told so."""

    def ack(self, delivery_tag: str) -> None:
        """Tell the broker that a wake-up has ended, and have room for the next one.

        Where the broker cannot be told, Kombu keeps the wake-up in hand, and Celery goes on: with a prefetch of one
        this worker would take no wake-up any more. The broker gives the old one again later, which costs nothing.
        Raises what the connection raised.
        """
        try:
            super().ack(delivery_tag)
        except self.channel.connection_errors:
            virtual.QoS.ack(self, delivery_tag)
            raise


redis.Channel.QoS = QoS  # also that of Sentinel's channels


class Consumer(CeleryConsumer):  # type: ignore[misc]  # Celery has no types
    """Celery's consumer, which a broker that dies does not end."""

    on_task_request: Callable[[Any], None]

    def notify(self, received: Callable[[str], None]) -> None:
        """Have `received` called with the id of each wake-up that comes here.

        That is before it is worked on.
        """
        hand_on = self.on_task_request

        def take(request: Any) -> None:
            received(request.id)
            hand_on(request)

        self.on_task_request = take

    def ensure_connected(self, conn: Any) -> Any:
        """Look for the broker until it is there.

        More often than Celery, which comes to wait for half a minute.
        """
        conn.ensure_connection = partial(conn.ensure_connection, **LOOKS_S)
        return super().ensure_connected(conn)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Give up the wake-ups that the lost connection had not acknowledged.

        Then clean up as Celery does. The broker hears no more of them, since their channels have no client any more:
        Kombu would put them back when a channel is closed for the second time, and acknowledge them when they are done
        after the reconnection, and the AttributeError of either ends the worker. A wake-up that is lost is sent again.
        """
        for channel in self.connection.transport.channels:
            channel.do_restore = False
            channel.basic_ack = channel.basic_reject = _ignore
        super().on_connection_error_after_connected(exc)


def _ignore(*_: Any, **__: Any) -> None:
    """Take no notice."""
