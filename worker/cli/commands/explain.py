"""`planner explain`: the reason of a rejection, revision or halt, and ways to continue the plan."""

from __future__ import annotations

from typing import Annotated

import typer

from worker.cli.console import MISSING, Failure, Json, command, open_planner, say, say_json
from worker.cli.target import Owner, PlanName, find
from worker.store.keys import NO_TENANT

Step = Annotated[str | None, typer.Argument(metavar="[STEP]", help="Only this step.")]


@command
def explain(plan: PlanName, step: Step = None, tenant: Owner = NO_TENANT, as_json: Json = False) -> None:
    """Explain a plan: the rule that ended it, and the history of each step.

    For the rule it shows the value that met the limit, the events, and a way to continue the plan.

    [b]planner explain ci-4711[/b]

    [b]planner explain 3c-0199 fix-test-001[/b]

    [b]planner explain ci-4711 --json | jq .halt.evidence.unblock[/b]
    """
    from worker.render.explanation import draw, explanation

    with open_planner() as planner:
        view = find(planner, plan, tenant)
        attempts = planner.attempts(view.plan_id)
    if step and step not in {each.step_id for each in view.steps}:
        raise Failure.of("no_such_step", f"{view.plan_id} has no step {step!r}.", MISSING)
    explained = explanation(view, attempts, step)
    say_json(explained) if as_json else say(draw(explained))
