"""`planner explain`: why a plan was rejected, revised or halted, and what would let it go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli.console import MISSING, Failure, Json, command, open_link, say, say_json
from worker.cli.target import Owner, PlanName, find
from worker.store.keys import NO_TENANT

if TYPE_CHECKING:
    from schemas.plan import PlanView

Step = Annotated[str | None, typer.Argument(metavar="[STEP]", help="Only this step.")]


@command
def explain(plan: PlanName, step: Step = None, tenant: Owner = NO_TENANT, as_json: Json = False) -> None:
    """Explain a plan: what ended it, and what happened to each step.

    Of the rule that ended it: the value that met the limit, the events, and what would let the plan go on.

    [b]planner explain ci-4711[/b]

    [b]planner explain 3c-0199 fix-test-001[/b]

    [b]planner explain ci-4711 --json | jq .halt.evidence.unblock[/b]
    """
    from worker.cli.render.explanation import draw
    from worker.store.history import story
    from worker.store.keys import Partition, partition_of

    with open_link() as link:
        view = find(link, plan, tenant)
        home = Partition(partition_of(view.plan_id, link.partitions))
        attempts = story(link.client, home.plan(view.plan_id))
    if step and step not in {each.step_id for each in view.steps}:
        raise Failure.of("no_such_step", f"{view.plan_id} has no step {step!r}.", MISSING)
    explained = explanation(view, attempts, step)
    say_json(explained) if as_json else say(draw(explained))


def explanation(view: PlanView, attempts: dict[str, list[dict[str, Any]]], only: str | None) -> dict[str, Any]:
    """Put together what is known of a plan's end and steps, as JSON.

    With `only` of that step alone. Pure.
    """
    halt = view.halt.model_dump(mode="json") if view.halt else None
    if halt:  # plans that ended before halts were explained lack these, and were of the first version
        known = {"policy_version": 1, "events": [], "unblock": ""}
        halt["evidence"] = {**known, **halt["evidence"]}
    steps = [
        {
            "step_id": step.step_id,
            "state": step.state,
            "inserted_by": step.inserted_by,
            "verified": step.verified,
            "attempts": attempts.get(step.step_id, []),
        }
        for step in view.steps
        if only in (None, step.step_id)
    ]
    return {
        "plan_id": view.plan_id,
        "goal_id": view.goal_id,
        "state": view.state.value,
        "revision": view.revision,
        "paused_by": view.paused_by,
        "halt": halt,
        "unverified": view.unverified,
        "branch": view.branch,
        "pull_request": view.pull_request,
        "undelivered": view.undelivered,
        "steps": steps,
    }
