"""The strict form of the answers in a reviewed plan, and the reader of answers in this form.

The form is the one of `schemas.contract.strict`, with two additions. A map with free names is a list of pairs. `unset`
names the fields that `set` removes; a null only means that a field does not change, because the form requires every
field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.contract.strict import leave_out_nulls, strict_form

Schema = Mapping[str, Any]

NAME, VALUE = "name", "value"  # of a pair
PAIRS = "one pair for each name"
UNSET = "fields of `value` to be emptied; one that is null in `value` stays as it is"


def strict_answer(schema: Schema) -> dict[str, Any]:
    """Return the strict form of a role's schema."""
    return strict_form(_listed(schema)) or dict(schema)


def plain_answer(answer: Any, schema: Schema) -> Any:
    """Read an answer by `schema`, in the plain or the strict form; any other value stays as it is."""
    answer = leave_out_nulls(answer, schema)
    operations = answer.get("operations") if isinstance(answer, dict) else None
    choices = schema["properties"].get("operations", {}).get("items", {}).get("anyOf", ())
    if not isinstance(operations, list) or not choices:
        return answer
    values = {_about(each["properties"]): each["properties"].get("value") for each in choices}
    return {**answer, "operations": [_plain_operation(each, values) for each in operations]}


def _plain_operation(given: Any, values: Mapping[tuple[Any, ...], Schema | None]) -> Any:
    """Read one operation; `values` are the schemas of the value of each."""
    if not isinstance(given, dict) or not isinstance(value := given.get("value"), dict):
        return given
    words = given.get("op"), given.get("entity")
    schema = values.get(words) if all(isinstance(word, str) for word in words) else None
    if schema is None:
        return given
    parts = schema["properties"]
    value = {name: _plain_map(each) if _is_map(parts.get(name, {})) else each for name, each in value.items()}
    value = leave_out_nulls(value, schema)
    if isinstance(unset := given.get("unset"), list):
        emptied = {name: None for name in unset if isinstance(name, str)}
        value = {name: each for name, each in value.items() if each is not None} | emptied
    return {**{name: each for name, each in given.items() if name != "unset"}, "value": value}


def _plain_map(value: Any) -> Any:
    """Read a map that is written as pairs; other values, and repeated names, stay for their reader to refuse."""
    if not isinstance(value, list):
        return value
    pairs = [each for each in value if isinstance(each, dict) and each.keys() == {NAME, VALUE}]
    found = {each[NAME]: each[VALUE] for each in pairs if isinstance(each[NAME], str)}
    return found if len(found) == len(value) else value


def _listed(schema: Schema) -> dict[str, Any]:
    """Describe every map of a schema as pairs, and the removed fields of `set` as `unset`."""
    if _is_map(schema):
        words = {word: schema[word] for word in ("description",) if word in schema}
        pair = {NAME: {"type": "string"}, VALUE: schema["additionalProperties"]}
        items = {"type": "object", "properties": pair, "required": [*pair], "additionalProperties": False}
        most = {"maxItems": schema["maxProperties"]} if "maxProperties" in schema else {}
        return {"description": PAIRS, **words, "type": "array", **most, "items": items}
    found = dict(schema)
    if "items" in schema:
        found["items"] = _listed(schema["items"])
    if "anyOf" in schema:
        found["anyOf"] = [_listed(each) for each in schema["anyOf"]]
    if "properties" not in schema:
        return found
    parts = {name: _listed(part) for name, part in schema["properties"].items()}
    if _about(parts)[0] == "set":
        fields = {"type": "string", "enum": [*parts["value"]["properties"]]}
        parts["unset"] = {"description": UNSET, "type": "array", "items": fields}
        found["required"] = [*schema["required"], "unset"]
    return {**found, "properties": parts}


def _about(parts: Schema) -> tuple[str, ...]:
    """Return the operation and the entity that these properties describe; empty words if they describe none."""
    return tuple((parts.get(name, {}).get("enum") or ("",))[0] for name in ("op", "entity"))


def _is_map(schema: Schema) -> bool:
    return isinstance(schema.get("additionalProperties"), Mapping) and not schema.get("properties")
