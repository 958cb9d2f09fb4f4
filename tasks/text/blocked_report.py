"""Reads the report of a controller or agent that cannot go on: its reason, attempts, needs and findings.

The report is an object with the status `blocked` and a reason. It may be a text with only that object or one fenced
block with it, or a text whose first line begins with `BLOCKED:`. No other answer counts: one that shows such an object
next to its own words reports finished work.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from schemas import codec
from tasks.text.fields import fit, several_lines
from tasks.text.json_in_prose import FENCE, unfence

BLOCKED = "blocked"
FIELDS = ("reason", "tried", "unknown", "discovery")
NO_REASON = "no reason was given"
MAX_FIELD = 500  # characters of each field
MAX_READ = 20_000  # of a text
_MARK = re.compile(r"\s*\**BLOCKED\**:\**[ \t]*")
_PART = re.compile(r"^[ \t>*#-]*(Reason|Tried|Unknown|Discovery)[ \t*]*:[ \t*]*", re.IGNORECASE | re.MULTILINE)


def blocked_report(output: Any) -> dict[str, str] | None:
    """Return the non-empty texts of a blocked report by name, always with `reason`; None for any other output."""
    text = output[:MAX_READ] if isinstance(output, str) else ""
    if mark := _MARK.match(text):
        return {"reason": NO_REASON, **_said(_parts(text[mark.end() :]))}
    found = _object(text.strip()) if text else output
    if not isinstance(found, Mapping) or found.get("status") != BLOCKED:
        return None
    said = _said(found)
    return said if "reason" in said else None


def _said(found: Mapping[str, Any]) -> dict[str, str]:
    told = {name: _told(found.get(name)) for name in FIELDS}
    return {name: text for name, text in told.items() if text}


def _parts(text: str) -> dict[str, str]:
    first, *parts = _PART.split(text)
    named = {name.lower(): part for name, part in zip(parts[::2], parts[1::2], strict=True)}
    return {"reason": first, **{name: part for name, part in named.items() if part.strip()}}


def _object(text: str) -> Any:
    """Decode a text that is only JSON, or only one fenced block of JSON; None for any other text."""
    fenced = text.startswith(FENCE) and text.endswith(FENCE)
    try:
        return codec.loads(unfence(text) if fenced else text) if BLOCKED in text else None
    except ValueError:
        return None


def _told(value: Any) -> str:
    if isinstance(value, list | tuple):
        value = "\n".join(each for each in value if isinstance(each, str))
    return fit(value[: MAX_FIELD * 10], MAX_FIELD, several_lines).strip() if isinstance(value, str) else ""
