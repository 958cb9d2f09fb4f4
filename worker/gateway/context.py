"""What the doors share: settings and the server, by a dependency."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from redis import Redis

from worker.gateway.claiming import ClaimDesk
from worker.gateway.event_hub import EventHub
from worker.gateway.shares import Shares
from worker.settings.settings import Settings
from worker.webhooks.sources_file import SourcesFile


@dataclass(frozen=True, slots=True)
class Context:
    """What a gateway's process has; `client` has a pool of connections, for many threads.

    `hub` has what happens, `claims` is where controllers wait for steps.
    """

    settings: Settings
    client: Redis
    hub: EventHub
    claims: ClaimDesk
    webhooks: SourcesFile | None = None
    shares: Shares = field(default_factory=Shares)
    stopping: asyncio.Event = field(
        default_factory=asyncio.Event
    )  # set at the end: who waits is answered, streams close

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self.settings.partitions


def _context(request: Request) -> Context:
    found: Context = request.app.state.context
    return found


Doors = Annotated[Context, Depends(_context)]
