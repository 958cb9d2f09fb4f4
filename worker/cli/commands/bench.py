"""`planner bench`: what this machine does, beside anchors measured in the same run."""

from __future__ import annotations

from typing import Annotated

import typer

from worker.cli.commands.worker import PoolKind
from worker.cli.console import Json, command, say, say_json
from worker.host.terminal import Terminal


@command
def bench(
    plans: Annotated[int, typer.Option(min=10, help="Plans in flight.")] = 1000,
    steps: Annotated[int, typer.Option(min=2, max=1000, help="Steps of each.")] = 10,
    pool: Annotated[
        PoolKind, typer.Option(help="Celery's pool of the worker process that is measured.")
    ] = PoolKind.SOLO,
    as_json: Json = False,
) -> None:
    """Measure this machine: our outcomes per second, and their anchors in the same run.

    The anchors are Celery's no-op tasks and a bare Lua loop.

    [b]planner bench --json[/b]

    Needs nothing running: it starts a server of its own, and one worker process. A minute or two.

    worker_cpu_us and server_cpu_us are the microseconds of CPU that the worker, with the processes of its pool, and the
    server spend on an outcome while those of all plans are applied; cpu_us is their sum. Wall times differ by 15 %
    between runs: compare the medians of the CPU of five alternating runs of two versions (docs/performance.md).
    """
    from worker.bench import measure

    figures = measure(plans, steps, pool, Terminal(stderr=True).print)
    say_json(figures) if as_json else say("\n".join(f"{name:26} {value:>12,.3f}" for name, value in figures.items()))
