"""Draws the doctor's findings for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from worker.doctor.finding import Finding, many
from worker.doctor.rounds import Rounds
from worker.render.plan import plain
from worker.render.remarks import probe_of

STYLES = {"error": "bold red", "warning": "yellow", "fixed": "green"}


def draw(found: Sequence[Finding], rounds: Rounds) -> RenderableType:
    """Draw each finding with its remedy, then the number of checked items."""
    parts: list[RenderableType] = []
    for each in found:
        kind = "fixed" if each.fixed else each.severity.value
        parts.append(Text.assemble((f"{kind:8} ", STYLES[kind]), f"{each.check:16} ", plain(each.subject)))
        parts.append(Padding(Text(plain(each.sentence)), (0, 0, 0, 9)))
        if not each.fixed:
            fixable = " (--fix can)" if each.repair and "--fix" not in each.do else ""
            parts.append(Padding(Text(plain(each.do + fixable), "dim"), (0, 0, 0, 9)))
    for paused in rounds.paused:
        parts.append(Text.assemble(("paused   ", "yellow"), plain(f"repository {paused.repo} of {paused.tenant}")))
        parts += [Padding(Text(plain(each)), (0, 0, 0, 9)) for each in (paused.reason, probe_of(paused))]
    parts += [Text(plain(f"note     {note}"), "dim") for note in rounds.notes]
    result = many(len(found), "finding") if found else "all is well"
    if fixed := sum(finding.fixed for finding in found):
        result += f", {fixed:,} fixed"
    return Group(*parts, Text(f"Looked at {many(rounds.plans, 'plan')} and {many(rounds.queues, 'queue')}: {result}."))
