"""Runs the gateway's application on uvicorn until a signal stops it."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from fastapi import FastAPI
from uvicorn import Config, Server

from worker.gateway.connections import MOST_CONNECTIONS, Connection
from worker.gateway.guard import OfRequest
from worker.host import garbage, open_files
from worker.host.stop_signals import heard
from worker.settings.settings import Settings
from worker.telemetry.outage import SaidSeldom

log = logging.getLogger("planner.gateway")

MAX_HEAD_BYTES = 16 * 1024
BACKLOG = 2048
MOST_UNSENT_BYTES = 64 * 1024  # of a connection, in addition to bytes on their way
KEEP_ALIVE_S = 15  # longer than most proxies' pauses between requests on one connection
SPARE_FILES = 512  # file descriptors that are kept free of callers' connections


class Gateway(Server):
    """A server that signals the shutdown to the application before it waits for the last answers."""

    def __init__(self, config: Config, app: FastAPI) -> None:
        super().__init__(config)
        self._stopping = app.state.context.stopping

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGTERM and on Ctrl-C; uvicorn's own handler would raise the signal again after the shutdown."""
        if threading.current_thread() is threading.main_thread():
            loop = asyncio.get_running_loop()
            for number in heard(signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Set socket options so that answers are sent at once. asyncio does it only for sockets with a named protocol.

        Without TCP_NODELAY an answer's body waits 40 ms for the caller's delayed acknowledgement of its head. With
        TCP_NOTSENT_LOWAT the system buffers little for a slow reader, so that texts are new when they are sent.
        """
        for listener in sockets or ():  # connections inherit it
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MOST_UNSENT_BYTES)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no new callers, answer those that wait, and close."""
        self._stopping.set()
        await super().shutdown(sockets)


def serve(server: Gateway, listener: socket.socket) -> None:
    """Serve until SIGTERM, then answer waiting callers for at most `stop_s` seconds."""
    open_files.raise_limit(MOST_CONNECTIONS + SPARE_FILES)
    for handler in logging.getLogger().handlers:
        handler.addFilter(OfRequest())
    for noisy in ("uvicorn.error", "asyncio"):  # bad requests are many
        logging.getLogger(noisy).addFilter(SaidSeldom())
    address, port = listener.getsockname()[:2]
    garbage.collect_seldom()
    log.info("gateway listens", extra={"address": address, "port": port})
    server.run(sockets=[listener])
    log.info("gateway ended")


def server_of(
    app: FastAPI, settings: Settings, certificate: tuple[Path, Path] | None = None, *, behind_proxy: bool = False
) -> Gateway:
    """Return the server of an application. Its limits apply before the first line of a request is read."""
    app.state.is_behind_proxy = behind_proxy
    config = Config(
        app,
        http=partial(Connection, {}, {}),  # type: ignore[arg-type] # it is called like the class
        ws="none",
        lifespan="on",
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        proxy_headers=behind_proxy,
        forwarded_allow_ips=[*settings.gateway_proxies],
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, int(settings.stop_s)),
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        ssl_certfile=certificate and certificate[0],
        ssl_keyfile=certificate and certificate[1],
    )
    return Gateway(config, app)
