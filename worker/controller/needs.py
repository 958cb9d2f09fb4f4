"""Reads the further files that an agent asks for, and its reason (docs/agents.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from schemas.outcome import MAX_NEEDED, Needs
from tasks.text.paths import clean

MARK = "NEEDS FILES:"  # start of such an answer in words
MAX_REASON = 4000
MAX_PATH = 512
_LISTED = re.compile(r"^\s*[-*]\s+(\S+)\s*$")
_EDGE = " \t`'\"*"


def needs_of(output: Any) -> Needs | None:
    """Return the files that an answer asks for: in its field `needs`, or as text after MARK; None without any."""
    if (words := words_after(MARK, output)) is not None:
        return _needs(*_read_words(words))
    said = output.get("needs") if isinstance(output, Mapping) else None
    if not isinstance(said, Mapping) or not isinstance(files := said.get("files"), list):
        return None
    return _needs([each for each in files if isinstance(each, str)], said.get("reason"))


def words_after(mark: str, output: Any) -> str | None:
    """Return the rest of an answer that begins with `mark`, also in bold or as code; None for any other answer."""
    text = output.lstrip(_EDGE + "\n") if isinstance(output, str) else ""
    return text.removeprefix(mark).lstrip(_EDGE) if text.startswith(mark) else None


def _read_words(text: str) -> tuple[list[str], str]:
    """Return the files and the reason in a text: the files in its first line or in a list below, then the reason."""
    first, *lines = text.splitlines() or [""]
    files = first.split(",")
    while lines and (not lines[0].strip() or _LISTED.match(lines[0])):
        found = _LISTED.match(lines.pop(0))
        files += [found[1]] if found else []
    return files, "\n".join(lines)


def _needs(files: list[str], reason: Any) -> Needs | None:
    named = dict.fromkeys(clean(each.strip(_EDGE)) for each in files)
    kept = tuple(path for path in named if 0 < len(path) <= MAX_PATH)[:MAX_NEEDED]
    told = reason.strip()[:MAX_REASON] if isinstance(reason, str) else ""
    return Needs(files=kept, reason=told) if kept else None
