"""Serves MCP on standard input and output, for the agent that started this process."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

import httpx
from mcp.server.mcpserver.exceptions import ToolError
from redis.exceptions import RedisError

from schemas.api_key import ApiKey, Right
from worker.client.http_key import GatewayKey
from worker.gateway.app import create_app
from worker.host.account import host_name, own_name
from worker.mcp.doors import Doors
from worker.mcp.leases import Leases
from worker.mcp.tools import server_of
from worker.settings.settings import Settings
from worker.store import api_keys, audit, clients
from worker.store.audit import Act

OWN_KEY_S = 86_400  # lifetime of the temporary key; it is replaced before its end


async def serve(settings: Settings, queues: Sequence[str]) -> None:
    """Serve until standard input ends."""
    async with _over_network(settings) if settings.url else _in_process(settings, queues) as doors:
        server = server_of(doors, Leases(doors), f"mcp-{socket.gethostname()}-{os.getpid()}")
        await server.run_stdio_async()


@asynccontextmanager
async def _over_network(settings: Settings) -> AsyncIterator[Doors]:
    """Connect to the gateway that PLANNER_URL names."""
    url = str(settings.url).rstrip("/")
    key = GatewayKey(settings, url)
    with httpx.Client() as asking:
        async with httpx.AsyncClient(base_url=url) as client:
            yield Doors(client, lambda: asyncio.to_thread(key.show, asking))


@asynccontextmanager
async def _in_process(settings: Settings, queues: Sequence[str]) -> AsyncIterator[Doors]:
    """Run the gateway in this process, without a port; it needs access to Redis."""
    app = create_app(settings)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        _OwnKey(settings, queues) as key,
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        yield Doors(client, key.show)


class _OwnKey:
    """A temporary key of this process, revoked when the process ends. It can approve nothing and give no commands."""

    def __init__(self, settings: Settings, queues: Sequence[str]) -> None:
        self._settings = settings
        self._queues = tuple(queues)
        self._id, self._token, self._until = "", "", -1.0

    async def show(self) -> str:
        """Return the token of the key, which is replaced before it expires. Raises ToolError if Redis is away."""
        if time.monotonic() > self._until:
            try:
                await asyncio.to_thread(self._make)
            except RedisError as error:
                raise ToolError(f"Redis does not serve us ({type(error).__name__}): try again soon.") from None
            self._until = time.monotonic() + OWN_KEY_S / 2
        return self._token

    def _make(self) -> None:
        self._id = api_keys.new_id()
        until = datetime.now(UTC) + timedelta(seconds=OWN_KEY_S)
        key = ApiKey(
            key_id=self._id,
            rights=(Right.PRODUCER, Right.CONTROLLER, Right.ANSWER, Right.VIEWER),
            queues=self._queues,
            expires_at=until.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        )
        with clients.connect(self._settings.redis_url) as client:
            self._token = api_keys.add(client, key)
            audit.note(client, Act("key made", own_name(), host_name(), f"{key.called}: of planner mcp, for a day"))

    def _revoke(self) -> None:
        with suppress(RedisError), clients.connect(self._settings.redis_url) as client:  # else it ends by itself
            api_keys.revoke(client, self._id)

    async def __aenter__(self) -> _OwnKey:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._token:
            await asyncio.to_thread(self._revoke)
