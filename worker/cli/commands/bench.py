"""`planner bench`: what this machine does, beside anchors measured in the same run."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from worker.cli.commands.worker import PoolKind
from worker.cli.console import USAGE, Failure, Json, command, say, say_json
from worker.host.terminal import Terminal


class Fsync(StrEnum):
    """The values of Redis' `appendfsync`."""

    ALWAYS = "always"
    EVERYSEC = "everysec"
    NO = "no"


@command
def bench(
    plans: Annotated[int, typer.Option(min=10, help="Plans in flight.")] = 1000,
    steps: Annotated[int, typer.Option(min=2, max=1000, help="Steps of each.")] = 10,
    pool: Annotated[
        PoolKind, typer.Option(help="Celery's pool of the worker process that is measured.")
    ] = PoolKind.SOLO,
    server: Annotated[
        str,
        typer.Option(
            help="`embedded`, a program such as redis-server, or the URL of an empty server, which is emptied."
        ),
    ] = "embedded",
    preload: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A library to preload into the server, such as an allocator."),
    ] = None,
    appendfsync: Annotated[
        Fsync | None,
        typer.Option(help="When the server that is started writes to its disk; every second unless it is said."),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="How often everything is measured.")] = 1,
    brief: Annotated[bool, typer.Option("--brief", help="Only the goals and outcomes of many plans.")] = False,
    as_json: Json = False,
) -> None:
    """Measure this machine: our outcomes per second, and their anchors in the same run.

    The anchors are Celery's no-op tasks, a bare Lua loop, and a bare loop that writes what our outcomes write.

    [b]planner bench --json[/b]
    [b]planner bench --runs 3[/b]
    [b]planner bench --brief --server redis-server --appendfsync always[/b]

    Needs nothing running: it starts a server of its own, and its workers. A run takes two to four minutes; each figure
    is told as the median of all runs, with the least and the most.

    worker_cpu_us and server_cpu_us are the microseconds of CPU that the worker, with the processes of its pool, and the
    server spend on an outcome while those of all plans are applied; cpu_us is their sum, and fleet_cpu_us is what the
    controllers spend beside them. Wall times differ by 15 % between runs: compare the medians of the CPU of five
    alternating runs of two versions (docs/performance.md).
    """
    from worker.bench import Measurement, measure
    from worker.bench.servers import UnusableServer
    from worker.bench.site import Sizes

    sizes = Sizes(plans=plans, steps=steps)
    try:
        report = measure(
            Measurement(server, preload, pool, sizes, runs, brief, appendfsync), Terminal(stderr=True).print
        )
    except UnusableServer as unusable:
        raise Failure.of("unusable_server", str(unusable), USAGE) from unusable
    say_json(report.as_json()) if as_json else say(report.as_table())
