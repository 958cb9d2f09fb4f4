"""`POST /mcp`: MCP over streamable HTTP, without sessions; its tools go through our own doors, as their caller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec

import httpx
from fastapi import FastAPI
from starlette.routing import Route

from worker.gateway.bodies import limit_of
from worker.settings.settings import Settings

PATH = "/mcp"


@asynccontextmanager
async def mcp_door(app: FastAPI, settings: Settings) -> AsyncIterator[None]:
    """Open the door for as long as the application runs; there is none without the extra `mcp`."""
    if not find_spec("mcp"):
        yield
        return
    from mcp.server.transport_security import TransportSecuritySettings

    from worker.mcp.doors import Doors
    from worker.mcp.tools import server_of

    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        server = server_of(Doors(client))
        served = server.streamable_http_app(
            streamable_http_path=PATH,
            json_response=True,
            stateless_http=True,
            max_request_body_size=limit_of(PATH, settings),
            transport_security=TransportSecuritySettings(
                enable_dns_rebinding_protection=False
            ),  # the guard has done it
        )
        app.router.routes.append(Route(PATH, served, methods=["POST"]))
        async with server.session_manager.run():
            yield
