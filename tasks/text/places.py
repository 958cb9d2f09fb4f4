"""Reads the places in a step's answer, if the step was asked for places; the answer is JSON or prose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from schemas.kinds.places import LINES
from tasks.text.fields import fit
from tasks.text.json_in_prose import as_text, find_object
from tasks.text.paths import clean

NOTHING_NAMED = (
    "No file of the answer is one that the goal allows: name the places to change, as the schema of the input has it."
)
MAX_READ = 16_384  # characters of an answer in prose
MAX_WHY = 200

_PLACE = re.compile(rf"(?P<path>[\w@+()\[\]-]*[./][\w./@+()\[\]-]*\w)(?::(?P<lines>{LINES}))?")
_LINES = re.compile(LINES)


def places_in(output: Any) -> Iterator[tuple[str, str | None, str]]:
    """Yield the path, the lines (None if not given) and the reason of each place in an answer."""
    listed = listed_in(output)
    if listed is None:
        for line in as_text(output)[:MAX_READ].splitlines():
            for hit in _PLACE.finditer(line):
                yield clean(hit["path"]), hit["lines"], fit(line.strip(), MAX_WHY)
        return
    for entry in listed:
        said = entry if isinstance(entry, dict) else {"path": entry}
        if isinstance(path := said.get("path"), str):
            lines, why = str(said.get("lines") or ""), said.get("why")
            known = lines if _LINES.fullmatch(lines) else None
            if place := _PLACE.fullmatch(path):
                path, known = place["path"], known or place["lines"]
            yield clean(path), known, fit(why, MAX_WHY) if isinstance(why, str) else ""


def listed_in(output: Any) -> list[Any] | None:
    """Return the list `files` in an answer's JSON, which may be inside of prose; None if there is no such list."""
    try:
        value = find_object(output, ("files",))
    except ValueError:
        return None
    listed = value.get("files") if isinstance(value, dict) else None
    return listed if isinstance(listed, list) else None
