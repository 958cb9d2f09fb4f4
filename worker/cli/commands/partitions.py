"""`planner partitions`: how many partitions the server has, and another number of them."""

from __future__ import annotations

from typing import Annotated

import typer

from worker.cli.console import FAILED, Json, command, open_link, refused, say, say_json


@command
def partitions(
    number: Annotated[int | None, typer.Argument(min=1, max=256, help="The new number.")] = None,
    as_json: Json = False,
) -> None:
    """Show the partitions of the server of PLANNER_REDIS_URL and their owners; with a number, change their number.

    [b]planner partitions 4[/b]

    A partition's owner is the worker that applies its outcomes: host, process and a random part. Another takes it over
    at once when its owner stops, and within 5 s when its owner dies.

    A plan stays in its partition. So the number can change only while the server has no plan, live or ended, and no
    waiting message. Then set PLANNER_PARTITIONS everywhere, and restart workers and controllers.
    """
    from worker.store import deployment, owners

    with open_link(agreed=False) as link:
        if number is not None:
            with refused("partitions_in_use", exit_code=FAILED, by=deployment.WrongDeployment):
                deployment.change(link.client, number)
        there = deployment.partitions_of(link.client)
        found = owners.owners(link.client, there or 0)
    if as_json:
        say_json({"partitions": there, "owners": list(found.values())})
        return
    say("No worker has used this server yet." if there is None else f"{there}")
    for place, owner in found.items():
        if owner:
            say(f"Partition {place} is owned by {owner}.")
