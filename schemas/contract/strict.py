"""The strict form of a JSON Schema, the only one that structured output of OpenAI and Codex accepts.

In this form every object lists all of its properties as required and allows no others. An optional property may be null
instead, and only few keywords are allowed. Constraints that the form leaves out are in the description of their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

KEPT = ("type", "description", "enum", "const", "pattern", "minimum", "maximum", "minItems", "maxItems")
TOLD = {"minLength": "at least {} character(s)", "maxLength": "at most {} characters"}
NULL = "null"

Schema = Mapping[str, Any]


def strict_form(schema: Schema) -> dict[str, Any] | None:
    """Return the strict form of `schema`; None if it has none, such as an object without named properties."""
    try:
        return _form(schema, schema.get("$defs", {}))
    except (_NoForm, RecursionError, KeyError, TypeError, AttributeError):  # the last three: an invalid schema
        return None


def leave_out_nulls(value: Any, schema: Schema) -> Any:
    """Remove properties that are null only because the strict form requires them."""
    if isinstance(value, list) and "items" in schema:
        return [leave_out_nulls(each, schema["items"]) for each in value]
    if not isinstance(value, dict):
        return value
    parts, required = schema.get("properties", {}), schema.get("required", ())
    return {
        name: leave_out_nulls(each, parts.get(name, {}))
        for name, each in value.items()
        if each is not None or name in required or name not in parts or _takes_null(parts[name])
    }


class _NoForm(Exception):
    """A part of a schema has no strict form."""


def _form(schema: Schema, models: Schema) -> dict[str, Any]:
    if "$ref" in schema:
        return _form(models[schema["$ref"].removeprefix("#/$defs/")], models)
    form = {word: schema[word] for word in KEPT if word in schema}
    if told := [sentence.format(schema[word]) for word, sentence in TOLD.items() if word in schema]:
        form["description"] = "; ".join([*filter(None, [form.get("description")]), *told])
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        form["anyOf"] = [_form(each, models) for each in choices]
    kinds = schema.get("type", ())
    if "array" in kinds:
        form["items"] = _form(schema.get("items") or {}, models)
    if "object" in kinds:
        form |= _object(schema, models)
    if not form.keys() & {"type", "anyOf", "enum", "const"}:
        raise _NoForm
    return form


def _object(schema: Schema, models: Schema) -> dict[str, Any]:
    parts = schema.get("properties", {})
    if not parts or schema.get("additionalProperties"):
        raise _NoForm
    required = schema.get("required", ())
    forms = {name: _form(part, models) for name, part in parts.items()}
    return {
        "properties": {name: form if name in required else _or_null(form) for name, form in forms.items()},
        "required": list(parts),
        "additionalProperties": False,
    }


def _or_null(form: dict[str, Any]) -> dict[str, Any]:
    if _takes_null(form):
        return form
    if isinstance(kind := form.get("type"), str) and "enum" not in form and "const" not in form:
        return {**form, "type": [kind, NULL]}
    return {**form, "anyOf": [*form["anyOf"], {"type": NULL}]} if "anyOf" in form else {"anyOf": [form, {"type": NULL}]}


def _takes_null(schema: Schema) -> bool:
    return NULL in schema.get("type", ()) or any(_takes_null(each) for each in schema.get("anyOf", ()))
