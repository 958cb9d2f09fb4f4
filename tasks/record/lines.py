"""Reads the lines of a log back; a controller's report keeps the original bytes that were judged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from schemas import codec

_BLANKS = re.compile(r"[ \t\r\n]*")
_scan = json.JSONDecoder().raw_decode

Line = Mapping[str, Any]


class Told(dict[str, Any]):
    """A controller's report of an attempt; `raw` contains its original bytes, and the plan stores their digest."""

    def __init__(self, raw: bytes) -> None:
        super().__init__(codec.loads(raw))
        self.raw = raw


def read_line(raw: bytes) -> Line:
    """Return a decoded log line. Raises ValueError if it is not one."""
    line = codec.loads(raw)
    if not isinstance(line, dict) or not isinstance(line.get("in"), list) or not isinstance(line.get("moves"), list):
        raise ValueError("it has no lists `in` and `moves`")
    if type(line.get("version")) is not int or type(line.get("now")) is not int:
        raise ValueError("it has no whole numbers `version` and `now`")
    if codec.dumps(line) != raw:  # a controller wrote its JSON in another form
        _keep_bytes(line, raw.decode())
    return line


def _keep_bytes(line: dict[str, Any], text: str) -> None:
    """Replace the controllers' reports in the line by reports that contain their original bytes."""
    start = next(start for name, start, _ in spans(text, 0) if name == "in")
    for said, (_, place, _) in zip(line["in"], spans(text, start), strict=True):
        if isinstance(said, list) and len(said) > 3 and said[0] == "outcome":
            _, first, last = next(islice(spans(text, place), 3, None))
            said[3] = Told(text[first:last].encode())


def spans(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """Yield the name, start and end of each value in the JSON object or array at `at`.

    In an array the name is empty. Raises ValueError or LookupError if there is no object or array.
    """
    if text[at] not in "{[":
        raise ValueError("neither an object nor an array")
    has_names = text[at] == "{"
    at = skip_blanks(text, at + 1)
    while text[at] not in "]}":
        name = ""
        if has_names:
            name, at = _scan(text, at)
            at = skip_blanks(text, skip_blanks(text, at) + 1)  # skip the colon
        _, end = _scan(text, at)
        yield name, at, end
        at = skip_blanks(text, end)
        if text[at] == ",":
            at = skip_blanks(text, at + 1)


def skip_blanks(text: str, at: int = 0) -> int:
    """Return the position of the next character, from `at` on, that is not blank."""
    found = _BLANKS.match(text, at)
    return found.end() if found else at
