"""`planner demo`: a real repository, a small fleet, and a plan from its goal to its end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from worker.cli.console import Json, Kind, command
from worker.host.terminal import Terminal


@command
def demo(
    kind: Annotated[Kind, typer.Option(help="The kind of goal.")] = Kind.TASK,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the directory with the repository.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Draw the end into this file.")] = None,
    as_json: Json = False,
) -> int:
    """See it work: a real repository, a small fleet, a plan to its end.

    It takes less than a minute.

    [b]planner demo[/b]

    [b]planner demo --kind campaign[/b]

    Needs nothing running. Exit code 0 only if the plan is COMPLETED and the tests pass.
    """
    from worker.demo.engine import run

    return run(kind.value, as_json=as_json, keep=keep, console=Terminal(stderr=as_json), svg=svg)
