"""`planner demo`, `bench` and `schemas`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from worker.cli.commands.run import Pool
from worker.cli.console import Json, Kind, command, say, say_json
from worker.host.terminal import Terminal


@command
def demo(
    kind: Annotated[Kind, typer.Option(help="The kind of goal.")] = Kind.TASK,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the directory with the repository.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Draw the end into this file.")] = None,
    as_json: Json = False,
) -> int:
    """See it work: a real repository, a small fleet, a plan from its goal to its end, in under a minute.

    [b]planner demo[/b]

    [b]planner demo --kind campaign[/b]

    Needs nothing running. Exit code 0 only if the plan is COMPLETED and the tests pass.
    """
    from worker.demo.engine import run

    return run(kind.value, as_json=as_json, keep=keep, console=Terminal(stderr=as_json), svg=svg)


@command
def schemas(
    out: Annotated[Path, typer.Option("--out", "-o", file_okay=False, help="Where to; made if missing.")],
    as_json: Json = False,
) -> None:
    """Write the contract: a JSON Schema 2020-12 per message, and the streams as AsyncAPI 3.1.

    [b]planner schemas --out docs/schemas[/b]
    """
    from schemas.contract import documents

    out.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in documents():
        (out / name).write_bytes(text)
        written.append(str(out / name))
    say_json(written) if as_json else say("\n".join(written))


@command
def bench(
    plans: Annotated[int, typer.Option(min=10, help="Plans in flight.")] = 1000,
    steps: Annotated[int, typer.Option(min=2, max=1000, help="Steps of each.")] = 10,
    pool: Annotated[Pool, typer.Option(help="Celery's pool of the worker process that is measured.")] = Pool.SOLO,
    as_json: Json = False,
) -> None:
    """Measure this machine: our outcomes per second, beside Celery's no-op tasks and a bare Lua loop of the same run.

    [b]planner bench --json[/b]

    Needs nothing running: it starts a server of its own, and one worker process. A minute or two.

    worker_cpu_us and server_cpu_us are the microseconds of CPU that the worker, with the processes of its pool, and the
    server spend on an outcome while those of all plans are applied; cpu_us is their sum. Wall times differ by 15 %
    between runs: compare the medians of the CPU of five alternating runs of two versions (docs/performance.md).
    """
    from worker.bench import measure

    figures = measure(plans, steps, pool, Terminal(stderr=True).print)
    say_json(figures) if as_json else say("\n".join(f"{name:26} {value:>12,.3f}" for name, value in figures.items()))
