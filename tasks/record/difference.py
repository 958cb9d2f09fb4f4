"""Where two decisions part, for people: each part by its name, from a little before the place where they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from schemas import codec

LEAD = 80  # characters that are shown before that place
MOST = 400


class Part(NamedTuple):
    """One part of what differs: how it was, and how it is now; empty where it is not there."""

    name: str
    was: str
    now: str


def differing_parts(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Part]:
    """Yield each part that is not in both as it is in the other, byte for byte."""
    for name in {**was, **now}:
        left, right = _text(was, name), _text(now, name)
        if left != right:
            start = next((at for at, (one, other) in enumerate(zip(left, right, strict=False)) if one != other), 0)
            start = max(0, start - LEAD)
            yield Part(name, cut(left[start:]), cut(right[start:]))


def _text(parts: Mapping[str, Any], name: str) -> str:
    if name not in parts:
        return ""
    value = parts[name]
    return value if isinstance(value, str) else codec.dumps(value).decode()


def cut(text: str) -> str:
    """Leave at most MOST characters."""
    return text if len(text) <= MOST else text[:MOST] + " ..."
