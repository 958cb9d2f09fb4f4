"""Celery's broker: its settings for the server at a URL, which it reaches and verifies as the store is."""

from __future__ import annotations

from typing import Any

from worker.settings import redis_tls, sentinel


def celery_settings(url: str) -> dict[str, Any]:
    """Make what Celery has to be set to for the broker at `url`."""
    return {
        "broker_url": sentinel.broker_url(url),
        "broker_use_ssl": redis_tls.options(url) or False,  # of sentinels, whose URLs kombu does not read whole
        "broker_transport_options": {
            "socket_timeout": 5,
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "health_check_interval": 25,
            "visibility_timeout": 3600,
            "max_retries": 0,  # of one publish; the consumer's connection is tried for ever
            **sentinel.broker_options(url),
        },
    }
