"""The gateway's application: the guard and all endpoints."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec

import httpx
from anyio import to_thread
from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from schemas import codec
from worker.gateway import error_responses, openapi, problems
from worker.gateway.access import INSIDE, Context
from worker.gateway.bodies import limit_of
from worker.gateway.broadcast import Broadcasts
from worker.gateway.claiming import ClaimDesk
from worker.gateway.event_hub import EventHub
from worker.gateway.guard import Guard
from worker.gateway.oidc import Verifier
from worker.gateway.page import (
    acts,
    dead_view,
    errors_view,
    fleet_view,
    goal_view,
    graph_image,
    help_view,
    new_goal,
    plan_list,
    plan_view,
    review_view,
    selected_acts,
    session,
    spend_view,
    static_files,
    wide_acts,
)
from worker.gateway.queue_watch import BLOCK_S
from worker.gateway.routes import (
    attachments,
    claims,
    commands,
    dead,
    events,
    fleet,
    goals,
    health,
    outcomes,
    plans,
    stats,
    tokens,
    webhooks,
)
from worker.gateway.shares import THREADS
from worker.host.code_version import CODE_VERSION
from worker.settings import oidc_file
from worker.settings.settings import Settings
from worker.store.clients import connect
from worker.telemetry.metrics import HERE
from worker.telemetry.metrics_server import Counts
from worker.telemetry.shared_state import SharedState
from worker.webhooks.checking import read_checked

log = logging.getLogger("planner.gateway")

PATIENCE_S = 2.0  # of an endpoint for Redis; then its caller is asked to retry, since others wait for the thread
ROUTERS = (
    *(health.router, tokens.router, goals.router, plans.router, plans.of_plan, graph_image.router),
    *(commands.router, dead.router, fleet.router, stats.router, events.router),
    *(webhooks.router, claims.router, outcomes.router, attachments.router),
    *(session.router, static_files.router, plan_list.router, plan_view.router, acts.router),
    *(fleet_view.router, spend_view.router, review_view.router, help_view.router, errors_view.router),
    *(new_goal.router, goal_view.router, selected_acts.router, wide_acts.router, dead_view.router),
)
PATH = "/mcp"


def create_app(settings: Settings) -> FastAPI:
    """Return the application.

    It connects to Redis with the first request, and closes its connections at shutdown. Raises WrongSources if
    PLANNER_WEBHOOKS_FILE cannot be used.
    """
    sources = read_checked(settings.webhooks_file) if settings.webhooks_file else None
    client = connect(settings.redis_url, patience_s=PATIENCE_S)
    desk = ClaimDesk(lambda: connect(settings.redis_url, BLOCK_S))
    context = Context(settings, client, EventHub(settings.redis_url, settings.partitions), desk, sources)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            app.state.counts = Counts(HERE.start()).collect
        except OSError as error:
            log.warning("nothing is counted", extra={"error": str(error)})
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        desk.start()
        ending = asyncio.create_task(_end(context))
        async with mcp_door(app, settings):
            yield
        ending.cancel()
        context.hub.end()
        await asyncio.to_thread(context.hub.join)
        await asyncio.to_thread(desk.close)
        client.close()

    app = FastAPI(title="Planner", version=CODE_VERSION, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.context = context
    app.state.broadcasts = Broadcasts(context)
    app.state.counts = tuple  # empty until the gateway serves
    app.state.shared = SharedState(client, settings.partitions)
    app.state.verifier = Verifier(oidc_file.issuers(settings.oidc_file))
    problems.install(app, error_responses.tell)
    openapi.install(app)
    app.add_middleware(Guard, doors=context)
    for router in ROUTERS:
        app.include_router(router)
    return app


def contract() -> bytes:
    """Return the OpenAPI 3.1 document of the gateway, as JSON."""
    return codec.pretty(create_app(Settings.model_construct()).openapi())


async def _end(context: Context) -> None:
    """Wake all requests that wait for events or steps when the process is to end."""
    await context.stopping.wait()
    context.hub.end()
    context.claims.shut()


@asynccontextmanager
async def mcp_door(app: FastAPI, settings: Settings) -> AsyncIterator[None]:
    """Serve MCP as long as the application runs. Without the extra `mcp` there is no such endpoint."""
    if not find_spec("mcp"):
        yield
        return
    from mcp.server.transport_security import TransportSecuritySettings

    from worker.mcp.doors import Doors
    from worker.mcp.tools import server_of

    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, INSIDE: True}, receive, send)

    transport = httpx.ASGITransport(app=inside, raise_app_exceptions=False)
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
