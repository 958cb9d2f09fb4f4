"""`planner queues` and `planner controllers`: who works, and who waits."""

from __future__ import annotations

from worker.cli.console import Json, command, open_planner, say, say_json

NOBODY = (
    "No controller is known. One that waits is listed once its queue has had a step, and one that asks over HTTP while "
    "it has a step in hand. Start one: planner controller --help"
)
IDLE = "An idle controller says nothing of itself: host, version and counts come with the heartbeats of its next step."


@command
def queues(as_json: Json = False) -> None:
    """List the queues of step specs: how long, how old, and who reads them.

    [b]planner queues[/b]

    [b]planner queues --json | jq -r '.[] | select(.readers == 0) | .queue'[/b]

    A queue without readers waits for a controller: planner controller --queue NAME.
    """
    from worker.render.tables import draw_queues

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

    Done and failed are as a controller counts them itself since its start; not every controller does. What a controller
    says of itself (host, version, abilities, counts) it says with its heartbeats, so that of an idle one there is the
    time since it last asked. It is not listed before its queue has had a step, and where it asks over HTTP only while
    it has a step in hand.
    """
    from worker.render.tables import draw_controllers

    with open_planner(agreed=False) as planner:
        found = planner.controllers()
    if as_json:
        say_json([each.model_dump(mode="json") for each in found])
    else:
        say(draw_controllers(found) if found else NOBODY)
        if any(not each.steps for each in found):
            say(IDLE)
