"""The JSON Schema that OpenAI's structured output accepts, and the way a model writes under such a schema.

The root is an object, every object is closed and requires all of its properties, and only the guide's keywords occur.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ANYWHERE = {"type", "description", "enum", "const", "anyOf"}
OF_TYPE = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"pattern", "format"},
    "integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "boolean": set[str](),
    "null": set[str](),
}


def faults(schema: Any, where: str = "") -> Iterator[str]:
    """Yield each part of a schema that structured output does not accept."""
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    known = ANYWHERE.union(*(OF_TYPE[kind] for kind in kinds)) | ({"$schema", "$id"} if not where else set())
    yield from (f"{where}: the keyword {word}" for word in schema.keys() - known)
    if not where and (kinds != ["object"] or "anyOf" in schema):
        yield "the root is no object"
    if not kinds and not schema.keys() & {"anyOf", "enum", "const"}:
        yield f"{where}: anything"
    if "object" in kinds:
        if schema.get("additionalProperties") is not False:
            yield f"{where}: other properties"
        if schema.get("required") != list(schema.get("properties", ())):
            yield f"{where}: properties that are not required"
    if "array" in kinds and "items" not in schema:
        yield f"{where}: items of any kind"
    for name, part in children(schema):
        yield from faults(part, f"{where}/{name}")


def children(schema: Any) -> Iterator[tuple[str, Any]]:
    yield from schema.get("properties", {}).items()
    yield from enumerate(schema.get("anyOf", ()))
    if "items" in schema:
        yield "items", schema["items"]


def places(schema: Any, depth: int = 1) -> Iterator[tuple[int, Any]]:
    yield depth, schema
    for _, part in children(schema):
        yield from places(part, depth + 1)


def written(value: Any, form: Any) -> Any:
    """Convert a plain answer to its strict form: null for a field that is left out, pairs for a map."""
    if "anyOf" in form:
        return written(value, _choice(value, form["anyOf"]))
    if isinstance(value, dict) and "items" in form:
        return [{"name": name, "value": each} for name, each in value.items()]
    if isinstance(value, list | tuple):
        return [written(each, form["items"]) for each in value]
    if not isinstance(value, dict):
        return value
    parts = form["properties"]
    unset = {"unset": [name for name, each in value["value"].items() if each is None]} if "unset" in parts else {}
    assert value.keys() <= parts.keys(), value.keys() - parts.keys()
    return {name: written({**value, **unset}.get(name), part) for name, part in parts.items()}


def _choice(value: Any, choices: list[Any]) -> Any:
    """Find the choice of an operation, else the one that is not null."""
    if not isinstance(value, dict) or "op" not in value:
        return next(each for each in choices if each.get("type") != "null")
    words = value["op"], value["entity"]
    return next(
        each for each in choices if tuple(each["properties"][name]["enum"][0] for name in ("op", "entity")) == words
    )
