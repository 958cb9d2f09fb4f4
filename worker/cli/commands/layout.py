"""`planner layout`: how the server stores new plans, and a newer way."""

from __future__ import annotations

from typing import Annotated

import typer

from worker.cli.console import Failure, Json, command, open_link, say, say_json


@command
def layout(
    number: Annotated[int | None, typer.Argument(min=1, help="The layout of new plans from now on.")] = None,
    as_json: Json = False,
) -> None:
    """Tell by which layout the server of PLANNER_REDIS_URL stores new plans; with a number, raise that.

    [b]planner layout 2[/b]

    A new server has the newest. One that was used by older versions keeps its own, so that they can work beside newer
    ones, and you can go back to them. Once all workers, gateways and commands are exchanged, raise it: in layout 2 a
    plan takes about a third less memory. Plans that are there stay as they are. There is no way back: older workers
    refuse to start then, and end where they run.
    """
    from worker.store import deployment

    with open_link() as link:
        if number is not None:
            try:
                deployment.raise_layout(link.client, number)
            except deployment.WrongDeployment as error:
                raise Failure.of("wrong_layout", str(error)) from error
        there = deployment.layout_of(link.client)
    if as_json:
        say_json({"layout": there, "newest": deployment.READS})
    elif there is None:
        say("No worker has used this server yet.")
    else:
        say(f"{there} of {deployment.READS}" if there < deployment.READS else f"{there}")
