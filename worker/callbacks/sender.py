"""Sends due callbacks in a separate thread, so that slow receivers do not block Celery's slots.

A task only signals that an endpoint has due deliveries. At most PARALLEL tries of an endpoint and partition run in a
process, so that a slow endpoint delays only itself. The deliveries of a killed process are leased to another one after
LEASE_S.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from ipaddress import ip_address
from typing import Any

import httpx
from redis.exceptions import RedisError

from schemas.times import rfc3339
from worker.callbacks import message, schedule
from worker.callbacks.addresses import Address, BadUrl, Network, literal, may_call, parse_url
from worker.callbacks.message import Post
from worker.callbacks.queue import LEASE_S, Delivery, Queue
from worker.callbacks.schedule import DISABLED, Answer
from worker.callbacks.sealing import NoSecrets, SecretBox
from worker.settings.settings import Settings
from worker.store import endpoints
from worker.store.endpoints import Endpoint
from worker.telemetry import metrics
from worker.telemetry.metrics import HERE
from worker.telemetry.outage import SaidSeldom

log = logging.getLogger("planner.callbacks")
impossible = logging.getLogger("planner.callbacks.keys")
TIMEOUT_S = 15.0  # in total: for the name, the connection and the answer
CONNECT_S = 5.0  # to one address, where there are more
MOST_ADDRESSES = 4
ERROR_CHARS = 200
NOT_ALLOWED = "{host} has no address for callbacks: one that is public, with https, or one of PLANNER_CALLBACK_ALLOW"

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]

_resolvers = ThreadPoolExecutor(64, "callback-names")  # a name server may take its time


impossible.addFilter(SaidSeldom())  # due deliveries are checked several times a second

Place = tuple[int, str]  # partition and endpoint

PARALLEL = 4  # tries of one endpoint at a time
UNNOTED = "{error}: what follows this answer could not be noted"
STOP_S = 3.0  # for tries under way at the end of a process; the others are taken over


class Sender:
    """The running tries in this process."""

    def __init__(self, box: SecretBox, allowed: Sequence[Network], public_url: str | None) -> None:
        self._box = box
        self._allowed = allowed
        self._public_url = public_url
        self._under_way: Counter[Place] = Counter()  # changed by the loop's thread alone
        self._store = ThreadPoolExecutor(8, "callback-store")
        self._ending = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="callbacks", daemon=True)
        self._thread.start()

    def serve(self, queue: Queue, endpoint_id: str) -> None:
        """Start the due tries of an endpoint; returns at once."""
        self._loop.call_soon_threadsafe(self._begin, queue, endpoint_id)

    def stop(self, seconds: float = STOP_S) -> None:
        """Start nothing more, and wait for the running tries."""
        self._ending = True
        end = time.monotonic() + seconds
        while self._under_way.total() and time.monotonic() < end:
            time.sleep(0.02)

    def _begin(self, queue: Queue, endpoint_id: str) -> None:
        place = queue.partition.number, endpoint_id
        if not self._ending and self._under_way[place] < PARALLEL:
            self._under_way[place] += 1
            self._loop.create_task(self._work(queue, endpoint_id)).add_done_callback(partial(self._end, place))

    def _end(self, place: Place, task: asyncio.Task[None]) -> None:
        self._under_way[place] -= 1
        if error := task.exception():  # the lease expires, and the delivery becomes due again
            kind = log.warning if isinstance(error, RedisError) else log.error
            kind("callback interrupted", extra={"endpoint": place[1], "error": f"{type(error).__name__}: {error}"})

    async def _work(self, queue: Queue, endpoint_id: str) -> None:
        """Make the due tries of an endpoint one by one; each try first starts another task, up to PARALLEL."""
        while not self._ending:
            endpoint, taken = await self._in_store(self._take, queue, endpoint_id)
            if taken is None:
                return
            self._begin(queue, endpoint_id)
            await self._try(queue, endpoint, taken)

    def _take(self, queue: Queue, endpoint_id: str) -> tuple[Any, Delivery | None]:
        endpoint = endpoints.read(queue.client, endpoint_id)
        if endpoint is None or endpoint.off:
            queue.end_all(endpoint_id, DISABLED)
            return None, None
        return endpoint, queue.lease(endpoint_id)

    async def _try(self, queue: Queue, endpoint: Endpoint, taken: Delivery) -> None:
        state = await self._in_store(queue.state_of, taken.about.plan_id)
        if why := message.obstacle(endpoint, taken.about, state):
            await self._in_store(queue.note, endpoint.id, taken, why, 0)
            HERE.count(metrics.CALLBACKS, "dropped")
            return
        now = time.time()
        try:
            counting = [each for each in endpoint.secrets if not each.until or each.until > now * 1000]
            secrets = [self._box.unseal(each.sealed) for each in counting]
        except NoSecrets as error:  # maybe another worker has the key: no try is counted
            impossible.error("callback impossible", extra={"endpoint": endpoint.id, "reason": str(error)})
            await self._in_store(queue.note, endpoint.id, taken, "", LEASE_S)
            return
        post = message.write(endpoint, taken.about, taken.id, secrets, self._public_url, int(now))
        answer = await send(post, self._allowed)
        try:
            await self._in_store(self._note, queue, endpoint, taken, now, answer)
        except RedisError:
            raise
        except Exception as error:  # an error in the receiver's answer; an uncounted try would repeat for ever
            log.exception("callback not understood", extra={"endpoint": endpoint.id, "delivery": taken.id})
            plain = Answer(answer.status, UNNOTED.format(error=type(error).__name__))
            await self._in_store(self._note, queue, endpoint, taken, now, plain)

    def _note(self, queue: Queue, endpoint: Endpoint, taken: Delivery, began: float, answer: Answer) -> None:
        now = time.time()
        tries = taken.tries + 1
        after = schedule.follow(answer, tries, random.random(), now, is_forge=endpoint.kind != "webhook")  # noqa: S311
        attempt = {"at": rfc3339(int(began * 1000)), "ms": int((now - began) * 1000), "status": answer.status or None}
        attempt["error"] = answer.error or None
        told = taken._replace(tries=tries, log=[*taken.log, attempt])
        HERE.count(metrics.CALLBACKS, DISABLED if after.disables else after.ended or "again")
        if not queue.note(endpoint.id, told, after.ended, after.wait_s):
            log.warning("callback taken over", extra={"endpoint": endpoint.id, "delivery": taken.id})
        elif after.ended == schedule.FAILED:
            detail = {"endpoint": endpoint.id, "delivery": taken.id, "tries": tries, "status": answer.status}
            log.warning("callback failed", extra=detail)
        if after.disables:
            endpoints.switch(queue.client, endpoint.id, f"it answered {answer.status} at {attempt['at']}")
            log.warning("endpoint disabled", extra={"endpoint": endpoint.id, "status": answer.status})

    async def _in_store(self, act: Any, *args: Any) -> Any:
        """Run a blocking call to Redis in a thread, so that the event loop can continue. Return its result."""
        return await self._loop.run_in_executor(self._store, partial(act, *args))


_senders: dict[int, Sender] = {}  # of this process, by its id: a process that was forked makes its own
_lock = threading.Lock()


def deliver(queue: Queue, settings: Settings) -> None:
    """Create deliveries from the outbox, and start the due tries. Return without waiting for the tries."""
    queue.fan_out()
    if due := queue.due():
        try:
            here = _sender(settings)
        except NoSecrets as error:
            impossible.error("callback impossible", extra={"reason": str(error)})
            return
        for endpoint_id in due:
            here.serve(queue, endpoint_id)


def stop() -> None:
    """Let the running tries of this process finish, for a short time."""
    if found := _senders.get(os.getpid()):
        found.stop()


def _sender(settings: Settings) -> Sender:
    with _lock:
        if os.getpid() not in _senders:
            box = SecretBox.open(settings.secret_file)
            _senders[os.getpid()] = Sender(box, settings.callback_allow, settings.public_url)
        return _senders[os.getpid()]


async def resolve(host: str, port: int) -> Sequence[Address]:
    """Return the addresses of a host, in the order of the tries."""
    loop = asyncio.get_running_loop()
    found = await loop.run_in_executor(_resolvers, socket.getaddrinfo, host, port, 0, socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(place[4][0]) for place in found))


async def send(post: Post, allowed: Sequence[Network], resolve: Resolve = resolve) -> Answer:
    """Send a request and return the result; errors become a result, too.

    The name is resolved once. Only its permitted addresses are tried, and the connection goes nowhere else: no redirect
    is followed, and no proxy is used. The certificate must be valid for the name.
    """
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await _send(post, allowed, resolve)
    except TimeoutError:
        return Answer(0, f"no answer within {TIMEOUT_S:.0f} s")
    except (BadUrl, OSError, httpx.HTTPError, httpx.InvalidURL, UnicodeError, ValueError) as error:
        return Answer(0, f"{type(error).__name__}: {error}"[:ERROR_CHARS])


async def _send(post: Post, allowed: Sequence[Network], resolve: Resolve) -> Answer:
    url = parse_url(post.url)
    host, port = url.raw_host.decode(), url.port or {"http": 80, "https": 443}[url.scheme]
    address = literal(host)
    found = [address] if address else await resolve(host, port)
    fit = [each for each in found if may_call(each, allowed, url.scheme)][:MOST_ADDRESSES]
    if not fit:
        return Answer(0, NOT_ALLOWED.format(host=host))
    for each in fit[:-1]:
        try:
            return await _post(url, each, post)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            continue  # nothing was sent
    return await _post(url, fit[-1], post)


async def _post(url: httpx.URL, address: Address, post: Post) -> Answer:
    """Send the request to this address, with the host's name."""
    timeout = httpx.Timeout(TIMEOUT_S, connect=CONNECT_S)
    async with (
        httpx.AsyncClient(verify=_trust(), trust_env=False, follow_redirects=False, timeout=timeout) as client,
        client.stream(
            "POST",
            url.copy_with(host=str(address)),
            content=post.body,
            headers={**post.headers, "host": url.netloc.decode()},
            extensions={"sni_hostname": url.raw_host.decode()},
        ) as response,
    ):
        return Answer(response.status_code, retry_after=response.headers.get("retry-after", "")[:100])


@cache
def _trust() -> ssl.SSLContext:
    return ssl.create_default_context()
