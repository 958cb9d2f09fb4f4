"""Lines about the draft of a plan by an agent: the prompt, the command, and the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

DRAFTING = (  # the fields of a document
    *("drafter", "validation_mode", "attempts", "duration_seconds", "command", "prompt_digest", "notes"),
    *("prompt", "raw_output", "stderr"),
)
TEXTS = ("prompt", "raw_output", "stderr")


def drafting_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields of a draft, the long texts last, each below its name."""
    for name in DRAFTING:
        value = found.get(name)
        if name not in TEXTS and value not in (None, "", []):
            yield f"{name.replace('_', ' ')}: {' '.join(map(str, value)) if isinstance(value, list) else value}"
    for name in TEXTS:
        if found.get(name):
            yield f"--- {name.replace('_', ' ')}"
            yield str(found[name])
