"""`planner up`: a whole planner on one machine, with server and gateway, until Ctrl-C."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from worker.cli.commands.worker import check_drafters
from worker.cli.console import FAILED, OK, USAGE, Failure, SecretsFd, command, read_settings, refuse_server, say
from worker.host import nearby_server
from worker.host.stop_signals import heard
from worker.process import launch
from worker.settings import credentials

if TYPE_CHECKING:
    from worker.settings.settings import Settings

PORT = 6379
GATEWAY, WORKER = "gateway", "worker"
START_S = 30.0
STOP_S = 30.0  # beyond PLANNER_STOP_S, and for the server's end
TICK_S = 0.2

Worker: TypeAlias = "subprocess.Popen[bytes]"


@command
def up(
    port: Annotated[int, typer.Option(help="Where the server listens; another one if that is taken.")] = PORT,
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", min=1, help="Tasks side by side.")] = 1,
    opens: Annotated[bool, typer.Option("--open", help="Open the gateway's page in a browser.")] = False,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the data are; else PLANNER_DATA_DIR.")
    ] = None,
    secrets_fd: SecretsFd = None,
) -> int:
    """Start a planner on this machine: a worker, a gateway and a server.

    The server is an embedded Valkey, unless PLANNER_REDIS_URL names another server. The gateway serves HTTP to this
    machine alone, at PLANNER_GATEWAY_PORT or, if that is taken, another port. It needs the extra `gateway`.

    [b]planner up[/b]

    The server stores its data and its random password in PLANNER_DATA_DIR (.planner) or --data-dir, where the other
    commands find them. The folder also has a key of the gateway with all rights, for the queue `default`. Ctrl-C ends
    all processes; no data is lost.
    """
    if data_dir:
        os.environ["PLANNER_DATA_DIR"] = str(data_dir.absolute())  # for started processes, too
    settings = read_settings(secrets_fd, nearby=False)
    check_drafters(settings)
    credentials.protect()
    with _stopped_by_signals():
        if "redis_url" in settings.model_fields_set:
            refuse_server(settings)
            return _serve(settings.redis_url, concurrency, settings, opens=opens)
        with _valkey(settings.data_dir, port) as url:
            _check_data(url, settings.data_dir)
            return _serve(url, concurrency, settings, opens=opens)
    return OK


def _serve(url: str, concurrency: int, settings: Settings, *, opens: bool) -> int:
    from worker.process.shutdown import STUCK

    workers: dict[str, Worker] = {}
    worker = launch.worker_command(concurrency=concurrency)
    code = STUCK
    with suppress(KeyboardInterrupt):
        _start(workers, url, WORKER, worker)
        http = _start_gateway(workers, url, settings)
        _greet(url, settings, http)
        if opens and http:
            webbrowser.open(f"{http}/")
        while code == STUCK:
            what, code = _first_end(workers)
            if code == STUCK:
                say("The worker was stuck and has ended itself; another one starts.")
                _start(workers, url, WORKER, worker)
    stopped = _stop(workers.values(), settings.stop_s + STOP_S)
    (settings.data_dir / nearby_server.GATEWAY_URL).unlink(missing_ok=True)
    if code != STUCK:
        raise Failure.of(f"{what}_ended", f"The {what} ended by itself, with exit code {code}.", FAILED)
    return stopped


def _check_data(url: str, data_dir: Path) -> None:
    """Raise Failure if the embedded server's data cannot be used, for example because they are from before 0.1.0."""
    from worker.store import clients, deployment

    try:
        with clients.connect(url) as client:
            deployment.check(client, None)
    except deployment.ServerOfBefore as error:
        sentence = f"The folder {data_dir} {error.HOLDS}. Delete it with `rm -r {shlex.quote(str(data_dir))}`, "
        raise Failure.of(error.code, f"{sentence}or take another one: `planner up --data-dir DIR`.", USAGE) from error
    except deployment.WrongDeployment as error:
        raise Failure.of(error.code, str(error), USAGE) from error


def _start(
    workers: dict[str, Worker],
    url: str,
    name: str,
    command: Sequence[str],
    inherited: tuple[int, ...] = (),
) -> None:
    """Start a process in a separate session: Ctrl-C reaches only this process, which ends the others in order.

    A signal that arrives meanwhile is delayed; otherwise a worker could be left running.
    """
    with launch.stop_signals_wait():
        environment, secrets = credentials.hand_on(os.environ, credentials.read() | {"PLANNER_REDIS_URL": url})
        try:
            workers[name] = subprocess.Popen(  # noqa: S603 (our own command)
                command, env=environment, start_new_session=True, pass_fds=(secrets, *inherited)
            )
        finally:
            os.close(secrets)


