"""Draws tables for a terminal: queues, controllers, keys, endpoints with their deliveries, and sums of plans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from schemas.api_key import ApiKey
from schemas.fleet import ControllerView, QueueView
from schemas.stats import REST, StatsBy, StatsFigures, StatsRow, StatsView
from worker.render.plan import plain, span

NUMBERS = ("length", "waiting", "claimed", "oldest", "readers", "done", "failed", "since", "heartbeat")
STYLES = {"delivered": "green", "failed": "red"}
FIGURES = ("completed", "halted", "cancelled", "rejected", "steps", "failures", "tokens", "cost")
_FORMATS = {StatsBy.HOUR: (13, "hour (UTC)"), StatsBy.DAY: (10, "day (UTC)")}  # characters of a time


def draw_queues(queues: Sequence[QueueView]) -> Table:
    """Draw queues, one a line; those without a reader are highlighted."""
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
    """Draw controllers, one per line; each further step of a controller has its own line."""
    now = datetime.now(UTC)
    table = _table(
        "controller", "host", "version", "abilities", "queues", "step", "since", "heartbeat", "done", "failed"
    )

    def ago(moment: str | None) -> str:
        return span(int((now - datetime.fromisoformat(moment)).total_seconds())) if moment else ""

    for each in controllers:
        about = each.info or {}
        host, version = (plain(about.get(name, "")) for name in ("host", "version"))
        done, failed = str(each.done), str(each.failed)
        abilities = about.get("abilities")
        can = plain(", ".join(map(str, abilities)) if isinstance(abilities, list) else "")
        who = [plain(each.name), host, version, can, plain(", ".join(each.queues))]
        if not each.steps:
            table.add_row(
                *who,
                Text(f"{each.state} {span(each.idle_ms // 1000)}", "red" if each.state == "gone" else "dim"),
                "",
                "",
                done,
                failed,
            )
        for step in each.steps:
            what = plain(f"{step.plan_id[:21].removeprefix('plan_')} {step.step_id} #{step.attempt}")
            table.add_row(*who, what, ago(step.since), ago(step.heartbeat_at), done, failed)
            who, done, failed = [""] * len(who), "", ""
    return table


def _table(*columns: str, whole: str = "") -> Table:
    """Return a table with these columns; text in the column `whole` is never wrapped."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in columns:
        justify: Literal["left", "right"] = "right" if name in (*NUMBERS, *FIGURES) else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name == whole)
    return table


def draw_keys(keys: Sequence[ApiKey]) -> Table:
    """Draw keys, one a line."""
    table = _table("key", "name", "rights", "tenant", "queues", "repositories", "rate", "expires", "for", whole="key")
    for key in keys:
        cells = (key.key_id, key.name or "", ", ".join(key.rights), key.tenant or "all", ", ".join(key.queues))
        rest = (
            ", ".join(key.repositories) or "all",
            key.rate or "",
            (key.expires_at or "never")[:16],
            key.subject or "",
        )
        table.add_row(*map(plain, (*cells, *rest)))
    return table


def draw_endpoints(found: Sequence[dict[str, Any]]) -> RenderableType:
    """Draw endpoints, one per line, from the values that `registry.describe` returns."""
    table = _table("endpoint", "kind", "tenant", "repository", "hears of", "url", "", whole="endpoint")
    for each in found:
        hears = ", ".join(event.removeprefix("plan.") for event in each["events"])
        named = " of goals that name it" if each["named"] else ""
        off = Text("disabled", "yellow") if each["disabled"] else ""
        place = (plain(each["tenant"] or "all"), plain(each["repo"] or "all"))
        table.add_row(each["endpoint_id"], each["kind"], *place, hears + named, plain(each["url"]), off)
    return table


def draw_endpoint(endpoint: dict[str, Any]) -> RenderableType:
    """Draw one endpoint with its newest deliveries and their results."""
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


def draw_stats(found: StatsView) -> Table:
    """Draw sums, one row for each hour, day, tenant or repository, and below them their total."""
    _, title = _FORMATS.get(found.by, (0, found.by.value))
    table = _table(title, *FIGURES, "halted by")
    for row in found.items:
        table.add_row(_name(row, found.by), *_cells(row))
    table.add_row(Text("total", "bold"), *_cells(found.total))
    return table


def owner_of(row: StatsRow, *, with_tenant: bool = True) -> str:
    """Return the tenant or the repository of a row."""
    if row.tenant == REST:
        return "other tenants"
    repo = "other repositories" if row.repo == REST else row.repo or "no repository"
    return f"{repo} of {row.tenant}" if with_tenant else repo


def cost(usd: float) -> str:
    """Return an amount in dollars: with cents, and more digits below one dollar."""
    return f"${usd:,.2f}" if usd >= 1 or not usd else f"${usd:.4f}"


def _name(row: StatsRow, by: StatsBy) -> str:
    if by in _FORMATS:
        return str(row.at)[: _FORMATS[by][0]].replace("T", " ") + (":00" if by is StatsBy.HOUR else "")
    if by is StatsBy.TENANT:
        return "other tenants" if row.tenant == REST else plain(str(row.tenant))
    return plain(owner_of(row))


def _cells(row: StatsFigures) -> tuple[str | Text, ...]:
    numbers = (row.completed, row.halted, row.cancelled, row.rejected, row.steps, row.failures, row.tokens)
    halts = ", ".join(f"{plain(rule)} {count}" for rule, count in row.halted_by.items())
    return (*(f"{number:,}" if number else Text("0", "dim") for number in numbers), cost(row.cost_usd), halts)
