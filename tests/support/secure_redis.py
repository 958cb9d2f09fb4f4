"""Servers of Redis that speak TLS alone: real ones, and the embedded one, which has no TLS, behind an end of TLS."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.conftest import wait_until
from tests.support.certificate import write_certificate
from worker.host.embedded_server import free_port

HERE = ("127.0.0.1", "127.0.0.2")  # of the latter the certificate does not speak


@dataclass(frozen=True)
class Secure:
    """The URL of a server, and the certificate of its authority."""

    url: str
    ca: Path


@contextmanager
def end_of_tls(url: str, directory: Path, clients: Path | None = None) -> Iterator[Secure]:
    """End TLS before the server at `url`; with `clients` who has no certificate of that authority is refused."""
    certificate, key = write_certificate(directory)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients)
    to, loop = urlsplit(url), asyncio.new_event_loop()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            there, back = await asyncio.open_connection(to.hostname, to.port)
            try:
                await asyncio.gather(forward(reader, back), forward(there, writer))
            finally:
                back.transport.abort()
        writer.transport.abort()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(65_536):
                writer.write(piece)
                await writer.drain()
        writer.close()

    loop.set_exception_handler(lambda *_: None)  # callers who refuse our certificate are what tests are about
    server = loop.run_until_complete(asyncio.start_server(serve, HERE, free_port(), ssl=context))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield Secure(f"rediss://localhost:{server.sockets[0].getsockname()[1]}/0", certificate)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        server.close()
        for task in (tasks := asyncio.all_tasks(loop)):
            task.cancel()
        loop.run_until_complete(asyncio.wait([*tasks, loop.create_task(asyncio.sleep(0.05))]))
        loop.close()


@contextmanager
def secure_server(program: str, directory: Path) -> Iterator[Secure]:
    """Run `program`, a Redis or a Valkey, with TLS and no other port."""
    certificate, key = write_certificate(directory)
    port = free_port()
    options = {"port": 0, "tls-port": port, "bind": "127.0.0.1", "dir": directory, "appendonly": "yes"}
    options |= {"tls-cert-file": certificate, "tls-key-file": key, "tls-auth-clients": "no"}
    options |= {"tls-ca-cert-file": certificate, "appendfsync": "no"}
    words = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen([shutil.which(program) or program, *words], stdout=log, stderr=log)
    try:
        ready = "eady to accept connections"
        wait_until(lambda: ready in (directory / "server.log").read_text(), what=f"{program} is ready")
        yield Secure(f"rediss://localhost:{port}/0", certificate)
    finally:
        process.kill()
        process.wait(60)
