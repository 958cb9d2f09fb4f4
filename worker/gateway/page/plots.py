"""Bars over time as SVG: each time has one bar, put together of parts; as plain data for a template."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

HEIGHT = 160  # px, of the highest bar
GAP = 0.18  # of the place of a bar, between two of them
LEAST = 1.5  # px, minimum height of a part that is not 0
LEAST_TOP = 1e-9  # top of an axis: smaller figures are rounding errors of sums
STEPS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0)  # top of an axis, times a power of ten: half of it is round, too


class Part(NamedTuple):
    """A part of a bar: its CSS class, the distance of its top from the plot's top, and its height, both in px."""

    look: str
    y: float
    height: float


class Bar(NamedTuple):
    """A bar: its place and width in percent of the plot, its label, and its parts from below."""

    x: float
    width: float
    says: str
    parts: Sequence[Part]


class Line(NamedTuple):
    """A line of the grid: its place in px from above, and its value in words."""

    y: float
    says: str


class Key(NamedTuple):
    """An entry of the legend: a CSS class, the name of its series, and the sum of the figures."""

    look: str
    name: str
    says: str


class Plot(NamedTuple):
    """A plot: its title, the total, its bars, the lines of its grid, and its legend."""

    name: str
    title: str
    total: str
    bars: Sequence[Bar]
    lines: Sequence[Line]
    keys: Sequence[Key]
    height: int = HEIGHT


def draw(
    name: str,
    title: str,
    times: Sequence[str],
    series: Mapping[str, tuple[str, Sequence[float]]],
    write: Callable[[float], str],
) -> Plot:
    """Return a plot with one bar for each of `times`.

    `series` has, for each CSS class, a name and one figure for each time; a bar stacks these figures. `write` formats a
    figure.
    """
    columns = list(zip(*(figures for _, figures in series.values()), strict=True))
    top = round_up(max(map(sum, columns), default=0))
    place = 100 / max(1, len(times))
    bars = [
        _bar(place * (number + GAP / 2), place * (1 - GAP), _says(moment, column, series, write), column, top, series)
        for number, (moment, column) in enumerate(zip(times, columns, strict=True))
    ]
    sums = {look: sum(figures) for look, (_, figures) in series.items()}
    keys = [Key(look, called, write(sums[look])) for look, (called, _) in series.items() if sums[look]]
    lines = [Line(round(HEIGHT * (1 - share), 2), write(top * share)) for share in (0.5, 1.0)] if top else []
    return Plot(name, title, write(sum(sums.values())), bars, lines, keys)


def round_up(figure: float) -> float:
    """Return the smallest round number that is at least `figure`, for the top of an axis."""
    if figure <= 0:
        return 0
    figure = max(figure, LEAST_TOP)
    power = 1.0
    while power * 10 <= figure:
        power *= 10
    while power > figure:
        power /= 10
    return next(power * step for step in STEPS if power * step >= figure * (1 - 1e-9))


def _bar(x: float, width: float, says: str, column: Sequence[float], top: float, series: Mapping[str, object]) -> Bar:
    parts, below = [], float(HEIGHT)
    for look, figure in zip(series, column, strict=True):
        if figure > 0:
            height = max(LEAST, HEIGHT * figure / top)
            below = max(0.0, below - height)
            parts.append(Part(look, round(below, 2), round(height, 2)))
    return Bar(round(x, 3), round(width, 3), says, parts)


def _says(
    moment: str,
    column: Sequence[float],
    series: Mapping[str, tuple[str, Sequence[float]]],
    write: Callable[[float], str],
) -> str:
    told = [
        f"{write(figure)} {called}".strip()
        for (called, _), figure in zip(series.values(), column, strict=True)
        if figure > 0
    ]
    return f"{moment}: {', '.join(told) or 'nothing'}"
