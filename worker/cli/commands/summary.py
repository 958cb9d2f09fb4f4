"""`planner summary`: the result of a goal, as a page of Markdown."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from worker.cli.console import command, open_planner, refused
from worker.cli.target import Owner, PlanName, find
from worker.host.terminal import line
from worker.store.keys import NO_TENANT

if TYPE_CHECKING:
    from schemas.plan import GoalAnswer, PlanView
    from worker.client.planner import Planner


@command
def summary(plan: PlanName, tenant: Owner = NO_TENANT) -> None:
    """Write the result of a plan as Markdown.

    The page has state, steps, graph, budget and explanation. With the rights of a producer, it has the record of the
    goal.

    [b]planner summary ci-4711 >> "$GITHUB_STEP_SUMMARY"[/b]

    [b]planner summary 3c-0199[/b]
    """
    with open_planner() as planner:
        record = planner.goal(plan, tenant)
        page = describe(planner, record) if record else _page_of(planner, find(planner, plan, tenant))
    line(page.rstrip("\n"))


def describe(planner: Planner, record: GoalAnswer) -> str:
    """Return the page of a goal: that of its plan, if there is one and this user may read it."""
    from worker.client.trouble import NoRight
    from worker.render.summary import page_of_goal

    with suppress(NoRight):
        if record.plan_id and (plan := planner.plan(record.plan_id)):
            return _page_of(planner, plan)
    return page_of_goal(record)


def _page_of(planner: Planner, plan: PlanView) -> str:
    from worker.render.explanation import explanation
    from worker.render.summary import page_of_plan

    return page_of_plan(plan, explanation(plan, planner.attempts(plan.plan_id), None), planner.result(plan))


def add_page(file: Path | None, page: str) -> None:
    """Append a page to a file, if one is named. Raises Failure."""
    if file:
        with refused("unwritable_file", f"{file}: ", ".", by=OSError), file.open("a", encoding="utf-8") as out:
            out.write(page)