def _first_end(workers: Mapping[str, Worker]) -> tuple[str, int]:
    """Wait until a process ends by itself. Returns its name and its exit code."""
    while True:
        for name, worker in workers.items():
            if (code := worker.poll()) is not None:
                return name, code
        time.sleep(TICK_S)


def _stop(workers: Collection[Worker], seconds: float) -> int:
    """Stop the remaining workers together. Returns FAILED if one did not end properly in time."""
    deadline = time.monotonic() + seconds
    for worker in workers:
        worker.terminate()
    for worker in workers:
        try:
            worker.wait(max(0.0, deadline - time.monotonic()))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            deadline = 0
            worker.kill()
            worker.wait()
    return FAILED if any(worker.returncode for worker in workers) else OK


def _start_gateway(workers: dict[str, Worker], url: str, settings: Settings) -> str | None:
    """Start a gateway, and store a key for it. Returns the gateway's URL; None if the extra `gateway` is missing."""
    if not (find_spec("fastapi") and find_spec("uvicorn")):
        return None
    with nearby_server.listen(settings.gateway_port) as listener:  # callers wait in it until the gateway takes them
        where = f"http://127.0.0.1:{listener.getsockname()[1]}"
        nearby_server.make_private(settings.data_dir)
        _leave_key(url, settings.data_dir / nearby_server.API_KEY)
        nearby_server.write(settings.data_dir / nearby_server.GATEWAY_URL, where)
        number = listener.fileno()
        _start(workers, url, GATEWAY, launch.gateway_command(number), (number,))
    return where


def _leave_key(url: str, file: Path) -> None:
    """Store a new key with all rights in a private file, unless the file already has a valid key."""
    from redis.exceptions import RedisError

    from schemas.api_key import ApiKey, Right
    from worker.host.account import host_name, own_name
    from worker.store import api_keys, audit, clients

    kept = file.read_text().strip() if file.exists() else ""
    try:
        with clients.connect(url) as client:
            if not (kept and api_keys.find(client, kept)):
                key = ApiKey(key_id=api_keys.new_id(), rights=(Right.ADMIN,))
                nearby_server.write(file, api_keys.add(client, key))
                audit.note(
                    client, audit.Act("key made", own_name(), host_name(), f"{key.called}: admin, of planner up")
                )
    except RedisError as error:  # one that is away may come; the workers wait for it too
        say(f"No key was made for the gateway ({error}): make one with `planner keys add --role admin`.")


def _greet(url: str, settings: Settings, http: str | None) -> None:
    from worker.store.clients import place

    say(f"The planner is up at {place(url)}. Ctrl-C ends it.")
    if http:
        say(f"Over HTTP: {http}, with the key in {settings.data_dir / nearby_server.API_KEY} (of the queue default)")
        say(f"In a browser: {http}/, where that key signs in")
    else:
        say("There is no HTTP: pip install 'planner-worker[gateway]'")
    if "redis_url" not in settings.model_fields_set:
        say(f"In other folders first: export PLANNER_DATA_DIR={settings.data_dir.absolute()}")
    say('Ask for something:  planner submit --goal "Add prefix support" --file src/a.py --file tests/test_a.py --wait')
    say('Let agents do it:   planner controller --exec "my-agent" --workdir REPO')


@contextmanager
def _valkey(data_dir: Path, port: int) -> Iterator[str]:
    """Run the server in a separate session, which Ctrl-C does not reach; it ends with this process in any case.

    If another program listens at `port`, the server takes another port.
    """
    with socket.socket() as probe:
        free = port if probe.connect_ex(("127.0.0.1", port)) else None
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_keep, args=(data_dir, free, theirs, ours))
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
    """Run the server until the other side of the pipe is closed."""
    from worker.host.embedded_server import valkey

    os.setsid()
    ours.close()
    try:
        os.umask(0o077)
        with _alone_in(data_dir), valkey(data_dir, port, nearby_server.password(data_dir)) as url:
            nearby_server.write(data_dir / nearby_server.URL, url)
            theirs.send((url, None))
            with suppress(EOFError):
                theirs.recv()
            (data_dir / nearby_server.URL).unlink(missing_ok=True)
    except Exception as error:  # every error is reported as a sentence
        theirs.send((None, str(error)))


@contextmanager
def _alone_in(data_dir: Path) -> Iterator[None]:
    """Prevent a second server from using the data, which two servers would damage."""
    nearby_server.make_private(data_dir)
    with (data_dir / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError("another `planner up` uses it.") from None
        yield


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Make SIGTERM and the end of the terminal act like Ctrl-C; before the worker runs they just end this process."""
    ends = heard(signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.default_int_handler) for number in ends}
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(OK)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
