"""Events as a worker writes them, and a reader of server-sent events that follows the specification."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
from redis import Redis

from schemas import codec
from worker.store.keys import Partition

PLAN = "plan_00-" + "0" * 31 + "1"
SILENCE_S = 60.0  # of only comments in a stream, after which a wait for an event fails
OTHER = "plan_01-" + "0" * 31 + "2"


def tell(redis: Redis, what: str, plan: str = PLAN, partition: int = 0, **said: Any) -> str:
    """Write an event as a worker does; returns its id."""
    data = {"plan_id": plan, "goal_id": "g-1", "tenant": "acme", "kind": "task", "at": "now", **said}
    entry: Any = redis.xadd(Partition(partition).events, {"type": f"dev.planner.{what}.v1", "data": codec.dumps(data)})
    return str(entry.decode())


class Told(NamedTuple):
    """An event, with the `id` after which a reader resumes."""

    event: str
    data: dict[str, Any]
    id: str


class EventReader:
    """Reads the events of a response; `last_id` is that of the last block, also of one without an event."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.last_id = ""
        self.comments: list[str] = []
        self.lines = response.iter_lines()

    def __iter__(self) -> Iterator[Told]:
        name, data, came = "message", "", time.monotonic()
        for line in self.lines:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                if data:
                    yield Told(name, codec.loads(data), self.last_id)
                    came = time.monotonic()
                name, data = "message", ""
            elif not field:
                self.comments.append(value)
                assert time.monotonic() - came < SILENCE_S, "no event comes"
            elif field == "event":
                name = value
            elif field == "data":
                data += value
            elif field == "id":
                self.last_id = value

    def take(self, count: int) -> list[Told]:
        """Wait for so many events."""
        found = []
        for told in self:
            found.append(told)
            if len(found) == count:
                break
        return found

    def until(self, what: str) -> list[Told]:
        """Wait for an event of this type; returns it with those before it."""
        found = []
        for told in self:
            found.append(told)
            if told.event == f"dev.planner.{what}.v1":
                break
        return found


@contextmanager
def reading(client: httpx.Client, last_id: str = "", **query: str) -> Iterator[EventReader]:
    """Follow `/v1/events` from when the block begins; the connection is cut when it ends."""
    headers = {"Last-Event-ID": last_id} if last_id else {}
    with client.stream("GET", "/v1/events", params=query, headers=headers) as response:
        if response.status_code != 200:
            response.read()
        assert response.status_code == 200, response.text
        reader = EventReader(response)
        assert next(reader.lines).startswith("retry: ")
        yield reader
