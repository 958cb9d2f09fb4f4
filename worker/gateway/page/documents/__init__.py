"""The documents of plans for people: the sections of each kind, made from the record of the kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

from schemas.base import GoalKind
from worker.gateway.page.documents import by_kind, reviewed_plan
from worker.gateway.page.documents.blocks import Section

Writer = Callable[[dict[str, Any]], Iterator[Section | None]]

WRITERS: MappingProxyType[str, Writer] = MappingProxyType(
    {
        GoalKind.TASK: by_kind.task_sections,
        GoalKind.GAP_REPORT: by_kind.gap_report_sections,
        GoalKind.CAMPAIGN: by_kind.campaign_sections,
        GoalKind.REVIEWED_PLAN: reviewed_plan.sections,
        GoalKind.EVOLUTION: by_kind.evolution_sections,
    }
)


def sections_of(kind: str, document: Any) -> list[Section]:
    """Return the sections of a plan's document; empty if it has none, or if this release does not know its kind."""
    if kind not in WRITERS or not isinstance(document, dict):
        return []
    return [section for section in WRITERS[kind](document) if section]
