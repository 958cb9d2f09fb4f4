"""What the strategy of a plan that expands keeps, as it is stored.

Workers of releases before take no state and no document with fields that they do not know, and keep fields of the
record around them. So what came after them stands there, under `set_apart`, by its place in the record; it is put back
when the record is read. Where such a worker took away what a field is of, the field goes, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from schemas import codec
from schemas.base import GoalKind

SET_APART = "set_apart"
ANY = "*"  # each value of an object, or each item of a list, which goes by its `seq` or `step_id`
# What came since the release before; where it is left out it is empty. Once no worker of that runs any more a field
# can be stored where it belongs.
LATER: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        GoalKind.CAMPAIGN: (
            "state/known/parts",
            "state/known/choices",
            "state/known/meant",
            "state/progress/*/setback",
            "state/progress/*/before",
            "state/progress/*/rewritten",
            "document/tasks/*/sections",
        ),
        GoalKind.EVOLUTION: ("state/progress", "document/commit_card"),
        GoalKind.GAP_REPORT: (
            "state/absent",
            "document/gap/tally",
            "document/outside",
            "document/passed_over",
            "document/gaps_left",
        ),
        GoalKind.REVIEWED_PLAN: (
            "state/mended",
            "state/review_first",
            "state/work_asked",
            "state/tries",
            "state/ended/*/why",
            "document/outcomes/*/mended",
        ),
        GoalKind.TASK: (
            "state/template/*/allow_empty",
            "state/template/*/piece_of",
            "state/template/*/quick_checks",
            "state/template/*/answers_from",
            "state/template/*/keeps_answer",
            "state/template/*/goal_texts",
        ),
    }
)


def encode(kind: str, kept: Mapping[str, Any]) -> bytes:
    """Write what the strategy of this kind keeps."""
    apart: dict[str, Any] = {}
    stored: Any = kept
    for place in LATER.get(kind, ()):
        stored = _without(stored, place.split("/"), "", apart)
    return codec.dumps({**stored, SET_APART: apart} if apart else stored)


def decode(raw: bytes) -> dict[str, Any]:
    """Read what `encode` wrote, or a release before."""
    kept: dict[str, Any] = codec.loads(raw)
    for place, value in (kept.pop(SET_APART, None) or {}).items():
        *way, last = place.split("/")
        found: Any = kept
        for name in way:
            found = dict(_parts(found)).get(name)
        if isinstance(found, dict):
            found.setdefault(last, value)
    return kept


def _without(value: Any, way: list[str], place: str, apart: dict[str, Any]) -> Any:
    """Take one kind of field out of `value`, which is at `place`, into `apart`."""
    name, *rest = way
    if name == ANY and isinstance(value, dict | list):
        parts = [(each, _without(part, rest, f"{place}{each}/", apart)) for each, part in _parts(value)]
        return [part for _, part in parts] if isinstance(value, list) else dict(parts)
    if not isinstance(value, dict) or name not in value:
        return value
    if rest:
        return {**value, name: _without(value[name], rest, f"{place}{name}/", apart)}
    if value[name]:
        apart[place + name] = value[name]
    return {other: part for other, part in value.items() if other != name}


def _parts(value: Any) -> list[tuple[str, Any]]:
    """Name the values of an object, or the items of a list."""
    if isinstance(value, list):
        return [(_name(each), each) for each in value]
    return list(value.items()) if isinstance(value, dict) else []


def _name(item: Any) -> str:
    return str(item.get("seq") or item.get("step_id")) if isinstance(item, dict) else ""
