"""Applies operations to the entities of plan.json; nothing else changes it.

All operations of an answer are applied, or none. An operation is refused if the plan is frozen. It is refused if its
writer may not write the entity (foreign), or if it names another version of the entity (stale). It is also refused if
it leaves a reference without a target (dangling).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any

from pydantic import ValidationError

from schemas.kinds.reviewed_plan import Operation
from schemas.kinds.reviewed_plan_answers import ENTITIES, EntityType
from schemas.kinds.reviewed_plan_files import Documentation, Plan
from schemas.times import rfc3339
from tasks.base.errors import PlannerError
from tasks.strategies.reviewed_plan.integrity import faults, size_faults
from tasks.strategies.reviewed_plan.words import clean_words, explain, sum_up

JsonObject = dict[str, Any]


def places(plan: JsonObject, kind: EntityType) -> Iterator[tuple[str | None, Any]]:
    """Yield each place in plan.json where such entities are, with the id of its milestone or None."""
    if kind.owned:
        yield from ((milestone["id"], reduce(getitem, kind.place, milestone)) for milestone in plan["milestones"])
    else:
        yield None, reduce(getitem, kind.place, plan)


class AnswerRefused(PlannerError):
    """An answer is refused. The message has the reason for its author, and lists the `allowed` values."""

    def __init__(self, why: str, allowed: str = "") -> None:
        super().__init__(why)
        self.allowed = allowed


@dataclass(frozen=True, slots=True)
class Writer:
    """The entities that an author may write, the time of the operations, and the files that they may name."""

    writes: Collection[str]
    now: int  # ms
    allowed: Collection[str] | None = None


def apply(plan: Plan, operations: Sequence[Operation], writer: Writer) -> Plan:
    """Return the plan after all operations, in order. Raises AnswerRefused if one of them is not possible. Pure."""
    if plan.frozen_at is not None:
        raise AnswerRefused(f"frozen: plan.json was frozen at {plan.frozen_at} and is not written any more")
    body = plan.model_dump(mode="json")
    for number, operation in enumerate(operations, 1):
        try:
            _apply(body, operation, writer)
        except AnswerRefused as refused:
            name = " ".join(filter(None, (operation.op, operation.entity, operation.id)))
            raise AnswerRefused(sum_up((f"{refused} (operation {number}: {name})",)), refused.allowed) from refused
    try:
        plan = Plan.model_validate(body)
    except ValidationError as error:
        raise AnswerRefused(f"invalid: {explain(error)}") from error
    if found := [*faults(plan, writer.allowed)] or [*size_faults(plan)]:
        raise AnswerRefused(sum_up(found), _allowed(plan, found, writer))
    return plan


def _allowed(plan: Plan, found: Sequence[str], writer: Writer) -> str:
    """Return the files or the existing ids that an answer with these faults may name; empty for other faults."""
    kinds = {fault.partition(":")[0] for fault in found}
    if "outside_allowlist" in kinds and writer.allowed:
        return f"files {', '.join(sorted(writer.allowed))}"
    if "dangling" not in kinds:
        return ""
    ids = {
        "decisions": [each.id for each in plan.planning_context.decision_log],
        "milestones": [each.id for each in plan.milestones],
        "code intents": [each.id for milestone in plan.milestones for each in milestone.code_intents],
    }
    return "; ".join(f"{name} {', '.join(some) or 'none yet'}" for name, some in ids.items())


def _apply(body: JsonObject, operation: Operation, writer: Writer) -> None:
    kind = ENTITIES.get(operation.entity)
    if kind is None:
        raise AnswerRefused(f"unknown: there is no such entity; there are {', '.join(ENTITIES)}")
    if operation.entity not in writer.writes:
        raise AnswerRefused(f"foreign: this phase writes {', '.join(sorted(writer.writes))} and nothing else")
    VERBS[operation.op](body, kind, operation, writer)


def _add(body: JsonObject, kind: EntityType, operation: Operation, writer: Writer) -> None:
    if kind.prefix is None:
        raise AnswerRefused("invalid: there is always one of these; use set with its version")
    value = dict(operation.value or {})
    owner = value.pop("milestone", None) if kind.owned else None
    target = next((place for name, place in places(body, kind) if name == owner), None)
    if target is None:
        known = ", ".join(str(name) for name, _ in places(body, kind))
        why = "dangling: value.milestone must name the milestone that this belongs to"
        raise AnswerRefused(why, f"milestones {known or 'none yet'}")
    if not isinstance(own := value.get("id"), str | None):
        raise AnswerRefused("invalid: value.id must be a string")
    taken = {record["id"] for _, place in places(body, kind) for record in place}
    numbers = [int(number) for number in (each.rpartition("-")[2] for each in taken) if number.isdigit()]
    name = operation.id or own or f"{kind.prefix}-{max(numbers, default=0) + 1:03d}"
    if name in taken:
        free = f"{kind.prefix}-{max(numbers, default=0) + 1:03d}"
        raise AnswerRefused("exists: this id is taken; use set with its version", f"no id, or a new one such as {free}")
    record = _valid(kind, {**value, "id": name, "version": 1})
    if operation.entity == "decision" and record["timestamp"] is None:
        record["timestamp"] = rfc3339(writer.now)
    if operation.entity == "milestone":
        record |= {"code_intents": [], "code_changes": [], "documentation": Documentation().model_dump(mode="json")}
    target.append(record)


def _set(body: JsonObject, kind: EntityType, operation: Operation, _: Writer) -> None:
    record, _place = _find(body, kind, operation)
    known = {name: value for name, value in record.items() if name in kind.model.model_fields}
    value = {name: each for name, each in (operation.value or {}).items() if name not in ("id", "version")}
    record.update(_valid(kind, {**known, **value, "version": record["version"] + 1}))


def _remove(body: JsonObject, kind: EntityType, operation: Operation, _: Writer) -> None:
    if kind.prefix is None:
        raise AnswerRefused("invalid: there is always one of these; use set with its version")
    record, place = _find(body, kind, operation)
    place.remove(record)


VERBS: Mapping[str, Callable[[JsonObject, EntityType, Operation, Writer], None]] = {
    "add": _add,
    "set": _set,
    "remove": _remove,
}


def _find(body: JsonObject, kind: EntityType, operation: Operation) -> tuple[JsonObject, list[JsonObject]]:
    """Return the entity that an operation names, and the list that contains it.

    Raises AnswerRefused if there is no such entity, or if the operation names another version of it.
    """
    found = list(places(body, kind))
    for owner, place in found:
        for record in _records(kind, place):
            if operation.id != (owner if kind.prefix is None else record["id"]):
                continue
            if operation.version is None:
                raise AnswerRefused(f"stale: it has version {record['version']}, which the operation must name")
            if operation.version != record["version"]:
                raise AnswerRefused(
                    f"stale: it has version {record['version']}, not {operation.version}; read it again"
                )
            return record, place
    there = [owner if kind.prefix is None else each["id"] for owner, place in found for each in _records(kind, place)]
    raise AnswerRefused(
        "dangling: there is nothing with this id", f"ids {', '.join(filter(None, there)) or 'none yet'}"
    )


def _records(kind: EntityType, place: Any) -> list[JsonObject]:
    """Return the entities in one place: a list, or the only one."""
    return [place] if kind.prefix is None else place


def _valid(kind: EntityType, value: JsonObject) -> JsonObject:
    """Return the entity with sanitized words. Raises AnswerRefused if it is not valid or has unknown fields."""
    try:
        entity = kind.model.model_validate(value, extra="forbid").model_dump(mode="json")
        return kind.model.model_validate(clean_words(entity)).model_dump(mode="json")
    except ValidationError as error:
        optional = ", ".join(name for name in kind.fields if name not in kind.required)
        needed = f"{', '.join(kind.required)}, and if wanted " if kind.required else ""
        raise AnswerRefused(f"invalid: {explain(error)}", f"in value {needed}{optional}") from error
