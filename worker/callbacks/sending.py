"""Sends one request to the address that was checked, and reads no more of the answer than its head."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from ipaddress import ip_address

import httpx

from worker.callbacks.addresses import Address, BadUrl, Network, literal, may_call, parse_url
from worker.callbacks.message import Post
from worker.callbacks.schedule import Answer

TIMEOUT_S = 15.0  # of all of it: the name, the connection, the answer
CONNECT_S = 5.0  # to one address, where there are more
MOST_ADDRESSES = 4
ERROR_CHARS = 200
NOT_ALLOWED = "{host} has no address for callbacks: one that is public, with https, or one of PLANNER_CALLBACK_ALLOW"

Resolve = Callable[[str, int], Awaitable[Sequence[Address]]]

_resolvers = ThreadPoolExecutor(64, "callback-names")  # a name server may take its time


async def resolve(host: str, port: int) -> Sequence[Address]:
    """Ask for the addresses of a host, in the order in which they are to be tried."""
    loop = asyncio.get_running_loop()
    found = await loop.run_in_executor(_resolvers, socket.getaddrinfo, host, port, 0, socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(place[4][0]) for place in found))


async def send(post: Post, allowed: Sequence[Network], resolve: Resolve = resolve) -> Answer:
    """Send it, and say what came of it; whatever that is, nothing is raised.

    The name is resolved once. Of its addresses those are tried that may be called, and the connection goes to nothing
    else: no redirect is followed, no proxy is asked. The certificate has to be the name's.
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
    """Send it to this very address, in the name of the host."""
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
