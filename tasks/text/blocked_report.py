"""Reads the report of a controller or agent that cannot go on: its reason, what it tried, what it lacks, what it found.

It is an object with the status `blocked`, also as text, or a text whose first line begins with `BLOCKED:`. Nothing else
is taken for one, whatever words stand in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tasks.text.fields import fit, several_lines
from tasks.text.json_in_prose import read_json

BLOCKED = "blocked"
FIELDS = ("reason", "tried", "unknown", "discovery")
NO_REASON = "no reason was given"
MAX_FIELD = 500  # characters of each
MAX_READ = 20_000  # of a text
_MARK = re.compile(r"\s*\**BLOCKED\**:\**[ \t]*")
_PART = re.compile(r"^[ \t>*#-]*(Reason|Tried|Unknown|Discovery)[ \t*]*:[ \t*]*", re.IGNORECASE | re.MULTILINE)


def blocked_report(output: Any) -> dict[str, str] | None:
    """Read the parts of such a report that say something, the reason among them; None where `output` is none."""
    found = _parts(output[:MAX_READ]) if isinstance(output, str) else output
    if not isinstance(found, Mapping) or found.get("status") != BLOCKED:
        return None
    told = {name: _told(found.get(name)) for name in FIELDS}
    said = {name: text for name, text in told.items() if text}
    return said if "reason" in said else {"reason": NO_REASON, **said}


def _parts(text: str) -> Any:
    if mark := _MARK.match(text):
        first, *parts = _PART.split(text[mark.end() :])
        named = {name.lower(): part for name, part in zip(parts[::2], parts[1::2], strict=True)}
        return {"reason": first, **{name: part for name, part in named.items() if part.strip()}, "status": BLOCKED}
    if BLOCKED not in text:
        return None
    try:
        return read_json(text)
    except ValueError:
        return None


def _told(value: Any) -> str:
    if isinstance(value, list | tuple):
        value = "\n".join(each for each in value if isinstance(each, str))
    return fit(value[: MAX_FIELD * 10], MAX_FIELD, several_lines).strip() if isinstance(value, str) else ""
