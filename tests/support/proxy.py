"""A TCP proxy before a Redis that fails on demand: it refuses, stalls, or strikes at one chosen command.

A pattern matches the text of a command: its words, or those of the whole transaction once EXEC is sent.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import urlsplit

import hiredis

CHUNK = 65_536
WORD = 300  # bytes of a word that are matched


class When(Enum):
    """Whether a trap strikes before or after the execution of its command."""

    BEFORE = "before the server has seen it"
    AFTER = "after the server has executed it, its reply held back"


@dataclass
class Trap:
    """Strikes once, at the first command that `pattern` matches: `then` runs, and the connection is closed.

    Afterwards only at a command that was answered with something: a read that found nothing is let pass.
    """

    pattern: re.Pattern[bytes]
    when: When
    then: Callable[[], None]
    met: threading.Event = field(default_factory=threading.Event)  # such a command is on its way
    sprung: threading.Event = field(default_factory=threading.Event)


class Proxy:
    """Passes bytes between clients and the server at `url`; use as `with running_proxy(url) as proxy`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._target = parts.hostname or "127.0.0.1", parts.port or 6379
        self._port = 0
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._flowing = asyncio.Event()
        self._links: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._trap: Trap | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    @property
    def url(self) -> str:
        """Where clients connect to."""
        return f"redis://127.0.0.1:{self._port}/0"

    def trap(self, pattern: str, when: When = When.AFTER, then: Callable[[], None] = lambda: None) -> Trap:
        """Set a trap for a command; `then` runs in its own thread before the connection is closed."""
        self._trap = Trap(re.compile(pattern.encode(), re.DOTALL), when, then)
        return self._trap

    def pass_on(self) -> None:
        """Work as if there were no proxy."""
        self._run(self._listen())
        self._loop.call_soon_threadsafe(self._flowing.set)

    def refuse(self) -> None:
        """Close every connection, and refuse new ones."""
        self._run(self._hang_up())

    def stall(self) -> None:
        """Accept connections and bytes, and forward nothing until the mode changes."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()
        self.pass_on()

    def stop(self) -> None:
        """Close everything."""
        self.refuse()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, doing: object) -> None:
        asyncio.run_coroutine_threadsafe(doing, self._loop).result(10)  # type: ignore[arg-type]

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
            self._port = self._server.sockets[0].getsockname()[1]

    async def _hang_up(self) -> None:
        if self._server:
            self._server.close()
            self._server = None
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._links[task] = writer
        try:
            with suppress(OSError, asyncio.CancelledError):
                up_reader, up_writer = await asyncio.open_connection(self._host, self._target)
                try:
                    await self._link(reader, writer, up_reader, up_writer)
                finally:
                    up_writer.transport.abort()
        finally:
            writer.transport.abort()
            del self._links[task]

    async def _link(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
    ) -> None:
        talk = _Talk(self)
        ways = [
            asyncio.ensure_future(self._forward(reader, up_writer, talk.request)),
            asyncio.ensure_future(self._forward(up_reader, writer, talk.reply)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, look: Callable[[bytes], Trap | None]
    ) -> None:
        """Forward bytes in one direction until the connection ends or its bytes spring a trap."""
        while chunk := await reader.read(CHUNK):
            await self._flowing.wait()
            if sprung := look(chunk):
                try:
                    await asyncio.to_thread(sprung.then)
                finally:  # who kills the client ends the other way, and this one with it
                    sprung.sprung.set()
                return
            writer.write(chunk)
            await writer.drain()

    def match(self, text: bytes) -> Trap | None:
        """Return the trap if it waits for such a command.

        Several connections may be in it at once: which of two that read gets an entry is known when it is answered.
        """
        trap = self._trap
        return trap if trap and trap.pattern.search(text) else None

    def spring(self, trap: Trap) -> bool:
        """Remove the trap; return whether it was still set."""
        if self._trap is not trap:
            return False
        self._trap = None
        return True


class _Talk:
    """The state of one connection: the command that is being sent, and the number of replies due before its own."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self._requests, self._replies = hiredis.Reader(), hiredis.Reader()
        self._transaction: list[bytes] = []
        self._sent = self._answered = 0
        self._trap: Trap | None = None
        self._at = 0  # the command whose reply is held back

    def request(self, chunk: bytes) -> Trap | None:
        """Read bytes from a client; return the trap that they spring before the server has seen the command."""
        self._requests.feed(chunk)
        while (words := self._requests.gets()) is not False:
            self._sent += 1
            if (trap := self._proxy.match(self._text(words))) and not self._trap:
                trap.met.set()
                if trap.when is When.AFTER:
                    self._trap, self._at = trap, self._sent
                elif self._proxy.spring(trap):
                    return trap
        return None

    def reply(self, chunk: bytes) -> Trap | None:
        """Read bytes from the server; return the trap whose command has been executed."""
        self._replies.feed(chunk)
        sprung = None
        while (answer := self._replies.gets()) is not False:
            self._answered += 1
            if self._trap and self._answered == self._at:
                if answer is not None and self._proxy.spring(self._trap):
                    sprung = self._trap
                self._trap = None
        return sprung

    def _text(self, words: list[bytes]) -> bytes:
        text = b" ".join(word[:WORD] for word in words)
        if words[0].upper() == b"MULTI" or self._transaction:
            self._transaction.append(text)
            if words[0].upper() != b"EXEC":
                return b""
            text = b" ; ".join(self._transaction)
            self._transaction = []
        return text


@contextmanager
def running_proxy(url: str) -> Iterator[Proxy]:
    """Run a proxy before the server at `url`."""
    proxy = Proxy(url)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
