"""How settings of drafters are written in one variable: lists, commands and tables."""

from __future__ import annotations

import shlex
from typing import Any

from schemas import codec


def names(value: Any) -> Any:
    """Read names that are separated by commas."""
    return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value


def argv(value: Any) -> Any:
    """Read a command: a JSON list of words, or words that are quoted as for a shell, which is never asked."""
    if not isinstance(value, str):
        return value
    try:
        words = codec.loads(value) if value.lstrip().startswith("[") else shlex.split(value)
    except ValueError as error:
        raise ValueError(f"is neither a JSON list nor words: {error}") from error
    return tuple(words)


def variables(value: Any) -> Any:
    """Read a JSON object of texts."""
    if not isinstance(value, str):
        return value
    try:
        return codec.loads(value)
    except ValueError:  # whose text would quote what may be a secret
        raise ValueError("is no JSON object") from None
