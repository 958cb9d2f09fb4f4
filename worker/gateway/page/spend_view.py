"""`/spend`: the spend of fleets and the ends of their plans, as plots over a day, a week or 90 days."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ValidationError

from schemas.base import Name
from schemas.stats import StatsBy, StatsFigures, StatsRow, StatsView
from schemas.times import milliseconds, rfc3339
from schemas.wording import expected
from worker.gateway.access import Access, Context, Doors
from worker.gateway.page import plots
from worker.gateway.page.plots import Plot
from worker.gateway.page.rendering import PageRoute, render
from worker.gateway.routes.fleet import FleetReader
from worker.gateway.routes.stats import find_stats
from worker.render.tables import cost, owner_of
from worker.store.sums import HOUR_MS, PERIODS, Wanted

router = APIRouter(route_class=PageRoute, include_in_schema=False)

UPDATE_MS = 15_000  # between two updates, at least
IDLE = 20  # pause between updates, in reading times: an open tab costs at most this share
MOST_OWNERS = 20  # repositories that are listed
RULE_LOOKS = ("r1", "r2", "r3", "r4")  # of the rules that halted most plans
OTHER_RULES = "r5"
UNUSABLE = 422


class Window(StrEnum):
    """The length of time that is shown."""

    DAY = "24h"
    WEEK = "7d"
    QUARTER = "90d"


class _Shape(NamedTuple):
    """How a window is read and drawn: the unit of its figures, and the number of units in a bar."""

    called: str
    length: timedelta
    by: StatsBy
    joined: int
    bars: str


SHAPES = {
    Window.DAY: _Shape("24 hours", timedelta(hours=24), StatsBy.HOUR, 1, "hour"),
    Window.WEEK: _Shape("7 days", timedelta(days=7), StatsBy.HOUR, 6, "six hours"),
    Window.QUARTER: _Shape("90 days", timedelta(days=90), StatsBy.DAY, 1, "day"),
}


class SpendQuery(BaseModel):
    """The filters in the address of the page."""

    window: Window = Window.DAY
    tenant: Name | None = None
    repo: Name | None = None


class Column(NamedTuple):
    """The figures of one bar, which starts `at`."""

    at: str
    says: str
    figures: StatsFigures


class Spend(NamedTuple):
    """The content of the view."""

    total: StatsFigures
    columns: Sequence[Column]
    plots: Sequence[Plot]
    owners: Sequence[tuple[str, StatsRow]]
    more_owners: int


@router.get("/spend")
def spend(request: Request, caller: FleetReader, doors: Doors) -> Response:
    """Show tokens, cost and ends of plans over time; a key of a tenant or of repositories sees only its own."""
    asked = {name: text for name, text in request.query_params.items() if text and name in SpendQuery.model_fields}
    try:
        wanted, errors = SpendQuery.model_validate(asked), {}
    except ValidationError as error:
        wanted, errors = SpendQuery(), {str(each["loc"][0]): expected(each) for each in error.errors()}
    began = time.monotonic()
    found = None if errors else _find(doors, caller, wanted)
    took_ms = round(1000 * (time.monotonic() - began))
    return render(
        request,
        "spend.html",
        UNUSABLE if errors else 200,
        asked=asked,
        wanted=wanted,
        errors=errors,
        found=found,
        windows={window: shape.called for window, shape in SHAPES.items()},
        shape=SHAPES[wanted.window],
        update_ms=max(UPDATE_MS, IDLE * took_ms),
        cost=cost,
    )


def _find(doors: Context, caller: Access, asked: SpendQuery) -> Spend:
    shape = SHAPES[asked.window]
    since = milliseconds(datetime.now(UTC) - shape.length)
    wanted = Wanted(since, None, shape.by, asked.tenant, asked.repo)
    times, found = find_stats(doors, caller, wanted, (shape.by, StatsBy.REPOSITORY))
    owners = found.items
    columns = _columns(times, shape)
    with_tenant = caller.key.tenant is None and asked.tenant is None
    return Spend(
        times.total,
        columns,
        _plots(columns, times.total),
        [(owner_of(each, with_tenant=with_tenant), each) for each in owners[:MOST_OWNERS]],
        max(0, len(owners) - MOST_OWNERS),
    )


def _columns(found: StatsView, shape: _Shape) -> list[Column]:
    """Return the figures of each bar, also if no plan ended in its time; the last bar ends now."""
    ms = PERIODS[shape.by] * shape.joined
    since, until = (milliseconds(datetime.fromisoformat(text)) for text in (found.since, found.until))
    rows: dict[int, list[StatsRow]] = {}
    for row in found.items:
        began = milliseconds(datetime.fromisoformat(str(row.at)))
        rows.setdefault(began - began % ms, []).append(row)
    starts = range(since - since % ms, until, ms)
    return [Column(rfc3339(at), _moment(at, ms), _add(rows.get(at, ()))) for at in starts]


def _moment(at: int, ms: int) -> str:
    """Return the label of a bar's time."""
    began, ended = (datetime.fromtimestamp(each // 1000, UTC) for each in (at, at + ms))
    if ms % (24 * HOUR_MS) == 0:
        return f"{began:%d %b %Y}"
    return f"{began:%d %b, %H:%M} to {ended:%H:%M} UTC"


def _add(rows: Iterable[StatsRow]) -> StatsFigures:
    """Return the sum of figures."""
    total = dict.fromkeys(("completed", "halted", "cancelled", "rejected", "tokens", "steps", "failures"), 0)
    halts: dict[str, int] = {}
    usd = 0.0
    for row in rows:
        total = {name: figure + getattr(row, name) for name, figure in total.items()}
        usd += row.cost_usd
        for rule, count in row.halted_by.items():
            halts[rule] = halts.get(rule, 0) + count
    return StatsFigures.model_validate({**total, "cost_usd": usd, "halted_by": halts})


def _plots(columns: Sequence[Column], total: StatsFigures) -> list[Plot]:
    """Return the plots with content: costs only if controllers report them, rules only if one halted a plan."""
    times = [column.says for column in columns]

    def of(name: str) -> list[float]:
        return [getattr(column.figures, name) for column in columns]

    ends = {name: (name, of(name)) for name in ("completed", "halted", "cancelled", "rejected")}
    made = [
        plots.draw("ends", "Plans that ended", times, ends, _count),
        plots.draw("tokens", "Tokens", times, {"tokens": ("tokens", of("tokens"))}, _count),
    ]
    if total.cost_usd:
        made.append(plots.draw("cost", "Cost", times, {"cost": ("", of("cost_usd"))}, cost))
    if total.halted_by:
        made.append(plots.draw("rules", "Halted, by rule", times, _rules(columns, total), _count))
    return made


def _rules(columns: Sequence[Column], total: StatsFigures) -> dict[str, tuple[str, list[float]]]:
    """Return the series of halts: one for each of the rules that halted the most plans, and one for all other rules."""
    first = [*total.halted_by][: len(RULE_LOOKS)]
    series = {
        look: (rule, [float(column.figures.halted_by.get(rule, 0)) for column in columns])
        for look, rule in zip(RULE_LOOKS, first, strict=False)
    }
    if len(total.halted_by) > len(first):
        rest = [float(sum(n for rule, n in c.figures.halted_by.items() if rule not in first)) for c in columns]
        series[OTHER_RULES] = "other rules", rest
    return series


def _count(figure: float) -> str:
    """Return a number in short form: 1,234 and 12.3k and 4.51M."""
    for least, size, sign in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if figure >= least:
            return f"{figure / size:.3g}{sign}"
    return f"{figure:,.1f}".removesuffix(".0")
