"""The document of a `task`: how its steps came about, and what they take for granted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from worker.gateway.page.documents.blocks import Section, facts, listing, prose, record, section


def sections(document: dict[str, Any]) -> Iterator[Section | None]:
    """Write the sections of the document."""
    failed = record(document.get("drafting")).get("failed")
    yield section(
        "How the steps came about",
        prose(document.get("summary")),
        facts(
            kind_of_work=document.get("type"),
            language=document.get("language"),
            drafted_by=document.get("drafter"),
            questions_to_a_person=document.get("questions"),
        ),
        prose(f"The draft was of no use, so a template was taken: {failed}") if failed else None,
    )
    yield section("Taken for granted", listing(document.get("assumptions")))
    yield section("Constraints", listing(document.get("constraints")))
    yield section("Changed in the draft without asking", listing(document.get("notes")))
