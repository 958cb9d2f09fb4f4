"""The document of a `gap_report`: one gap, what is done about it, and how that is judged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from worker.gateway.page.documents.blocks import (
    Mark,
    Section,
    code,
    facts,
    files,
    listing,
    prose,
    record,
    records,
    section,
    table,
    text,
    told,
)

PRIORITIES = {"urgent": "red", "high": "red", "medium": "amber", "low": ""}
RISKS = {"high": "red", "medium": "amber", "low": "green"}
WHY = {
    "outside": "the goal allows none of its files",
    "protected": "all that it is about is protected",
    "failed": "it failed too often in a row",
}


def sections(document: dict[str, Any]) -> Iterator[Section | None]:
    """Write the sections of the document."""
    gap = record(document.get("gap"))
    priority, risk = text(gap.get("priority")), text(document.get("estimated_risk"))
    left = document.get("gaps_left")
    yield section(
        "Gap",
        prose(gap.get("description")),
        facts(
            category=gap.get("category"),
            priority=Mark(priority, PRIORITIES.get(priority, "")),
            its_tool_found=gap.get("tally"),
            version=gap.get("roadmap_version"),
            iteration=document.get("iteration_id"),
            risk_of_the_change=Mark(risk, RISKS.get(risk, "")),
            gaps_left=f"{text(left)} more in the report" if left else "",
        ),
        code(gap.get("evidence"), "Evidence"),
    )
    yield section(
        "Actions",
        table(
            "What is done",
            ("What", "How", "Files"),
            (
                (each.get("description"), text(each.get("action_type")), told(each.get("target_files")))
                for each in records(document.get("actions"))
            ),
        ),
    )
    yield section("Accepted when", listing(document.get("acceptance_criteria")))
    yield section(
        "Outside of the goal",
        prose("These files belong to the actions, but the goal does not allow them. No step touches them.")
        if document.get("outside")
        else None,
        files(document.get("outside")),
    )
    yield section(
        "Passed over",
        table(
            "Gaps that came before this one",
            ("Gap", "Category", "Why", "Files that the goal lacks"),
            (
                (
                    each.get("description"),
                    each.get("category"),
                    WHY.get(text(each.get("reason")), each.get("reason")),
                    told(each.get("files")),
                )
                for each in records(document.get("passed_over"))
            ),
        ),
    )
