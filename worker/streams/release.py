"""Releases the claims of an ending process, so that other workers get its entries at once.

Then removes the process's consumers from their groups.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from tasks.base.errors import PlannerError
from worker.settings.settings import Settings
from worker.store import clients, functions, keys
from worker.store.keys import GROUP, Partition

log = logging.getLogger("planner.handback")

LONG_AGO_MS = 10**9  # idle time of released entries: above every limit, and still a time after 1970
FORGOTTEN_MS = 3_600_000  # a consumer that asked for nothing that long; a living one is made again when it reads
PAGE = 256
PATIENCE_S = 2.0  # with a store that may be away: its entries are taken over later then


def release_claims(settings: Settings, pids: Iterable[int]) -> None:
    """Release the entries that these processes of this host have read, so that other workers take them over at once.

    Does nothing if the store is away.
    """
    prefixes = [f"{socket.gethostname()}-{pid}-" for pid in pids]
    places = [(stream, prefix) for stream in _streams(settings.partitions) for prefix in prefixes]
    try:
        with clients.connect(settings.redis_url, patience_s=PATIENCE_S) as client:
            for stream, prefix in places:
                _release(client, stream, prefix)
            with suppress(functions.FunctionsMissing):  # of a server that we were not to begin on
                for stream, prefix in places:
                    _tidy(client, stream, 0, prefix)
    except (RedisError, PlannerError) as error:
        log.warning("nothing handed back", extra={"error": str(error)})


def release_own_claims(settings: Settings) -> None:
    """Release the entries that this process had read."""
    release_claims(settings, [os.getpid()])


def delete_idle_consumers(client: Redis, partitions: int) -> int:
    """Delete consumers that were idle for an hour and have no pending entries. Returns their number."""
    gone = sum(_tidy(client, stream, FORGOTTEN_MS, "") for stream in _streams(partitions))
    if gone:
        log.info("consumers deleted", extra={"count": gone})
    return gone


def date_anew(client: Redis, streams: Iterable[str]) -> None:
    """Correct the dates of pending entries that were read at a future time, before the server's clock was set back.

    Otherwise they would look as if they were just read, and not be taken over until that time.
    """
    for stream in streams:
        after = "-"
        with suppress(ResponseError):  # no such stream or group
            while page := client.xpending_range(stream, GROUP, after, "+", PAGE):
                pending: list[dict[str, Any]] = [*page]
                for one in pending:
                    if one["time_since_delivered"] == 0:
                        client.xclaim(stream, GROUP, one["consumer"], 0, [one["message_id"]], idle=0, justid=True)
                after = f"({pending[-1]['message_id'].decode()}"


def _streams(partitions: int) -> list[str]:
    parts = [Partition(number) for number in range(partitions)]
    shared = (keys.GOALS, keys.COMMANDS, keys.WEBHOOK_JOBS)
    return [*shared, *(stream for part in parts for stream in (part.outcomes, part.commands))]


def _release(client: Redis, stream: str, prefix: str) -> None:
    """Make the entries of the consumers with this prefix look old, so that the next sweep takes them over."""
    try:
        consumers: Any = client.xinfo_consumers(stream, GROUP)
    except ResponseError:  # no such stream or group
        return
    names = [one["name"] for one in consumers if one["pending"] and one["name"].startswith(prefix.encode())]
    for name in names:
        after, count = "-", 0
        while page := client.xpending_range(stream, GROUP, after, "+", PAGE, name):
            ids: list[Any] = [one["message_id"] for one in page]
            client.xclaim(stream, GROUP, name, 0, ids, idle=LONG_AGO_MS, justid=True)
            after, count = f"({ids[-1].decode()}", count + len(ids)
        log.info("entries handed back", extra={"stream": stream, "count": count})


def _tidy(client: Redis, stream: str, idle_ms: int, prefix: str) -> int:
    call = ("FCALL", functions.TIDY, 1, stream, GROUP, idle_ms, prefix)
    return int(functions.call(client, *call))
