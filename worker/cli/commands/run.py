"""`planner worker` and `planner controller`: the two kinds of processes of a deployment."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from worker import start
from worker.cli.console import OK, USAGE, Failure, Json, SecretsFd, command, configured, linked, say, say_json
from worker.host.terminal import line

if TYPE_CHECKING:
    from redis import Redis

    from worker.controller import ControllerConfig
    from worker.sandbox.paths import Grant
    from worker.sandbox.user import User
    from worker.settings.settings import Settings

SLOW = frozenset({"http", "cli", "backend"})  # drafters that a worker waits for


class Pool(StrEnum):
    """How a worker runs tasks side by side."""

    PREFORK = "prefork"
    SOLO = "solo"
    THREADS = "threads"


class Level(StrEnum):
    """The least level that is logged."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class Mode(StrEnum):
    """Whether agents and verifications are confined; as worker.sandbox has it, which `--help` need not wait for."""

    AUTO = "auto"
    REQUIRE = "require"
    OFF = "off"


@command
def worker(
    pool: Annotated[Pool, typer.Option("--pool", "-P", help="Processes, the worker's own process, or threads.")] = (
        Pool.PREFORK
    ),
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", min=1, help="Tasks side by side.")] = 1,
    queues: Annotated[str | None, typer.Option("--queues", "-Q", help="Only these, such as planner.decompose.")] = None,
    recycle: Annotated[
        int | None, typer.Option("--max-tasks-per-child", min=1, help="Replace a pool process after so many tasks.")
    ] = None,
    loglevel: Annotated[Level | None, typer.Option("--loglevel", "-l", help="Else PLANNER_LOG_LEVEL.")] = None,
    secrets_fd: SecretsFd = None,
) -> None:
    """Run a planner worker: [b]celery -A worker worker[/b] with the right flags.

    [b]planner worker -c 2[/b]

    [b]planner worker --queues planner.decompose[/b]   only turns goals into plans

    Ends on SIGTERM when the work in hand is done, after PLANNER_STOP_S at the latest; then others go on with the rest.
    Exit code 0; 70 when it was stuck and ended itself (see PLANNER_WATCHDOG_S); 1 when it could not start.
    """
    from worker.settings import credentials

    settings = configured(secrets_fd)
    check_drafters(settings)
    if queues is None and len(apart := shares(settings)) > 1:
        told = "While this worker drafts it does nothing else, for minutes. Run two, each with one of"
        line(f"{told}: --queues {' --queues '.join(map(str, apart))}", err=True)
    _check_queues(queues)
    command = start.worker_command(pool, concurrency, queues, loglevel or settings.log_level, recycle)
    sys.stdout.flush()
    environment, _ = credentials.handed_on(os.environ, credentials.of(settings))
    with start.stop_signals_wait():
        os.execve(command[0], command, environment)  # noqa: S606 (no shell is wanted)


def check_drafters(settings: Settings) -> None:
    """Raise a Failure with a sentence for each drafter that is enabled and cannot be used here."""
    from worker import drafters
    from worker.drafters.base import WrongDrafter

    try:
        drafters.check(settings)
    except WrongDrafter as error:
        raise Failure.of("wrong_settings", str(error), USAGE) from error


def shares(settings: Settings) -> tuple[str | None, ...]:
    """Say which workers a planner needs at least, by their queues: a draft may take minutes, so that is one's own."""
    from tasks.routes import GOALS, ROUTES

    if not SLOW.intersection(settings.drafters):
        return (None,)
    return (GOALS.task, ",".join(route.task for route in ROUTES if route is not GOALS))


def _check_queues(queues: str | None) -> None:
    """Raise a Failure for a queue that no route has."""
    from tasks.routes import ROUTES

    known, asked = [route.task for route in ROUTES], queues.split(",") if queues else []
    if wrong := [queue for queue in asked if queue not in known]:
        raise Failure.of("unknown_queue", f"No queue {', '.join(wrong)}; there are {', '.join(known)}.", USAGE)


@command
def partitions(
    number: Annotated[int | None, typer.Argument(min=1, max=256, help="How many there are from now on.")] = None,
    as_json: Json = False,
) -> None:
    """Tell how many partitions the server of PLANNER_REDIS_URL has; with a number, change that.

    [b]planner partitions 4[/b]

    A plan stays in its partition, so the number can be changed only where there is no plan, not even one that has
    ended, and no message waits. Then set PLANNER_PARTITIONS everywhere, and start workers and controllers anew.
    """
    from worker.store import deployment

    with linked(agreed=False) as link:
        if number is not None:
            try:
                deployment.change(link.client, number)
            except deployment.WrongDeployment as error:
                raise Failure.of("partitions_in_use", str(error)) from error
        there = deployment.partitions_of(link.client)
    told = "No worker has used this server yet." if there is None else f"{there}"
    say_json({"partitions": there}) if as_json else say(told)


