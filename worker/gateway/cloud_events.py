"""Goals that come as CloudEvents 1.0: in structured mode as a whole, in binary mode beside its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from schemas.envelope import FieldError, field_error
from worker.gateway.messages import wrong
from worker.gateway.problems import Refusal
from worker.streams.decode import GOAL_ID

MEDIA_TYPE = "application/cloudevents+json"
ATTRIBUTES = ("id", "source", "type", "specversion")
VERSION = "1.0"
SCHEMA = {
    "type": "object",
    "description": "A goal as a CloudEvent; its `id` is the goal's id, unless the goal has one.",
    "properties": {
        "id": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": r"^[^\s\x00-\x1f\x7f\x85]+$"},
        "source": {"type": "string", "minLength": 1},
        "type": {"type": "string", "minLength": 1},
        "specversion": {"type": "string", "const": VERSION},
        "data": {"$ref": "#/components/schemas/Goal"},
    },
    "required": [*ATTRIBUTES, "data"],
}


def unpack(event: Any) -> tuple[Any, str]:
    """Take the goal and the id out of an event in structured mode; raises Refusal 422."""
    if not isinstance(event, dict):
        raise wrong("", "An event is an object.")
    errors = [*_wrong(event, "/"), *([] if "data" in event else [field_error("/data", "missing", "The goal is here.")])]
    if errors:
        raise Refusal("invalid_event", "This is no CloudEvent of version 1.0 with a goal.", errors=errors)
    return event["data"], event["id"]


def id_beside(headers: Mapping[str, str]) -> str | None:
    """Take the id out of the headers of an event in binary mode; None where it is none. Raises Refusal 422."""
    if not any(f"ce-{name}" in headers for name in ATTRIBUTES):
        return None
    said = {name: unquote(headers[f"ce-{name}"]) for name in ATTRIBUTES if f"ce-{name}" in headers}
    if errors := _wrong(said, "ce-"):
        raise Refusal("invalid_event", "These headers make no CloudEvent of version 1.0.", errors=errors)
    return said["id"]


def _wrong(said: Mapping[str, Any], before: str) -> list[FieldError]:
    missing = [name for name in ATTRIBUTES if not (isinstance(said.get(name), str) and said[name])]
    errors = [field_error(before + name, "missing", f"An event has the attribute {name}, a text.") for name in missing]
    if "id" not in missing and not GOAL_ID.fullmatch(said["id"]):
        errors.append(field_error(f"{before}id", "wrong_value", "An id has 1 to 200 characters, and no spaces."))
    if "specversion" not in missing and said["specversion"] != VERSION:
        errors.append(field_error(f"{before}specversion", "unknown_version", f"Only {VERSION} is known."))
    return errors
