"""Makes text from outside safe for terminals, as lines and JSON."""

from __future__ import annotations

import json


def make_harmless(text: str) -> str:
    """Return a text with blanks for all invisible characters; line ends stay."""
    if text.isprintable():
        return text
    return "".join(char if char == "\n" or char.isprintable() else " " for char in text)


def escape_json(document: str) -> str:
    """Return JSON with escapes for characters that a terminal might interpret; its content stays the same."""
    if document.isascii() and "\x7f" not in document:
        return document
    return "".join(char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in document)
