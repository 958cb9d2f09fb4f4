"""Fills docs/performance.md and docs/profile.md from their figures, and draws docs/performance.svg.

    uv run python -m tests.bench --runs 3 --json > docs/performance.json
    uv run python -m tests.bench.profile --beside 100000 --json > docs/profile.json
    uv run python -m tests.tools.performance_page

A row of a table that begins with the name of a figure has its median and, of several runs, the least and the most in
the second column. What the rows say beside that is the page's own. The profile stands whole between its two marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from schemas import codec
from tests.bench.profile import table

DOCS = Path(__file__).parents[2] / "docs"
PAGE, CURVES, FIGURES = DOCS / "performance.md", DOCS / "performance.svg", DOCS / "performance.json"
PROFILE_PAGE, PROFILE = DOCS / "profile.md", DOCS / "profile.json"
BEGIN, END = "<!-- profile -->\n", "<!-- /profile -->\n"
ROW = re.compile(r"^\| `(\w+)` \| [^|]* \|", re.MULTILINE)
WIDTH, HEIGHT, TOP, BASE, PANEL, LEFT = 960, 300, 64, 236, 296, 56
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #57606a }
  .title { font-size: 14px; font-weight: 600; fill: #24292f }
  .value { font-weight: 600; fill: #24292f; stroke: #fff; stroke-width: 3; paint-order: stroke }
  .grid { stroke: #d0d7de }
  .curve { stroke: #0969da; fill: none; stroke-width: 2 }
  .spread { stroke: #0969da; stroke-opacity: .45; stroke-width: 6; stroke-linecap: round }
  .dot { fill: #0969da }
  @media (prefers-color-scheme: dark) {
    text { fill: #9198a1 }
    .title, .value { fill: #f0f6fc }
    .value { stroke: #0d1117 }
    .grid { stroke: #3d444d }
    .curve, .spread { stroke: #4493f8 }
    .dot { fill: #4493f8 }
  }
"""


class Panel(NamedTuple):
    """A drawing of the CPU of an outcome: its title, what the places are, and the figure of each place."""

    title: str
    axis: str
    places: Mapping[str, str]
    is_curve: bool = True


PANELS = (
    Panel(
        "By the steps of its plan",
        "steps",
        {f"{n:,}".replace(",", " "): f"cpu_us_{n}_steps" for n in (10, 100, 1000, 10_000)},
    ),
    Panel(
        "By the plans beside its plan",
        "other live plans",
        {f"{n:,}".replace(",", " "): f"cpu_us_beside_{n}_plans" for n in (0, 10_000, 100_000)},
    ),
    Panel(
        "By workers and partitions",
        "workers on partitions",
        {f"{w} on {p}": f"cpu_us_{w}_workers_{p}_partitions" for w, p in ((1, 1), (1, 2), (2, 1), (2, 2))},
        is_curve=False,
    ),
)


def number(value: float) -> str:
    """Write a figure with three digits that count, or all before the point."""
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.{2 if abs(value) < 10 else 1}f}"


def filled(page: str, figures: Mapping[str, Any]) -> str:
    """Put the figures into the tables of a page; raises KeyError for a row whose figure there is none of."""

    def row(match: re.Match[str]) -> str:
        found = figures[match[1]]
        spread = "" if found["min"] == found["max"] else f" ({number(found['min'])} - {number(found['max'])})"
        return f"| `{match[1]}` | {number(found['median'])}{spread} |"

    return ROW.sub(row, page)


def profiled(page: str, profile: Mapping[str, Any]) -> str:
    """Put the tables of a profile between its marks on a page."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{chr(10).join(table(profile))}\n{END}{after}"


def draw(figures: Mapping[str, Any]) -> str:
    """Draw the CPU of an outcome, all panels to one scale."""
    most = max(figures[name]["max"] for panel in PANELS for name in panel.places.values())
    step = next(size for size in (10, 20, 25, 30, 40, 50, 100, 150, 200, 250, 500, 1000) if most <= 4.5 * size)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        "<title>CPU of worker and server for an outcome, in microseconds</title>",
        f"<style>{STYLE}</style>",
        f'<text class="title" x="{LEFT - 40}" y="20">CPU of worker and server for an outcome, in microseconds</text>',
    ]
    for place, panel in enumerate(PANELS):
        lines += _panel(panel, LEFT + place * (PANEL + 8), figures, step)
    return "\n".join([*lines, "</svg>", ""])


def _panel(panel: Panel, left: float, figures: Mapping[str, Any], step: int) -> Iterator[str]:
    yield f'<text class="title" x="{left}" y="{TOP - 16}">{escape(panel.title)}</text>'
    for tick in range(6):
        y = BASE - tick * (BASE - TOP) / 5
        yield f'<line class="grid" x1="{left}" y1="{y:.1f}" x2="{left + PANEL - 48}" y2="{y:.1f}"/>'
        yield f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{tick * step}</text>'
    room = (PANEL - 48) / len(panel.places)
    points, values = [], []
    for at, (label, name) in enumerate(panel.places.items()):
        x, spread = left + (at + 0.5) * room, figures[name]
        low, middle, high = (BASE - spread[of] * (BASE - TOP) / (5 * step) for of in ("min", "median", "max"))
        points.append(f"{x:.1f},{middle:.1f}")
        values.append(_text("value", x, high - 9, number(spread["median"])))
        yield f'<line class="spread" x1="{x:.1f}" y1="{low:.1f}" x2="{x:.1f}" y2="{high:.1f}"/>'
        yield f'<circle class="dot" cx="{x:.1f}" cy="{middle:.1f}" r="4"/>'
        yield _text("place", x, BASE + 20, label)
    if panel.is_curve:
        yield f'<polyline class="curve" points="{" ".join(points)}"/>'
    yield from values
    yield _text("axis", left + (PANEL - 48) / 2, BASE + 42, panel.axis)


def _text(kind: str, x: float, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(text)}</text>'


if __name__ == "__main__":
    found = codec.loads(FIGURES.read_bytes())["figures"]
    PAGE.write_text(filled(PAGE.read_text(), found))
    PROFILE_PAGE.write_text(profiled(PROFILE_PAGE.read_text(), codec.loads(PROFILE.read_bytes())))
    CURVES.write_text(draw(found))
