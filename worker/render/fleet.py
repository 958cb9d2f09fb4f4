"""Queues and controllers, drawn for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from schemas.fleet import ControllerView, QueueView
from worker.render.plan import plain, span

NUMBERS = ("length", "waiting", "claimed", "oldest", "readers", "done", "failed", "since", "heartbeat")


def draw_queues(queues: Sequence[QueueView]) -> Table:
    """Draw queues, one a line; those that nobody reads stand out."""
    table = _table("queue", "length", "waiting", "claimed", "oldest", "readers", "paused")
    for each in queues:
        oldest = "" if each.oldest_ms is None else span(each.oldest_ms // 1000)
        readers = Text(str(each.readers), "" if each.readers or not each.length else "bold red")
        paused = Text(plain(f"by {each.paused_by}"), "yellow") if each.paused_by else ""
        table.add_row(
            plain(each.queue), str(each.length), str(each.waiting), str(each.claimed), oldest, readers, paused
        )
    return table


def draw_controllers(controllers: Sequence[ControllerView]) -> Table:
    """Draw controllers, one a line, and one for each further step that a controller has in hand."""
    now = datetime.now(UTC)
    table = _table(
        "controller", "host", "version", "abilities", "queues", "step", "since", "heartbeat", "done", "failed"
    )

    def ago(moment: str | None) -> str:
        return span(int((now - datetime.fromisoformat(moment)).total_seconds())) if moment else ""

    for each in controllers:
        about = each.info or {}
        host, version, done, failed = (plain(about.get(name, "")) for name in ("host", "version", "done", "failed"))
        abilities = about.get("abilities")
        can = plain(", ".join(map(str, abilities)) if isinstance(abilities, list) else "")
        who = [plain(each.name), host, version, can, plain(", ".join(each.queues))]
        if not each.steps:
            table.add_row(*who, Text(f"idle {span(each.idle_ms // 1000)}", "dim"), "", "", done, failed)
        for step in each.steps:
            what = plain(f"{step.plan_id[:21].removeprefix('plan_')} {step.step_id} #{step.attempt}")
            table.add_row(*who, what, ago(step.since), ago(step.heartbeat_at), done, failed)
            who, done, failed = [""] * len(who), "", ""
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in columns:
        table.add_column(name, justify="right" if name in NUMBERS else "left", overflow="fold")
    return table
