"""Draws docs/observability/dashboard.svg: each panel of the dashboard, as Prometheus answers after a real run.

    python -m tests.tools.draw_dashboard [FILE]

Needs Debian's prometheus, and about three minutes: a planner is at work, then gets the faults that alerts are about.
This draws what Grafana would be told, not what Grafana looks like.
"""

from __future__ import annotations

import math
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from tests.conftest import wait_until
from tests.support.observed import FAULTS, Observed, observed
from tests.support.prometheus import DASHBOARD, Prometheus, rows, scraping

AT_WORK_S = 60.0  # before the first fault
PAUSE_S = 2.0  # between what happens there
STEP_S = 2.0  # between two points of a line
UNIT_W, PANEL_H, HEAD_H, TITLE_H, PLOT_H, LEFT, PAD = 60, 168, 30, 30, 84, 46, 8
SHOWN = 6  # lines in a legend
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22")


class Line(NamedTuple):
    """A line of a panel: its words in the legend, and (seconds since the beginning, value)."""

    legend: str
    points: list[tuple[float, float]]


def lines(prometheus: Prometheus, panel: dict[str, Any], begin: float, end: float) -> Iterator[Line]:
    """Ask what a panel asks."""
    for target in panel["targets"]:
        for series in prometheus.over(target["expr"], begin, end, STEP_S):
            legend = target["legendFormat"]
            for label, value in series["metric"].items():
                legend = legend.replace(f"{{{{{label}}}}}", value)
            points = [(at - begin, float(value)) for at, value in series["values"]]
            if numbers := [point for point in points if math.isfinite(point[1])]:
                yield Line(legend, numbers)


def strokes(points: list[tuple[float, float]]) -> Iterator[tuple[str, tuple[float, float]]]:
    """Say of each point whether a line begins there or leads there: where an answer is missing there is none."""
    before = -math.inf
    for point in points:
        yield "L" if point[0] - before < 2 * STEP_S else "M", point
        before = point[0]


def figure(value: float, unit: str) -> str:
    """Write a number of an axis."""
    if unit == "s" and 0 < value < 1:
        return f"{value * 1000:.3g} ms"
    size, letter = next(((size, letter) for size, letter in ((1e6, "M"), (1e3, "k")) if value >= size), (1, ""))
    short = f"{value / size:.3g}{letter}"
    return {"s": f"{short} s", "currencyUSD": f"${short}"}.get(unit, short)


def draw_panel(panel: dict[str, Any], found: list[Line], x: int, y: int, seconds: float) -> Iterator[str]:
    """Draw one panel in its place."""
    unit = panel["fieldConfig"]["defaults"]["unit"]
    width, plot = panel["gridPos"]["w"] * UNIT_W - PAD, panel["gridPos"]["w"] * UNIT_W - PAD - LEFT - 10
    found = sorted(found, key=lambda line: -max(value for _, value in line.points))
    top = max((value for line in found for _, value in line.points), default=0) or 1
    yield f'<g transform="translate({x},{y})"><rect class="p" width="{width}" height="{PANEL_H - PAD}" rx="3"/>'
    per_minute = " (a minute)" if unit == "cpm" else ""
    yield f'<text class="t" x="8" y="18">{escape(panel["title"] + per_minute)}</text>'
    for part in (0, 0.5, 1):
        height = TITLE_H + PLOT_H * (1 - part)
        yield f'<path class="g" d="M{LEFT} {height:.0f}h{plot}"/>'
        yield f'<text class="a" x="{LEFT - 4}" y="{height + 3:.0f}">{escape(figure(top * part, unit))}</text>'
    for number, line in enumerate(found):
        path = "".join(f"{how}{LEFT + at / seconds * plot:.0f} {TITLE_H + PLOT_H * (1 - value / top):.0f}"
                       for how, (at, value) in strokes(line.points))  # fmt: skip
        yield f'<path class="l" stroke="{COLOURS[number % len(COLOURS)]}" d="{path}"/>'
    columns = 3 if width > 400 else 2
    for number, line in enumerate(found[:SHOWN]):
        words = line.legend if number < SHOWN - 1 or len(found) == SHOWN else f"and {len(found) - SHOWN + 1} more"
        place = f'x="{10 + number % columns * (width // columns)}" y="{TITLE_H + PLOT_H + 15 + number // columns * 12}"'
        yield f'<text class="k" fill="{COLOURS[number % len(COLOURS)]}" {place}>{escape(words)}</text>'
    yield "</g>"


STYLE = """text{font-family:Helvetica,Arial,sans-serif;font-size:11px}.t{font-size:13px;font-weight:bold;fill:#222}
.h{font-size:15px;font-weight:bold;fill:#222}.a{fill:#777;text-anchor:end;font-size:10px}.k{font-size:10px}
.p{fill:#fff;stroke:#ddd}.g{stroke:#eee}.l{fill:none;stroke-width:1.4}"""


def draw(prometheus: Prometheus, begin: float, end: float) -> str:
    """Draw every panel, row by row."""
    drawn, y = list[str](), PAD
    for title, panels in rows():
        drawn.append(f'<text class="h" x="{PAD}" y="{y + 18}">{escape(title)}</text>')
        y += HEAD_H
        above = None
        for panel in panels:
            place = panel["gridPos"]
            y += PANEL_H if above is not None and place["y"] != above else 0
            above = place["y"]
            found = list(lines(prometheus, panel, begin, end))
            drawn += draw_panel(panel, found, PAD + place["x"] * UNIT_W, y, end - begin)
        y += PANEL_H
    width = 24 * UNIT_W + PAD
    begun = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" height="{y}">'
    return "\n".join(
        [begun, f"<style>{STYLE}</style>", '<rect width="100%" height="100%" fill="#f6f7f8"/>', *drawn, "</svg>\n"]
    )


def play(run: Observed, prometheus: Prometheus) -> None:
    """Have the planner work, and then have the faults that leave it working, each until its alert fires."""
    end = time.time() + AT_WORK_S
    while time.time() < end:
        run.live()
        time.sleep(PAUSE_S)
    for fault, expected in FAULTS:
        fault(run)
        wait_until(partial(prometheus.fires, expected), 60, f"{sorted(expected)} fire")


def main(target: Path) -> None:
    """Run, ask and draw."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with observed(folder) as run, scraping(folder / "prometheus", run.targets(), run.key()) as prometheus:
            wait_until(lambda: not prometheus.down(), what="all are scraped")
            begin = time.time()
            play(run, prometheus)
            target.write_text(draw(prometheus, begin, time.time()))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DASHBOARD.with_suffix(".svg"))
