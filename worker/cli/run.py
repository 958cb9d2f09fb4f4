"""`planner worker` and `planner controller`: the two kinds of processes of a deployment."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from enum import StrEnum
from itertools import count
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli.console import OK, USAGE, Failure, command, configured

if TYPE_CHECKING:
    from worker.controller import ControllerConfig
    from worker.settings import Settings

DRAFTING = "planner.decompose"
SLOW = frozenset({"http", "cli", "backend"})  # drafters that a worker waits for
_nodes = count(1)
FLAGS = ("--without-gossip", "--without-mingle", "--without-heartbeat")


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
) -> None:
    """Run a planner worker: [b]celery -A worker worker[/b] with the right flags.

    [b]planner worker -c 2[/b]

    [b]planner worker --queues planner.decompose[/b]   only turns goals into plans

    Ends on SIGTERM when the work in hand is done, after PLANNER_STOP_S at the latest; then others go on with the rest.
    Exit code 0; 70 when it was stuck and ended itself (see PLANNER_WATCHDOG_S); 1 when it could not start.
    """
    settings = configured()
    check_drafters(settings)
    if queues is None and len(apart := shares(settings)) > 1:
        told = "While this worker drafts it does nothing else, for minutes. Run two, each with one of"
        typer.echo(f"{told}: --queues {' --queues '.join(map(str, apart))}", err=True)
    command = worker_command(pool, concurrency, queues, loglevel or settings.log_level, recycle)
    sys.stdout.flush()
    os.execv(command[0], command)  # noqa: S606 (no shell is wanted)


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
    from tasks.routes import ROUTES

    if not SLOW.intersection(settings.drafters):
        return (None,)
    return (DRAFTING, ",".join(route.task for route in ROUTES if route.task != DRAFTING))


def worker_command(
    pool: str = "prefork",
    concurrency: int = 1,
    queues: str | None = None,
    level: str = "INFO",
    recycle: int | None = None,
) -> list[str]:
    """Lay out the command of a worker; raises Failure for a queue that no route has."""
    node = f"planner-{os.getpid()}-{next(_nodes)}@%h"  # two workers of a host must not share a name
    only = ["--queues", ",".join(_checked(queues))] if queues else []
    only += ["--max-tasks-per-child", str(recycle)] if recycle else []
    celery = [sys.executable, "-m", "celery", "--quiet", "--app", "worker", "worker", *FLAGS, "--hostname", node]
    return [*celery, "--pool", str(pool), "--concurrency", str(concurrency), "--loglevel", str(level), *only]


def _checked(queues: str) -> list[str]:
    from tasks.routes import ROUTES

    known, asked = [route.task for route in ROUTES], queues.split(",")
    if wrong := [queue for queue in asked if queue not in known]:
        raise Failure.of("unknown_queue", f"No queue {', '.join(wrong)}; there are {', '.join(known)}.", USAGE)
    return asked


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
) -> int:
    """Run controllers: each gives CMD the step spec on its standard input, verifies and reports.

    [b]planner controller --exec "my-agent --quiet" --workdir ~/src/shop --count 4[/b]

    Each works in a git worktree of its own; verified changes are collected on the branch planner/<plan id>.
    A step that drafts, explores or reviews has an `input` in its spec; what CMD prints, JSON or text, is its answer.
    docs/controllers.md tells what else CMD may say. Ends on SIGTERM.
    """
    from worker.controller.config import ControllerConfig, unique_name
    from worker.telemetry import set_up_logs

    settings = configured()
    set_up_logs(settings.log_level)
    config = ControllerConfig(
        redis_url=settings.redis_url,
        workdir=workdir,
        command=agent,
        queues=tuple(queue or ("default",)),
        partitions=settings.partitions,
        once=once,
        name=name or unique_name(),
    )
    return _run(config, count)


def _run(config: ControllerConfig, count: int) -> int:
    """Run `count` controllers in threads, since their work is in the agents' processes; returns the worst exit code."""
    from worker.controller.loop import run, stopped_by_signals

    stop = Event()
    names = [config.name] if count == 1 else [f"{config.name}-{number}" for number in range(1, count + 1)]
    with stopped_by_signals(stop), ThreadPoolExecutor(count) as pool:
        codes = pool.map(lambda name: run(replace(config, name=name), stop), names)
        return max(codes, default=OK)
