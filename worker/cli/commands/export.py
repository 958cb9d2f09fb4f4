"""`planner export`: all that is kept of a plan, before its retention ends."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Annotated

import typer

from worker.cli.console import Json, command, open_planner, refused
from worker.cli.target import Owner, PlanName
from worker.host.terminal import JsonOutput
from worker.render.progress import ProgressLine
from worker.store.keys import NO_TENANT


@command
def export(
    plan: PlanName,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="Into this file; it is there once complete.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", dir_okay=False, help="The log alone, for `planner verify`, into this file.")
    ] = None,
    tenant: Owner = NO_TENANT,
    as_json: Json = False,  # noqa: ARG001 (it is JSON anyhow; errors are then too)
) -> None:
    """Write all stored data of a plan as one JSON document, or its log as lines.

    Its steps, attempts, log, events, and the dead entries about it.

    [b]planner export ci-4711 --output ci-4711.json[/b]

    [b]planner export 3c-0199 | jq '.attempts[] | select(.result == "FAILED")'[/b]

    [b]planner export ci-4711 --log ci-4711.jsonl[/b]

    The export leaves out valid leases and their seed until the plan has ended. The lines of a log are written byte for
    byte, so that `planner verify` can find a change. `planner replay` and `planner backtest` read the document, which
    has the plan and its log. With both options there are two files.
    """
    with open_planner() as planner:
        plan_id = planner.resolve(plan, tenant)
        if output or not log:
            _write(planner.export(plan_id), output, "pieces written")
        if log:
            _write((line + b"\n" for line in planner.log(plan_id)), log, "lines written")


def _write(pieces: Iterator[bytes], target: Path | None, what: str) -> None:
    first = next(pieces, b"")  # before there is a file
    with _target(target) as file, ProgressLine(what) as progress:
        for piece in chain([first], pieces):
            file.write(piece)
            progress.step()


@contextmanager
def _target(output: Path | None) -> Iterator[JsonOutput | IO[bytes]]:
    """Yield stdout, or a private file that gets the name `output` once it is complete. Raises Failure."""
    if output is None:
        out = JsonOutput()
        yield out
        out.flush()
        return
    with (
        refused("unwritable_file", f"{output}: ", ".", by=OSError),
        tempfile.NamedTemporaryFile(dir=output.parent, prefix=f".{output.name}.", delete=False) as file,
    ):
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(output)
        finally:
            Path(file.name).unlink(missing_ok=True)
