"""Which plan a command is about: by its id, the beginning of the id, or the id of its goal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli.console import MISSING, USAGE, Failure, Link

if TYPE_CHECKING:
    from schemas.plan import PlanView

Which = Annotated[str, typer.Argument(metavar="PLAN", help="The id of a plan, its beginning, or a goal's id.")]


def find(link: Link, prefix: str) -> PlanView:
    """Return the plan that is meant; raises Failure if there is none, or more than one."""
    from worker.store import queries

    plan_id = resolve(link, prefix)
    view = queries.plan(link.client, link.partitions, plan_id)
    if view is None:
        answer = queries.goal(link.client, prefix)
        why = f"{answer.verdict} {answer.reason}".strip() if answer else "it is being made, or was forgotten"
        raise Failure.of("no_such_plan", f"{prefix} has no plan: {why}.", MISSING)
    return view


def resolve(link: Link, prefix: str) -> str:
    """Return the id of the plan that is meant; raises Failure if there is none, or more than one."""
    from worker.store import queries

    try:
        return queries.resolve(link.client, link.partitions, prefix)
    except queries.NoSuchPlan as error:
        raise Failure.of("no_such_plan", str(error), MISSING) from error
    except queries.Ambiguous as error:
        raise Failure.of("ambiguous_plan", str(error), USAGE) from error
