"""Drafts of the plan cache, drawn for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from schemas.times import rfc3339
from worker.render.plan import plain
from worker.store.cached_drafts import KeptDraft


def draw_drafts(drafts: Sequence[KeptDraft]) -> Table:
    """Draw drafts, one a line."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("plan", "tenant", "repository", "drafter", "completed", "goal"):
        table.add_column(name, overflow="fold", no_wrap=name == "plan")
    for each in drafts:
        draft = each.draft
        cells = (draft.plan_id, each.tenant, each.repo, draft.drafter, rfc3339(draft.at)[:16], draft.goal)
        table.add_row(*map(plain, cells))
    return table
