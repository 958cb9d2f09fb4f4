"""`planner worker`: a process that decides; and which workers a planner needs."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli.console import USAGE, Failure, SecretsFd, check_redis, command, read_settings, refused
from worker.process import launch

if TYPE_CHECKING:
    from worker.settings.settings import Settings


class PoolKind(StrEnum):
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
    pool: Annotated[PoolKind, typer.Option("--pool", "-P", help="Processes, the worker's own process, or threads.")] = (
        PoolKind.PREFORK
    ),
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", min=1, help="Tasks side by side.")] = 1,
    queues: Annotated[str | None, typer.Option("--queues", "-Q", help="Only these, such as planner.decompose.")] = None,
    recycle: Annotated[
        int | None,
        typer.Option("--max-tasks-per-child", min=1, help="Replace a pool process after this number of tasks."),
    ] = None,
    loglevel: Annotated[Level | None, typer.Option("--loglevel", "-l", help="Else PLANNER_LOG_LEVEL.")] = None,
    secrets_fd: SecretsFd = None,
) -> None:
    """Run a planner worker: [b]celery -A worker worker[/b] with the right flags.

    [b]planner worker -c 2[/b]

    [b]planner worker --queues planner.decompose[/b]   only turns goals into plans

    Ends on SIGTERM after the current work, within PLANNER_STOP_S; then other workers take over the rest. Exit code 0; 1
    if it could not start, 2 for a wrong setting or option. Exit code 70 if it was stuck and ended itself (see
    PLANNER_WATCHDOG_S).
    """
    from tasks.routes import ROUTES
    from worker.settings import credentials

    settings = read_settings(secrets_fd)
    check_redis(settings)
    check_drafters(settings)
    known, asked = [route.task for route in ROUTES], queues.split(",") if queues else []
    if unknown := [queue for queue in asked if queue not in known]:
        raise Failure.of("unknown_queue", f"No queue {', '.join(unknown)}; there are {', '.join(known)}.", USAGE)
    command = launch.worker_command(pool, concurrency, queues, loglevel or settings.log_level, recycle)
    sys.stdout.flush()
    environment, _ = credentials.hand_on(os.environ, credentials.with_server(settings.given_redis_url))
    with launch.stop_signals_wait():
        os.execve(command[0], command, environment)  # noqa: S606 (no shell is wanted)


def check_drafters(settings: Settings) -> None:
    """Raise Failure with a sentence for each configured drafter that cannot be used here."""
    from worker import drafters
    from worker.drafters.base import WrongDrafter

    with refused("wrong_settings", by=WrongDrafter):
        drafters.check(settings)
