"""Words from outside made fit for what this kind keeps and says: cleaned for the documents, cut for the steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from tasks.planning.text import one_line
from tasks.policy.sanitize import Mode, sanitize

CODE_FIELDS = frozenset({"diff", "diagram_ascii"})  # code and drawings stay as they are; nobody takes them for prose
MAX_FAULTS = 5  # told at once


def spoken(text: str, size: int) -> str:
    """Put `text` on one line of at most `size` characters that holds no attack."""
    cut = one_line(sanitize(one_line(text, len(text))).text, size)
    return one_line(sanitize(cut).text, size) if sanitize(cut, Mode.FLAG).findings else cut


def cleaned(value: Any, name: str = "") -> Any:
    """Sanitise every text of a document that has passed its model, code and drawings apart."""
    if isinstance(value, str):
        return value if name in CODE_FIELDS else sanitize(value).text
    if isinstance(value, dict):
        return {key: cleaned(each, key) for key, each in value.items()}
    return [cleaned(each, name) for each in value] if isinstance(value, list) else value


def explained(error: ValidationError) -> str:
    """Say what a model found wrong, without repeating the values."""
    return told(f"{'.'.join(map(str, each['loc']))[:100] or 'output'}: {each['msg']}" for each in error.errors())


def told(faults: Iterable[str]) -> str:
    """Put the first faults into one sentence; empty where there are none."""
    some = list(faults)
    more = f" (and {len(some) - MAX_FAULTS} more)" if len(some) > MAX_FAULTS else ""
    return spoken("; ".join(some[:MAX_FAULTS]), 900) + more
