"""The server of a benchmark: the embedded one, an installed program, or one that runs somewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import ConnectionError as NoServer

from tests.bench.fleet import wait_for
from worker.host import embedded_server
from worker.store import clients

EMBEDDED = "embedded"


class UnusableServer(Exception):
    """The benchmark cannot use this server; the text says why."""


@contextmanager
def running(server: str, directory: Path, preload: Path | None = None, appendfsync: str | None = None) -> Iterator[str]:
    """Run `server` with its data in `directory`; yields its URL. One that has a URL runs already, and has to be empty.

    `preload` is a library that the dynamic linker puts before those of the server, such as another allocator;
    `appendfsync` is when the server has its file of commands written to the disk, every second where it is None.
    """
    if "://" in server:
        if preload:
            raise UnusableServer(f"{server} runs already: nothing can be preloaded into it.")
        if appendfsync:
            raise UnusableServer(f"{server} runs already: its own configuration says when it writes to its disk.")
        _check_empty(server)
        yield server
        return
    with ExitStack() as stack:
        with _linker_told_of(preload):
            starting = embedded_server.valkey(directory) if server == EMBEDDED else _program(server, directory)
            url = stack.enter_context(starting)
        if preload:
            _check_preloaded(url, preload)
        if appendfsync:
            with clients.connect(url) as client:
                client.config_set("appendfsync", appendfsync)
        yield url


@contextmanager
def _linker_told_of(preload: Path | None) -> Iterator[None]:
    """Have what is started meanwhile load a library first."""
    before = os.environ.get("LD_PRELOAD")
    try:
        if preload:
            os.environ["LD_PRELOAD"] = str(preload)
        yield
    finally:
        os.environ.pop("LD_PRELOAD", None)
        if before is not None:
            os.environ["LD_PRELOAD"] = before


@contextmanager
def _program(name: str, directory: Path) -> Iterator[str]:
    """Run an installed redis-server or valkey-server with the configuration of the embedded one."""
    found = shutil.which(name)
    if not found:
        raise UnusableServer(f"There is no program {name}; --server takes `{EMBEDDED}`, a program, or a URL.")
    port = embedded_server.free_port()
    options = [word for key, value in embedded_server.CONFIG.items() for word in (f"--{key}", value)]
    command = [found, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        url = f"redis://127.0.0.1:{port}/0"
        wait_for(lambda: process.poll() is not None or _answers(url), 30)
        if process.poll() is not None:
            raise UnusableServer(f"{found} has ended with {process.returncode}; is it a Redis server?")
        yield url
    finally:
        process.terminate()
        process.wait(60)


def _answers(url: str) -> bool:
    try:
        with clients.connect(url) as client:
            return bool(client.ping())
    except NoServer:
        return False


def _check_empty(url: str) -> None:
    with clients.connect(url) as client:
        if keys := client.dbsize():
            raise UnusableServer(
                f"{clients.place(url)} has {keys} keys, and the benchmark empties it: name another one."
            )


def _check_preloaded(url: str, library: Path) -> None:
    with clients.connect(url) as client:
        maps = Path(f"/proc/{client.info('server')['process_id']}/maps").read_text()
    if library.resolve().name not in maps:
        raise UnusableServer(f"The server has not loaded {library}: is it linked statically?")


def describe(client: Redis, preload: Path | None = None) -> dict[str, str]:
    """Name a server, its version, and the allocator that it has."""
    info: Any = client.info("everything")
    name = info.get("server_name", "redis")
    allocator = str(info["mem_allocator"])
    return {
        "name": name,
        "version": str(info.get(f"{name}_version", info["redis_version"])),
        "allocator": f"{allocator}, {preload.name} preloaded" if preload else allocator,
        "appendfsync": str(client.config_get("appendfsync").get("appendfsync", "")),
    }