@command
def controller(
    agent: Annotated[str, typer.Option("--exec", "-x", metavar="CMD", help="The agent; without, only tests run.")] = "",
    workdir: Annotated[
        Path, typer.Option("--workdir", "-C", exists=True, file_okay=False, help="The git repository to work on.")
    ] = Path(),
    queue: Annotated[list[str] | None, typer.Option("--queue", "-q", help="Read this one; again for more.")] = None,
    name: Annotated[str | None, typer.Option(help="Its name among the consumers; unique.")] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=64, help="So many, side by side.")] = 1,
    once: Annotated[bool, typer.Option("--once", help="End after one step.")] = False,
    agent_path: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH[:rw]", help="What CMD may read, or write, such as its login; again for more."),
    ] = None,
    tool_path: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH[:rw]", help="The same for verifications and CMD, such as a cache of packages."),
    ] = None,
    sandbox: Annotated[Mode | None, typer.Option(help="Else PLANNER_SANDBOX.")] = None,
    agent_user: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|UID", help="Where this is root: whom CMD and verifications run as; else PLANNER_AGENT_USER."
        ),
    ] = None,
    secrets_fd: SecretsFd = None,
) -> int:
    """Run controllers: each gives CMD the step spec on its standard input, verifies and reports.

    [b]planner controller --exec "my-agent --quiet" --workdir ~/src/shop --count 4[/b]

    Each works in a clone of its own; verified changes are collected on the branch planner/<plan id> of the repository.
    A step that drafts, explores or reviews has an `input` in its spec; what CMD prints, JSON or text, is its answer.
    docs/controllers.md tells what else CMD may say. Ends on SIGTERM.

    CMD and verifications may read the system and write to their worktree, where the kernel has Landlock. What else they
    need, such as a login in your home, is named: [b]--agent-path ~/.codex:rw --tool-path ~/.npm:rw[/b]

    As root, let CMD and verifications run as an ordinary user, who cannot read your files even where there is no
    Landlock: [b]--agent-user agent --agent-path /home/agent/.codex:rw[/b]
    """
    from worker.controller.config import ControllerConfig, unique_name
    from worker.sandbox.sandbox import Mode as SandboxMode
    from worker.sandbox.sandbox import NoSandbox, Sandbox
    from worker.settings import credentials
    from worker.telemetry.logs import set_up_logs

    settings = configured(secrets_fd)
    credentials.protect()
    set_up_logs(settings.log_level)
    config = ControllerConfig(
        redis_url=settings.redis_url,
        workdir=workdir,
        command=agent,
        queues=tuple(queue or ("default",)),
        partitions=settings.partitions,
        once=once,
        name=name or unique_name(),
        sandbox=SandboxMode(sandbox or settings.sandbox),
        agent_paths=_grants("--agent-path", agent_path),
        tool_paths=_grants("--tool-path", tool_path),
        hidden=settings.private,
        agent_user=_user(agent_user or settings.agent_user),
    )
    try:
        Sandbox(config.sandbox, user=config.agent_user).check()
    except NoSandbox as error:
        raise Failure.of("no_sandbox", str(error)) from error
    return _run(config, count)


def _user(name: str | None) -> User | None:
    from worker.sandbox.user import User, WrongUser

    try:
        return User.find(name) if name else None
    except WrongUser as error:
        raise Failure.of("wrong_user", f"--agent-user {error}", USAGE) from error


def _grants(option: str, texts: list[str] | None) -> tuple[Grant, ...]:
    from worker.sandbox.paths import Grant, WrongPath

    try:
        return tuple(map(Grant.parse, texts or ()))
    except WrongPath as error:
        raise Failure.of("wrong_path", f"{option} {error}.", USAGE) from error


def _run(config: ControllerConfig, count: int) -> int:
    """Run `count` controllers in threads, since their work is in the agents' processes; returns the worst exit code."""
    from worker.controller.loop import run, stopped_by_signals
    from worker.store import deployment
    from worker.store.clients import check_version

    def check(redis: Redis) -> None:
        check_version(redis)
        deployment.check(redis, config.partitions)

    stop = Event()
    names = [config.name] if count == 1 else [f"{config.name}-{number}" for number in range(1, count + 1)]
    with stopped_by_signals(stop), ThreadPoolExecutor(count) as pool:
        codes = pool.map(lambda name: run(replace(config, name=name), stop, check), names)
        return max(codes, default=OK)
