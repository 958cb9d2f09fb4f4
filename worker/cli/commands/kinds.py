"""`planner kinds`: the kinds of goal, as they are found in the code."""

from __future__ import annotations

from dataclasses import asdict

from worker.cli.console import Json, command, say, say_json


@command
def kinds(as_json: Json = False) -> None:
    """List the kinds of goal with their input fields and steps.

    [b]planner kinds --json | jq -r '.[].kind'[/b]

    The names below `task` are the values that a goal may give as its `task_kind`.
    """
    from tasks.strategies.registry import discover_workflows

    found = discover_workflows()
    schema = "goal.schema.json#/properties/"
    if as_json:
        say_json([{**asdict(each), "kind": kind.value, "input": schema + each.field} for kind, each in found.items()])
        return
    for kind, each in found.items():
        say(f"{kind.value}  {each.summary} (seed {each.seed}; {schema}{each.field})")
        for part, names in each.steps.items():
            say(f"  {part}: {', '.join(names)}")
