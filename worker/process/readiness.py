"""Checks a worker's servers before it works."""

from __future__ import annotations

import logging
import time
from itertools import count

from celery.worker import state
from redis import Redis
from redis.exceptions import OutOfMemoryError, RedisError

from worker.settings.settings import Settings
from worker.store import clients, dead, deployment, endpoints, functions
from worker.store.memory import ServerMemory
from worker.telemetry.outage import Outage, pause

log = logging.getLogger("planner.admission")


def wait_for_servers(settings: Settings, store: Outage) -> None:
    """Wait until the store answers, check it, and load the functions.

    An outage is reported once. Raises RefusedRedis or WrongDeployment if waiting does not help, and WorkerShutdown if
    the worker is stopped meanwhile.
    """
    if settings.broker != settings.redis_url:
        clients.check_broker(settings.broker)
    for tries in count():
        state.maybe_shutdown()
        try:
            with clients.connect(settings.redis_url) as client:
                prepare(client, settings)
        except RedisError as error:
            if why := clients.refusal(error, settings.redis_url):
                raise why from error
            store.begins("start", error)
            time.sleep(pause(tries))
        else:
            store.ends("start")
            return
    raise AssertionError  # not reached: `count` does not end


def prepare(client: Redis, settings: Settings) -> None:
    """Check a server, load the functions, and join the deployment. Raises the error that prevents work."""
    check(client, settings)
    memory = ServerMemory(client, settings.max_dead_share, len(dead.places(settings.partitions)))
    if gone := dead.cut(client, settings.partitions, memory.dead_bytes()):
        log.warning("dead entries gave way", extra={"count": gone})
    try:
        functions.load(client)
    except OutOfMemoryError as error:  # earlier functions may exist; without them the tasks fail and report it
        log.warning("functions not loaded", extra={"error": str(error)})
    deployment.join(client, settings.partitions)
    endpoints.open_outboxes(client, settings.partitions)


def check(client: Redis, settings: Settings) -> None:
    """Check that a server is new enough, keeps its data safe, and has our version. Writes nothing.

    Raises RefusedRedis, and the server's own refusals.
    """
    client.ping()
    clients.check_version(client)
    deployment.check(client, settings.partitions)
    if not settings.allow_unsafe_redis:
        clients.check_safe(client)
