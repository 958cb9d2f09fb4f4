"""Consumes wake-ups as Celery does, but survives an outage of the broker and retries it often."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from celery.worker.consumer import Consumer as CeleryConsumer
from kombu.transport import redis, virtual

LOOKS_S = {"interval_start": 1, "interval_step": 1, "interval_max": 5}  # pauses between looks for a broker


class QoS(redis.QoS):  # type: ignore[misc]  # Kombu has no types
    """Kombu's unacknowledged wake-ups: an ended one makes room for the next, even if the broker is away."""

    def ack(self, delivery_tag: str) -> None:
        """Acknowledge an ended wake-up, so that this worker may take the next one. Raises the error of the connection.

        Otherwise Kombu would keep the wake-up while the broker is away. With a prefetch of one, this worker would then
        take no more wake-ups. The broker delivers the old wake-up again later, without harm.
        """
        try:
            super().ack(delivery_tag)
        except self.channel.connection_errors:
            virtual.QoS.ack(self, delivery_tag)
            raise


redis.Channel.QoS = QoS  # also that of Sentinel's channels


class Consumer(CeleryConsumer):  # type: ignore[misc]  # Celery has no types
    """Celery's consumer, which survives an outage of the broker."""

    on_task_request: Callable[[Any], None]

    def notify(self, received: Callable[[str], None]) -> None:
        """Call `received` with the id of each wake-up that arrives here, before it is processed."""
        hand_on = self.on_task_request

        def take(request: Any) -> None:
            received(request.id)
            hand_on(request)

        self.on_task_request = take

    def ensure_connected(self, conn: Any) -> Any:
        """Try the broker until it answers, more often than Celery, whose pause grows to half a minute."""
        conn.ensure_connection = partial(conn.ensure_connection, **LOOKS_S)
        return super().ensure_connected(conn)

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Drop the wake-ups that the lost connection had not acknowledged, then clean up as Celery does.

        The channels have no client any more. Without this, Kombu would return the wake-ups when a channel is closed for
        the second time, or acknowledge them after the reconnection. The AttributeError of either would end the worker.
        A lost wake-up is sent again.
        """
        for channel in self.connection.transport.channels:
            channel.do_restore = False
            channel.basic_ack = channel.basic_reject = _ignore
        super().on_connection_error_after_connected(exc)


def _ignore(*_: Any, **__: Any) -> None:
    """Do nothing."""
