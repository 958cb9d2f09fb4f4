"""What the doors share: settings and the server, by a dependency."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from redis import Redis

from worker.settings.settings import Settings


@dataclass(frozen=True, slots=True)
class Context:
    """What a gateway's process has; `client` has a pool of connections, for many threads."""

    settings: Settings
    client: Redis

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self.settings.partitions


def _context(request: Request) -> Context:
    found: Context = request.app.state.context
    return found


Doors = Annotated[Context, Depends(_context)]
