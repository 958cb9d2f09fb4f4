"""The gateway's page beside a demo, for a browser on this machine, with a key that ends with the demo."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from secrets import token_hex
from typing import NamedTuple

from redis import Redis
from redis.exceptions import RedisError

from schemas.api_key import ApiKey, Right
from worker.demo.fleet import Fleet
from worker.host import nearby_server
from worker.settings.settings import Settings
from worker.store import api_keys

NEEDS = ("fastapi", "jinja2", "uvicorn")


class DemoPage(NamedTuple):
    """Where the page is, and the key that signs in there."""

    address: str
    token: str


def missing() -> str | None:
    """Say what the page needs and is not installed; None where nothing is missing."""
    lacking = next((name for name in NEEDS if not find_spec(name)), None)
    return (
        f"The page needs {lacking}, which is not installed: pip install 'planner-worker[gateway]'" if lacking else None
    )


@contextmanager
def serve(processes: Fleet, client: Redis, settings: Settings) -> Iterator[DemoPage]:
    """Start a gateway beside the demo's processes, at PLANNER_GATEWAY_PORT or another port where that is taken."""
    key = ApiKey(key_id=f"demo{token_hex(4)}", rights=(Right.ADMIN,))
    with nearby_server.listen(settings.gateway_port) as listener:  # browsers wait in it until the gateway takes them
        token = api_keys.add(client, key)
        try:
            processes.start_gateway(listener)
            yield DemoPage(f"http://127.0.0.1:{listener.getsockname()[1]}/", token)
        finally:
            with suppress(RedisError):
                api_keys.revoke(client, key.key_id)


def wait_for_interrupt() -> None:
    """Return with the first ^C, SIGTERM or closed terminal."""
    with suppress(KeyboardInterrupt):
        while True:
            signal.pause()
