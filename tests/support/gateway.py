"""A gateway as it runs: its application under uvicorn in a thread of this process, and a client for each key."""

from __future__ import annotations

import asyncio
import errno
import logging
import secrets
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from socket import create_server, socket
from typing import Any

import httpx
from fastapi import FastAPI
from redis import Redis

from schemas.api_key import ApiKey, Right
from tests.conftest import PATIENCE_S, wait_until
from worker.gateway.access import Context
from worker.gateway.app import create_app
from worker.gateway.serving import server_of
from worker.settings.settings import Settings
from worker.store import api_keys
from worker.store.clients import connect

TIMEOUT_S = 40.0  # longer than a door waits


class Failures(logging.Handler):
    """Keeps the log records of a gateway's unexpected exceptions."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record that has an exception or reports one."""
        is_ours = record.name.startswith(("planner.gateway", "uvicorn", "asyncio"))
        if is_ours and (record.exc_info or record.getMessage() == "request failed" or record.levelno >= logging.ERROR):
            about = [getattr(record, name, "") for name in ("method", "route", "key_id", "error", "places")]
            where = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
            self.seen.append(f"{record.getMessage()} {about} {where}")


class Gateway:
    """A running gateway, its server, and clients that show a key; all of them end with it."""

    def __init__(self, listener: socket, redis: Redis, settings: Settings, context: Context, stack: ExitStack) -> None:
        self.listener = listener
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.redis = redis
        self.settings = settings
        self.context = context  # what its doors share
        self._stack = stack
        self.stop: Callable[[], object] = stack.close  # have it end, as SIGTERM does

    def key(self, *rights: Right, **of: Any) -> str:
        """Make a key with these rights, and with a `tenant`, `queues` or `repositories`; returns its token."""
        return api_keys.add(self.redis, ApiKey(key_id=secrets.token_hex(6), rights=rights, **of))

    def client(self, *rights: Right, **of: Any) -> httpx.Client:
        """Make a client that shows a new key, as `key` makes it."""
        return self.with_token(self.key(*rights, **of))

    def with_token(self, token: str | None) -> httpx.Client:
        """Make a client that shows this token, or nothing."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self._stack.enter_context(httpx.Client(base_url=self.url, headers=headers, timeout=TIMEOUT_S))


def listen(port: int = 0) -> socket:
    """Listen on a port of this machine, or a free one; waits until it is free, as others may have been given it."""
    found = wait_until(lambda: _listen(port), what="the port is free")
    assert found
    return found


def _listen(port: int) -> socket | None:
    try:
        return create_server(("127.0.0.1", port))
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return None


@contextmanager
def running_gateway(
    redis_url: str,
    make: Callable[[Settings], FastAPI] = create_app,
    *,
    port: int = 0,
    behind_proxy: bool = False,
    may_fail: bool = False,
    **settings: Any,
) -> Iterator[Gateway]:
    """Run a gateway on a port of this machine, or a free one, with the same limits as `planner gateway`.

    If it logs an exception, the test fails, unless it `may_fail`.
    """
    said = Settings(redis_url=redis_url, **{"stop_s": 1, **settings})
    listener = listen(port)
    app = make(said)
    server = server_of(app, said, behind_proxy=behind_proxy)
    serving = server.serve(sockets=[listener])
    thread = threading.Thread(target=lambda: asyncio.run(serving), name="gateway", daemon=True)
    thread.start()
    failures = Failures()
    logging.getLogger().addHandler(failures)
    try:
        wait_until(lambda: server.started or not thread.is_alive(), what="gateway starts")
        with ExitStack() as stack:
            redis = stack.enter_context(connect(redis_url, PATIENCE_S))
            running = Gateway(listener, redis, said, app.state.context, stack)
            running.stop = partial(setattr, server, "should_exit", True)
            yield running
    finally:
        server.should_exit = True
        thread.join(90)
        logging.getLogger().removeHandler(failures)
    assert not thread.is_alive()
    assert may_fail or failures.seen == []
