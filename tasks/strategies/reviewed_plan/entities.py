"""The entities of plan.json: what each is called in an operation, its model, and where it lies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from schemas.review_plan import (
    CodeChange,
    CodeIntent,
    Constraint,
    Decision,
    Documentation,
    Entity,
    InvisibleKnowledge,
    MilestoneDependencies,
    MilestoneFacts,
    Overview,
    RejectedAlternative,
    Risk,
)

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EntityType:
    """One row: an entity without a `prefix` is the only one of its place; an `owned` one lies in a milestone."""

    model: type[Entity]
    place: tuple[str, ...]
    prefix: str | None = None
    owned: bool = False


ENTITIES: Mapping[str, EntityType] = {
    "overview": EntityType(Overview, ("overview",)),
    "decision": EntityType(Decision, ("planning_context", "decision_log"), "DL"),
    "rejected_alternative": EntityType(RejectedAlternative, ("planning_context", "rejected_alternatives"), "RA"),
    "constraint": EntityType(Constraint, ("planning_context", "constraints"), "C"),
    "risk": EntityType(Risk, ("planning_context", "known_risks"), "R"),
    "invisible_knowledge": EntityType(InvisibleKnowledge, ("invisible_knowledge",)),
    "milestone": EntityType(MilestoneFacts, ("milestones",), "M"),
    "code_intent": EntityType(CodeIntent, ("code_intents",), "CI", owned=True),
    "milestone_dependencies": EntityType(MilestoneDependencies, ("milestone_dependencies",)),
    "code_change": EntityType(CodeChange, ("code_changes",), "CC", owned=True),
    "documentation": EntityType(Documentation, ("documentation",), owned=True),
}


def places(plan: Record, kind: EntityType) -> Iterator[tuple[str | None, Any]]:
    """Find every place of an entity in an encoded plan, each with the milestone that owns it."""
    if not kind.owned:
        yield None, _at(plan, kind.place)
        return
    for milestone in plan["milestones"]:
        yield milestone["id"], _at(milestone, kind.place)


def _at(record: Record, place: tuple[str, ...]) -> Any:
    for name in place:
        record = record[name]
    return record
