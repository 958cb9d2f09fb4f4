"""Sums of the plans that ended, drawn for a terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from schemas.stats import REST, StatsBy, StatsFigures, StatsRow, StatsView
from worker.render.plan import plain

FIGURES = ("completed", "halted", "cancelled", "rejected", "steps", "failures", "tokens", "cost")
_FORMATS = {StatsBy.HOUR: (13, "hour (UTC)"), StatsBy.DAY: (10, "day (UTC)")}  # characters of a time


def draw_stats(found: StatsView) -> Table:
    """Draw sums, one row for each hour, day, tenant or repository, and below them their total."""
    _, title = _FORMATS.get(found.by, (0, found.by.value))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in (title, *FIGURES):
        table.add_column(name, justify="right" if name in FIGURES else "left", overflow="fold")
    table.add_column("halted by", overflow="fold")
    for row in found.items:
        table.add_row(_name(row, found.by), *_cells(row))
    table.add_row(Text("total", "bold"), *_cells(found.total))
    return table


def owner_of(row: StatsRow, *, with_tenant: bool = True) -> str:
    """Name the tenant or the repository that a row stands for."""
    if row.tenant == REST:
        return "other tenants"
    repo = "other repositories" if row.repo == REST else row.repo or "no repository"
    return f"{repo} of {row.tenant}" if with_tenant else repo


def cost(usd: float) -> str:
    """Write an amount of dollars: cents, and more where it is below one."""
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
