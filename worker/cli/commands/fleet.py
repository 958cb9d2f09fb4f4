"""`planner queues` and `planner controllers`: who works, and who waits."""

from __future__ import annotations

from worker.cli.console import Json, command, open_planner, say, say_json

NOBODY = (
    "No controller is known. One that waits is listed once its queue has had a step, and one that asks over HTTP while "
    "it has a step in hand. Start one: planner controller --help"
)
IDLE = "A controller without an attempt of today or yesterday has no host, version and counts here."


@command
def queues(as_json: Json = False) -> None:
    """List the queues of step specs with their length, age and readers.

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
    """List the controllers with their queues, current steps and last heartbeats.

    [b]planner controllers[/b]

    [b]planner controllers --json | jq -r '.[] | select(.steps == []) | .name'[/b]

    A controller counts done and failed steps itself since its start; not every controller does. It sends its host,
    version, abilities and counts with its heartbeats. An idle controller shows those of an attempt of today or
    yesterday, and the time since its last request. A controller appears after its queue has had a step. If it uses HTTP
    only, it appears while it has a step.
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
