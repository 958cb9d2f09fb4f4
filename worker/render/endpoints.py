"""Endpoints and what was sent to them, drawn for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from worker.render.plan import plain

STYLES = {"delivered": "green", "failed": "red"}


def overview(found: Sequence[dict[str, Any]]) -> RenderableType:
    """Draw endpoints, one a line, as `registry.describe` has them."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("endpoint", "kind", "tenant", "repository", "hears of", "url", ""):
        table.add_column(name, overflow="fold", no_wrap=name == "endpoint")
    for each in found:
        hears = ", ".join(event.removeprefix("plan.") for event in each["events"])
        named = " of goals that name it" if each["named"] else ""
        off = Text("disabled", "yellow") if each["disabled"] else ""
        place = (plain(each["tenant"] or "all"), plain(each["repo"] or "all"))
        table.add_row(each["endpoint_id"], each["kind"], *place, hears + named, plain(each["url"]), off)
    return table


def portrait(endpoint: dict[str, Any]) -> RenderableType:
    """Draw one endpoint with its newest deliveries and what came of them."""
    return Group(*(Text(line) for line in _lines(endpoint)), *_deliveries(endpoint["deliveries"]))


def _lines(each: dict[str, Any]) -> Iterator[str]:
    yield f"{each['endpoint_id']}  {each['kind']}  {plain(each['url'])}"
    yield plain(f"tenant {each['tenant'] or 'all'}, repository {each['repo'] or 'all'}: {', '.join(each['events'])}")
    if each["named"]:
        yield "hears only of goals that name it: `callback`"
    if each["disabled"]:
        yield plain(f"disabled: {each['disabled']}")
    if each["secrets"] > 1:
        yield "two secrets sign, since it was rotated"
    yield ""


def _deliveries(found: Sequence[dict[str, Any]]) -> Iterator[RenderableType]:
    if not found:
        yield Text("Nothing was sent yet.")
    for each in found:
        state = Text(plain(each["state"]), STYLES.get(each["state"], ""))
        tries = f"  {each['tries']} {'try' if each['tries'] == 1 else 'tries'}" + (
            f", next {each['next_try_at']}" if each["next_try_at"] else ""
        )
        yield Text.assemble(f"{each['webhook_id']}  {each['type']}  ", state, tries)
        yield Text(f"  {each['plan_id']}", "dim")
        for attempt in each["attempts"]:
            yield Text(f"  {attempt['at']}  {attempt['status'] or plain(attempt['error'])}  {attempt['ms']} ms", "dim")
