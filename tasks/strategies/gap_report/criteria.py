"""How an iteration is judged: two criteria that always hold, then those of its gap (seed 000, step 4)."""

from __future__ import annotations

from collections.abc import Iterable

from schemas.gap import Gap
from tasks.strategies.gap_report.analysis import category_of
from tasks.text.fields import fit

ALWAYS = ("All new/modified files pass ruff check", "All new/modified files pass pyright strict")
MAX_CRITERION = 300
MAX_CONSTRAINTS = 20


def criteria(gap: Gap, constraints: Iterable[str], tool: str) -> tuple[str, ...]:
    """List the acceptance criteria of `gap`; of a quality gap its tool is the judge."""
    lines = [fit(line, MAX_CRITERION) for line in constraints][:MAX_CONSTRAINTS]
    judged = (f"{fit(tool, 80)} reports no failures",) if category_of(gap) == "quality" else ()
    kept = tuple(f"Constraint kept: {line}" for line in lines if line)
    return (*ALWAYS, f"Gap resolved: {fit(gap.description, MAX_CRITERION)}", *judged, *kept)
