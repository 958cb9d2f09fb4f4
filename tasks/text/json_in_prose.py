"""Reads JSON from a drafter's answer, which may have prose and fences around it; makes a text of any answer."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from schemas import codec
from tasks.text.fields import fit, several_lines

FENCE = "```"
MAX_STARTS = 200  # braces of a text that are tried, so that a hostile one is not scanned again and again


def unfence(text: str) -> str:
    """Return the text inside the enclosing fence, else the first fenced block, else all of `text`."""
    lines = text.strip().splitlines()
    marks = [number for number, line in enumerate(lines) if line.lstrip().startswith(FENCE)]
    if not marks:
        return text
    if len(lines) > 1 and marks[0] == 0 and marks[-1] == len(lines) - 1:
        return "\n".join(lines[1:-1]).strip()
    start = marks[0] + 1
    end = marks[1] if len(marks) > 1 else len(lines)
    return "\n".join(lines[start:end]).strip()


def read_json(output: Any) -> Any:
    """Return the JSON in `output` if this is a text, else `output`. Raises ValueError if the text is no JSON."""
    return codec.loads(unfence(output)) if isinstance(output, str) else output


def find_object(output: Any, wanted: Collection[str] = ()) -> Any:
    """Return the JSON in `output` if this is a text: all of the text, else an object in its fences and prose.

    It is the last object that has all fields of `wanted`, else the longest object. Raises ValueError if the text
    contains no object.
    """
    if not isinstance(output, str):
        return output
    try:
        return codec.loads(output)
    except codec.DecodeError:
        found = {text: codec.loads(text) for text in _objects(output)}
    fit = [value for value in found.values() if set(wanted) <= value.keys()]
    if wanted and fit:
        return fit[-1]
    if not found:
        raise ValueError("there is no JSON object in it")
    return found[max(found, key=len)]


def _objects(text: str) -> Iterator[str]:
    """Yield the source of each JSON object in a text that is not inside of another one."""
    decoder = json.JSONDecoder(parse_constant=_refuse)
    start, tried = text.find("{"), 0
    while start >= 0 and tried < MAX_STARTS:
        try:
            _, end = decoder.raw_decode(text, start)
            yield text[start:end]
        except (ValueError, RecursionError):
            end, tried = start + 1, tried + 1
        start = text.find("{", end)


def _refuse(name: str) -> Any:
    raise ValueError(name)  # NaN and Infinity, which JSON does not have


def as_text(output: Any) -> str:
    """Return an answer as a text; empty if there is no answer."""
    if isinstance(output, str):
        return output.strip()
    if not output and output != 0:
        return ""
    try:
        return codec.dumps(output).decode()
    except codec.EncodeError:
        return ""  # a value that cannot be encoded counts as empty


def fit_schema(value: Any, schema: Mapping[str, Any]) -> Any:
    """Truncate texts and lists that are longer than `schema` allows, and drop fields that it does not have.

    `schema` is a JSON Schema of the planner. All other faults of `value` remain.
    """
    if isinstance(value, str) and len(value) > schema.get("maxLength", len(value)):
        return fit(value, schema["maxLength"], several_lines)
    if isinstance(value, list) and "items" in schema:
        return [fit_schema(each, schema["items"]) for each in value[: schema["maxItems"]]]
    if isinstance(value, dict) and "properties" in schema:
        return {name: fit_schema(value[name], part) for name, part in schema["properties"].items() if name in value}
    return value
