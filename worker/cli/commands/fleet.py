"""`planner queues` and `planner controllers`: who works, and who waits."""

from __future__ import annotations

from worker.cli.console import Json, command, open_planner, say, say_json


@command
def queues(as_json: Json = False) -> None:
    """List the queues of step specs: how long, how old, and who reads them.

    [b]planner queues[/b]

    [b]planner queues --json | jq -r '.[] | select(.readers == 0) | .queue'[/b]

    A queue without readers waits for a controller: planner controller --queue NAME.
    """
    from worker.render.fleet import draw_queues

    with open_planner(agreed=False) as planner:
        found = planner.queues()
    if as_json:
        say_json([each.model_dump(mode="json") for each in found])
    else:
        say(draw_queues(found) if found else "There are no queues yet: no step was ever handed out.")


@command
def controllers(as_json: Json = False) -> None:
    """List the controllers: what they read, the step in hand, and their last heartbeat.

    [b]planner controllers[/b]

    [b]planner controllers --json | jq -r '.[] | select(.steps == []) | .name'[/b]

    Done and failed are as a controller counts them itself since its start; not every controller does.
    """
    from worker.render.fleet import draw_controllers

    with open_planner(agreed=False) as planner:
        found = planner.controllers()
    if as_json:
        say_json([each.model_dump(mode="json") for each in found])
    else:
        say(draw_controllers(found) if found else "No controller reads a queue. Start one: planner controller --help")
