"""`planner up`: a whole planner on one machine, the server included, until Ctrl-C."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated

import typer

from worker.cli.console import FAILED, OK, Failure, command, configured, say
from worker.cli.run import worker_command

PORT = 6379  # where every other command looks unless PLANNER_REDIS_URL is set
START_S = 30.0
STOP_S = 30.0  # beyond PLANNER_STOP_S, and for the server's end


@command
def up(
    port: Annotated[int, typer.Option(help="Where the server listens; another one if that is taken.")] = PORT,
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", min=1, help="Tasks side by side.")] = 1,
) -> int:
    """Start a planner on this machine: a worker, and a Valkey server unless PLANNER_REDIS_URL names one.

    [b]planner up[/b]

    The server keeps its data in PLANNER_DATA_DIR (.planner). Ctrl-C ends both; nothing is lost.
    """
    settings = configured()
    told = os.environ.get("PLANNER_REDIS_URL")
    with _stopped_by_signals():
        if told:
            return _serve(told, concurrency, settings.stop_s)
        with _valkey(settings.data_dir, _free(port)) as url:
            return _serve(url, concurrency, settings.stop_s)
    return OK


def _serve(url: str, concurrency: int, stop_s: float) -> int:
    from worker.ending import STUCK

    process = _worker(url, concurrency)
    try:
        _greet(url)
        while process.wait() == STUCK:
            say("The worker was stuck and has ended itself; another one starts.")
            process = _worker(url, concurrency)
    except KeyboardInterrupt:
        return _stop(process, stop_s + STOP_S)
    raise Failure.of("worker_ended", f"The worker ended by itself, with exit code {process.returncode}.", FAILED)


def _worker(url: str, concurrency: int) -> subprocess.Popen[bytes]:
    """Start a worker in a session of its own: Ctrl-C reaches only us, and we end things in order."""
    environment = {**os.environ, "PLANNER_REDIS_URL": url}
    command = worker_command(concurrency=concurrency)
    return subprocess.Popen(command, env=environment, start_new_session=True)  # noqa: S603 (our own command)


def _stop(process: subprocess.Popen[bytes], seconds: float) -> int:
    process.terminate()
    try:
        process.wait(seconds)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()
        return FAILED
    return OK if process.returncode == 0 else FAILED


def _greet(url: str) -> None:
    say(f"The planner is up at {url}. Ctrl-C ends it.")
    if url != f"redis://127.0.0.1:{PORT}/0":
        say(f"In other terminals first: export PLANNER_REDIS_URL={url}")
    say('Ask for something:  planner submit --goal "Add prefix support" --file src/a.py --file tests/test_a.py --wait')
    say('Let agents do it:   planner controller --exec "my-agent" --workdir REPO')


@contextmanager
def _valkey(data_dir: Path, port: int | None) -> Iterator[str]:
    """Run the server in a session of its own, out of reach of Ctrl-C; it ends with us, whatever ends us."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_keep, args=(data_dir, port, theirs, ours))
    process.start()
    theirs.close()
    with closing(ours):
        if not ours.poll(START_S):
            raise Failure.of("no_server", "The embedded server did not start.")
        url, trouble = ours.recv()
        if trouble:
            raise Failure.of("no_server", f"The embedded server cannot run in {data_dir}: {trouble}")
        try:
            yield url
        finally:
            ours.close()
            process.join(STOP_S)


def _keep(data_dir: Path, port: int | None, theirs: Connection, ours: Connection) -> None:
    """Keep the server running until the other side of the pipe is closed."""
    from worker.embedded import valkey

    os.setsid()
    ours.close()
    try:
        with _alone_in(data_dir), valkey(data_dir, port) as url, suppress(EOFError):
            theirs.send((url, None))
            theirs.recv()
    except Exception as error:  # whatever it is, the user wants a sentence
        theirs.send((None, str(error)))


@contextmanager
def _alone_in(data_dir: Path) -> Iterator[None]:
    """Keep a second server away from the data, which two would ruin."""
    data_dir.mkdir(parents=True, exist_ok=True)
    with (data_dir / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError("another `planner up` uses it.") from None
        yield


def _free(port: int) -> int | None:
    """Take `port` if nothing listens there, else leave it to the server to find one."""
    with socket.socket() as probe:
        return None if probe.connect_ex(("127.0.0.1", port)) == 0 else port


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Let SIGTERM, and the end of the terminal, do what Ctrl-C does; before the worker runs they just end us."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(OK)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
