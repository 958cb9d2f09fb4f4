"""Looks for secrets in the added lines of a change before it lands: values of the controller, and texts like tokens.

`tasks/text/secrets.py` knows the forms of tokens. Values are those of variables with names like those of secrets: an
agent may have read them in files, too.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from schemas import codec
from tasks.text.secrets import tokens

SHORTEST, SHORTEST_WORD = 8, 12  # characters of a value with a digit, and of one without
MAX_BYTES = 8 * 1024 * 1024  # of a change that are searched for the forms of tokens

OWN = "the value of a variable of this controller that is named like a secret"
FORM = "a text in the form of a token or a private key"


def leaks(added: Mapping[str, bytes], secrets: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each file that would contain a secret, with its kind and never the secret itself.

    `added` are the lines that the change adds to each file. The name of a file is checked, too.
    """
    spellings = {each for value in secrets if _is_one(value) for each in _spellings(value)}
    room = MAX_BYTES
    for path, lines in added.items():
        told = path.encode(errors="replace") + b"\n" + lines
        if any(each in told for each in spellings):
            yield path, OWN
        elif len(told) <= room and any(tokens(told.decode(errors="replace"))):
            yield path, FORM
        room -= len(told)


def _is_one(value: str) -> bool:
    """Return whether the value of a variable is probably a secret: not a short word, a number or an existing path."""
    if len(value) < SHORTEST or value.isdigit() or (value.startswith("/") and Path(value).exists()):
        return False
    return any(each.isdigit() for each in value) or len(value) >= SHORTEST_WORD


def _spellings(value: str) -> Iterator[bytes]:
    raw = value.strip().encode(errors="surrogateescape")
    yield raw
    yield codec.dumps(value.encode(errors="replace").decode())[1:-1]
    yield b64encode(raw).rstrip(b"=")
