"""The list of items that wait for a person, the oldest first: changes to review, and plans with a question."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from schemas.base import PlanState
from schemas.delivered import DeliveryState
from schemas.plan import PlanSummary
from tasks.plan.lifecycle import DRAFT
from worker.render.plan import plain

LINES_A_MINUTE = 400 / 60  # of a change, as reviews that find something go
APPROVAL = "approval"  # the kind of a question whether a step may start
MAX_GOAL = 60  # characters
UNKNOWN_MIN, QUESTION_MIN = 5, 2  # minutes for a change without a line count, and for a question


class ToReview(NamedTuple):
    """An item that waits for a person: since when (RFC 3339), its estimated minutes, and where to find it."""

    since: str
    minutes: int
    what: str
    plan_id: str
    repo: str | None
    goal: str
    lines: int | None
    where: str | None


def to_review(plans: Iterable[PlanSummary]) -> list[ToReview]:
    """Return the items of these plans that wait for a person, the oldest first."""
    found = {each.plan_id: each for plan in plans if (each := _of(plan))}
    return sorted(found.values())


def _of(plan: PlanSummary) -> ToReview | None:
    if plan.waiting and plan.waiting.kind != DRAFT and not plan.ended_at:
        count = max(1, len(plan.waiting.questions))
        what = "approve or reject" if plan.waiting.kind == APPROVAL else "answer a question"
        return _item(plan, plan.created_at, QUESTION_MIN * count, what, None)
    if plan.state is not PlanState.COMPLETED or not plan.branch:
        return None
    known, where = plan.delivery, plan.pull_request or plan.branch
    minutes = UNKNOWN_MIN if plan.lines is None else max(1, ceil(plan.lines / LINES_A_MINUTE))
    if known is None:
        return _item(plan, plan.ended_at or plan.created_at, minutes, "review its branch", where)
    if known.handed_over:
        return _item(plan, known.since, minutes, f"go on: {known.handed_over}", where)
    return _item(plan, known.since, minutes, "review", where) if known.state is DeliveryState.OPEN else None


def _item(plan: PlanSummary, since: str, minutes: int, what: str, where: str | None) -> ToReview:
    return ToReview(since, minutes, what, plan.plan_id, plan.repo, plan.goal, plan.lines, where)


def draw_review(items: Iterable[ToReview]) -> Table:
    """Draw the list."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("since (UTC)", "minutes", "what", "plan", "repository", "goal", "where"):
        table.add_column(
            name, justify="right" if name == "minutes" else "left", overflow="fold", no_wrap=name == "plan"
        )
    for each in items:
        since = each.since[:16].replace("T", " ")
        words = (each.what, each.plan_id, each.repo or "", each.goal[:MAX_GOAL], each.where or "")
        table.add_row(since, str(each.minutes), *(Text(plain(word)) for word in words))
    return table
