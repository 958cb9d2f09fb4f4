"""The documents of plans as people read them: of each kind its sections, made of what the kind keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

from schemas.base import GoalKind
from worker.gateway.page.documents import campaign, evolution, gap_report, reviewed_plan
from worker.gateway.page.documents.blocks import Section, facts, listing, prose, record, section

Writer = Callable[[dict[str, Any]], Iterator[Section | None]]


def _task_sections(document: dict[str, Any]) -> Iterator[Section | None]:
    """Write how the steps of a `task` came about, and what they take for granted."""
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


WRITERS: MappingProxyType[str, Writer] = MappingProxyType(
    {
        GoalKind.TASK: _task_sections,
        GoalKind.GAP_REPORT: gap_report.sections,
        GoalKind.CAMPAIGN: campaign.sections,
        GoalKind.REVIEWED_PLAN: reviewed_plan.sections,
        GoalKind.EVOLUTION: evolution.sections,
    }
)


def sections_of(kind: str, document: Any) -> list[Section]:
    """Write the document of a plan; empty where it has none, or is of a kind that this release does not know."""
    if kind not in WRITERS or not isinstance(document, dict):
        return []
    return [section for section in WRITERS[kind](document) if section]
