"""`planner partitions`: how many partitions the server has, and another number of them."""

from __future__ import annotations

from typing import Annotated

import typer

from worker.cli.console import Failure, Json, command, open_link, say, say_json


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

    with open_link(agreed=False) as link:
        if number is not None:
            try:
                deployment.change(link.client, number)
            except deployment.WrongDeployment as error:
                raise Failure.of("partitions_in_use", str(error)) from error
        there = deployment.partitions_of(link.client)
    text = "No worker has used this server yet." if there is None else f"{there}"
    say_json({"partitions": there}) if as_json else say(text)
