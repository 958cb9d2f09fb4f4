"""Lays out the steps of a plan as a graph: one column for each depth, rows so that few lines cross. Pure.

Time and size are bounded for every plan: a large plan is drawn as bands of steps, a dense one with some of its lines.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Protocol

from worker.render.plan import depths

MOST_NODES = 300  # of single steps; more are drawn as bands
BANDS = 40  # about
MOST_EDGES = 1500
CENTRED_ROWS = 10  # up to this height of the tallest column, others are centred: all rows are visible at once
SWEEPS = 4  # over all columns, forth and back
WIDTH, HEIGHT = 176, 48  # of a node
GAP_X, GAP_Y = 56, 14
MARGIN = 8


class Drawable(Protocol):
    """An item that can be drawn as a node, such as a step."""

    @property
    def step_id(self) -> str:
        """The id of the item, unique among the drawn items."""
        ...

    @property
    def depends_on(self) -> tuple[str, ...]:
        """The ids of the items that this item depends on."""
        ...

    @property
    def state(self) -> str:
        """The state of the item, which selects the colour of the node."""
        ...


@dataclass(slots=True)
class Node:
    """A step, or a band of steps of about the same depth, and its position."""

    name: str
    column: int
    steps: list[Drawable] = field(default_factory=list)
    row: float = 0
    x: int = 0
    y: int = 0

    @property
    def counts(self) -> Counter[str]:
        """The number of the node's steps in each state."""
        return Counter(step.state for step in self.steps)


@dataclass(frozen=True, slots=True)
class Graph:
    """A drawing; `paths` are SVG paths of its lines, `left_out` is the number of lines that are not drawn."""

    nodes: tuple[Node, ...]
    paths: tuple[str, ...]
    left_out: int
    width: int
    height: int
    is_banded: bool
    more_steps: int = 0  # steps of the drawn band that are not drawn


def lay_out(steps: Sequence[Drawable], band: int | None = None) -> Graph:
    """Lay out all steps, or those of one band."""
    deep = depths({step.step_id: step.depends_on for step in steps})
    size = -(-max(deep.values(), default=1) // BANDS) if len(steps) > MOST_NODES else 0
    if size and band is not None:
        steps, size = [step for step in steps if _band(deep[step.step_id], size) == band], 0
    more_steps = 0 if size else max(0, len(steps) - MOST_NODES)
    steps = steps if size else steps[:MOST_NODES]
    first = min((deep[step.step_id] for step in steps), default=1)
    nodes: dict[str, Node] = {}
    node_of: dict[str, str] = {}
    for step in steps:
        column = _band(deep[step.step_id], size) if size else deep[step.step_id] - first
        name = str(column) if size else step.step_id
        nodes.setdefault(name, Node(name, column)).steps.append(step)
        node_of[step.step_id] = name
    edges = dict.fromkeys(
        (node_of[before], node_of[step.step_id])
        for step in steps
        for before in step.depends_on
        if before in node_of and node_of[before] != node_of[step.step_id]
    )
    drawn = list(edges)[:MOST_EDGES]
    height = _place(nodes, drawn)
    columns = 1 + max((node.column for node in nodes.values()), default=0)
    return Graph(
        nodes=tuple(nodes.values()),
        paths=tuple(_path(nodes[before], nodes[after]) for before, after in drawn),
        left_out=len(edges) - len(drawn),
        width=columns * (WIDTH + GAP_X) - GAP_X + 2 * MARGIN,
        height=height,
        is_banded=bool(size),
        more_steps=more_steps,
    )


def _band(depth: int, size: int) -> int:
    return (depth - 1) // size


def _place(nodes: Mapping[str, Node], edges: Sequence[tuple[str, str]]) -> int:
    """Set the position of each node. Returns the height of the drawing."""
    columns: dict[int, list[Node]] = defaultdict(list)
    before: dict[str, list[Node]] = defaultdict(list)
    after: dict[str, list[Node]] = defaultdict(list)
    for node in nodes.values():
        columns[node.column].append(node)
    for one, other in edges:
        before[other].append(nodes[one])
        after[one].append(nodes[other])
    tallest = max(map(len, columns.values()), default=1)
    middle = tallest / 2 if tallest <= CENTRED_ROWS else 0
    for sweep in range(SWEEPS + 1):
        is_back = sweep % 2
        beside = after if is_back else before
        for number in sorted(columns, reverse=bool(is_back)):
            column = columns[number]
            if sweep:
                column.sort(key=lambda node: fmean(n.row for n in beside[node.name]) if beside[node.name] else node.row)
            for row, node in enumerate(column):
                node.row = row + max(0, middle - len(column) / 2)
    for node in nodes.values():
        node.x = MARGIN + node.column * (WIDTH + GAP_X)
        node.y = MARGIN + round(node.row * (HEIGHT + GAP_Y))
    return tallest * (HEIGHT + GAP_Y) - GAP_Y + 2 * MARGIN


def _path(before: Node, after: Node) -> str:
    x1, y1 = before.x + WIDTH, before.y + HEIGHT // 2
    x2, y2 = after.x, after.y + HEIGHT // 2
    bend = GAP_X // 2
    return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
