"""`planner summary`: what became of a goal, as a page of Markdown."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from worker.cli.console import USAGE, Failure, Link, command, open_link
from worker.cli.target import Owner, PlanName, find
from worker.host.terminal import line
from worker.store.keys import NO_TENANT

if TYPE_CHECKING:
    from schemas.plan import GoalAnswer, PlanView


@command
def summary(plan: PlanName, tenant: Owner = NO_TENANT) -> None:
    """Write what became of a plan as Markdown.

    Its state, steps, graph, budget and explanation; with a producer's rights what the record of its goal has.

    [b]planner summary ci-4711 >> "$GITHUB_STEP_SUMMARY"[/b]

    [b]planner summary 3c-0199[/b]
    """
    from worker.store import queries

    with open_link() as link:
        record = queries.goal(link.client, plan, tenant, partitions=link.partitions)
        page = describe(link, record) if record else _page_of(link, find(link, plan, tenant))
    line(page.rstrip("\n"))


def describe(link: Link, record: GoalAnswer) -> str:
    """Write the page of a goal: of its plan, where there is one and this user may read it."""
    from redis.exceptions import NoPermissionError

    from worker.render.summary import page_of_goal
    from worker.store import queries

    with suppress(NoPermissionError):
        if record.plan_id and (plan := queries.plan(link.client, link.partitions, record.plan_id)):
            return _page_of(link, plan)
    return page_of_goal(record)


def _page_of(link: Link, plan: PlanView) -> str:
    from worker.render.explanation import explanation
    from worker.render.summary import page_of_plan
    from worker.store.history import story
    from worker.store.keys import Partition, partition_of

    keys = Partition(partition_of(plan.plan_id, link.partitions)).plan(plan.plan_id)
    return page_of_plan(plan, explanation(plan, story(link.client, keys), None))


def add_page(file: Path | None, page: str) -> None:
    """Add a page to a file, where one is named; raises Failure."""
    try:
        if file:
            with file.open("a", encoding="utf-8") as out:
                out.write(page)
    except OSError as error:
        raise Failure.of("unwritable_file", f"{file}: {error.strerror or error}.", USAGE) from error
