"""Text from outside, as lines and JSON, without what could steer a terminal."""

from __future__ import annotations

import json


def make_harmless(text: str) -> str:
    """Put a blank in the place of every character that is not seen; line ends stay."""
    if text.isprintable():
        return text
    return "".join(char if char == "\n" or char.isprintable() else " " for char in text)


def escape_json(document: str) -> str:
    """Escape in JSON what a terminal might obey; the document says the same afterwards."""
    if document.isascii() and "\x7f" not in document:
        return document
    return "".join(char if char == "\n" or char.isprintable() else json.dumps(char)[1:-1] for char in document)
