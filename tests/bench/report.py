"""What several runs of the benchmark found."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple


class Spread(NamedTuple):
    """A figure of several runs."""

    median: float
    min: float
    max: float


class Report(NamedTuple):
    """The server that was measured, and the figures of every run on it."""

    server: dict[str, str]
    runs: Sequence[dict[str, float]]

    @property
    def figures(self) -> dict[str, Spread]:
        """Every figure by name, over all runs."""
        found = {name: [run[name] for run in self.runs] for name in self.runs[0]}
        return {name: Spread(*(round(of(each), 3) for of in (median, min, max))) for name, each in found.items()}

    def as_json(self) -> dict[str, Any]:
        """Write it as a JSON object."""
        figures = {name: spread._asdict() for name, spread in self.figures.items()}
        return {"server": self.server, "runs": len(self.runs), "figures": figures}

    def as_table(self) -> str:
        """Write it for a person: a line for each figure."""
        lines = [", ".join(f"{name} {value}" for name, value in self.server.items())]
        lines.append(f"{'':40} {'median':>12} {'min':>12} {'max':>12}")
        lines += [f"{name:40} {s.median:>12,.3f} {s.min:>12,.3f} {s.max:>12,.3f}" for name, s in self.figures.items()]
        return "\n".join(lines)
