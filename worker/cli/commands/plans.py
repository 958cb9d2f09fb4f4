"""`planner plans`, `show` and `watch`: what the planner is doing."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from worker.cli.console import FAILED, OK, Json, command, open_link, say, say_json
from worker.cli.target import Owner, PlanName, find
from worker.store.keys import NO_TENANT

MOST_STEPS = 200


@command
def plans(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 20,
    as_json: Json = False,
) -> None:
    """List plans, the newest first.

    [b]planner plans --limit 5[/b]

    [b]planner plans --json | jq -r '.[] | select(.state == "HALTED") | .plan_id'[/b]
    """
    from worker.cli.render.plan import overview
    from worker.store import queries

    with open_link() as link:
        found = list(islice(queries.plans(link.client, link.partitions), limit))
    if as_json:
        say_json([each.model_dump(mode="json") for each in found])
    elif found:
        say(overview(found))
    else:
        say('There are no plans yet. Ask for one: planner submit --goal "..." --file src/a.py')


@command
def show(
    plan: PlanName,
    tenant: Owner = NO_TENANT,
    every_step: Annotated[bool, typer.Option("--all", help=f"Draw more than {MOST_STEPS} steps.")] = False,
    as_json: Json = False,
) -> None:
    """Show a plan: its state, budgets, steps, and why it ended.

    [b]planner show 3c-0199[/b]

    [b]planner show ci-4711 --json | jq .budget.tokens[/b]

    Steps stand below what they depend on; branches run side by side.
    """
    from worker.cli.render.plan import portrait

    with open_link() as link:
        view = find(link, plan, tenant)
    say_json(view) if as_json else say(portrait(view, None if every_step else MOST_STEPS))


@command
def watch(plan: PlanName, tenant: Owner = NO_TENANT, as_json: Json = False) -> int:
    """Follow a plan live until it ends, from its beginning.

    [b]planner watch ci-4711[/b]

    [b]planner watch 3c-0199 --json | jq -r .type[/b]

    Exit code 0 if the plan is COMPLETED, 1 if it is HALTED or REJECTED, 130 after Ctrl-C, which stops watching, not
    the plan.
    """
    from worker.cli.events import BLOCK_S, print_events

    with open_link(BLOCK_S) as link:
        view = find(link, plan, tenant)
        state = print_events(link, view, as_json=as_json)
    return OK if state == "COMPLETED" else FAILED
