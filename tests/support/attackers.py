"""Callers that try to use up the gateway's connections: `python -m tests.support.attackers HOST:PORT KIND COUNT TOKEN`.

Each kind holds COUNT connections, from its own addresses, and opens a new one as soon as one has ended. It prints a
line once all are open.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress

PAUSE_S = 0.2
EACH = 1000  # connections of an address
CLAIM = b'{"controller":"c","wait_s":30}'
KINDS = {
    "streams": b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
    "claims": b"POST /v1/steps:claim HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
    b"Content-Type: application/json\r\nContent-Length: " + b"%d\r\n\r\n" % len(CLAIM) + CLAIM,
    "lists": b"GET /v1/plans?limit=500 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
    "idle": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "heads": b"GET /v1/plans HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
}
NO_WAIT = struct.pack("ii", 1, 0)  # of an ended connection nothing stays, so that other tests find free ports


@contextmanager
def attackers(place: str, token: str, kinds: Mapping[str, int]) -> Iterator[None]:
    """Have so many of each kind attack a place from when all have come until the block ends."""
    with ExitStack() as stack:
        running = []
        for kind, count in kinds.items():
            words = ["nice", sys.executable, "-m", "tests.support.attackers", place, kind, str(count), token]
            process = subprocess.Popen(words, stdout=subprocess.PIPE)
            stack.enter_context(process)
            stack.callback(process.kill)
            running.append(process)
        for process in running:
            assert process.stdout
            assert process.stdout.readline() == b"here\n"
        yield
        assert [each.poll() for each in running] == [None] * len(running)


async def hold(place: tuple[str, int], request: bytes, source: str, came: asyncio.Queue[None]) -> None:
    """Be one caller, for ever."""
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(*place, local_addr=(source, 0))
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_WAIT)
            try:
                writer.write(request)
                came.put_nowait(None)
                while await reader.read(65_536):
                    pass
            finally:
                writer.transport.abort()
        await asyncio.sleep(PAUSE_S)


async def attack(place: str, kind: str, count: int, token: str) -> None:
    """Be `count` callers."""
    host, _, port = place.partition(":")
    request = KINDS[kind].replace(b"%s", token.encode())
    net = 2 + sorted(KINDS).index(kind)
    came: asyncio.Queue[None] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        for at in range(count):
            group.create_task(hold((host, int(port)), request, f"127.0.{net}.{1 + at // EACH}", came))
        for _ in range(count):
            await came.get()
        print("here", flush=True)  # noqa: T201 - to who started it
        while True:
            await came.get()


if __name__ == "__main__":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(attack(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]))
