"""A question as a page that is answered in writing: the seed's three headers, always alike for what is known."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.rules.strategy import Question
from tasks.strategies.campaign.coherence import Finding
from tasks.strategies.campaign.options import options
from tasks.strategies.campaign.state import Known
from tasks.text.fields import one_line, settle

SHOWN = 50  # characters of the objective


def question(finding: Finding, known: Known, objective: str, allowed: Sequence[str]) -> Question:
    """Put to a person what `finding` leaves open."""
    document = page(finding, known, objective, allowed)
    return Question(finding.decision.value.lower(), finding.questions, document)


def page(finding: Finding, known: Known, objective: str, allowed: Sequence[str]) -> str:
    """Write the page."""
    first, second = options(finding.triggers[0], known, allowed)
    asked = [f"{number}. {each}" for number, each in enumerate(finding.questions, 1)]
    lines = (
        "## Blocking Questions",
        *asked,
        "",
        "## What I Analyzed (from exploration database)",
        f"- Structure: {known.file_count} files",
        f"- Framework: {known.framework}",
        f"- Delta candidates: {len(known.candidates)} files",
        f'- Objective: "{settle(objective, SHOWN, _opening)}..."',
        "",
        "## Options",
        f"- A: {first.reading} → {first.result}",
        f"- B: {second.reading} → {second.result}",
    )
    return "\n".join(lines) + "\n"


def _opening(text: str, size: int) -> str:
    return one_line(text, len(text))[:size]
