"""Words from outside, made fit for a field of a step or of a document: whatever is an attack on the agent is out."""

from __future__ import annotations

from tasks.planning.text import one_line
from tasks.policy.sanitize import TOKEN, sanitize

_READ = 4  # times what is kept is read, so that a text is not looked through in vain


def safe(text: str, size: int) -> str:
    """Put `text` on one line of at most `size` characters that the validator finds nothing in."""
    cut = one_line(sanitize(one_line(text[: size * _READ], size * _READ)).text, size)
    clean = sanitize(cut).text
    return clean if len(clean) <= size else TOKEN[:size]


def safe_text(text: str, size: int) -> str:
    """Sanitise a text of several lines, for a document."""
    return sanitize(text[:size]).text[:size]
