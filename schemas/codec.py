"""The only module that reads and writes JSON (orjson)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import BaseModel

DecodeError = orjson.JSONDecodeError
EncodeError = orjson.JSONEncodeError
loads = orjson.loads
dumps = orjson.dumps

MOST_DIGITS = 18  # of a whole number that is one of 64 bits for sure


def load_bounded(encoded: bytes) -> Any:
    """Decode JSON that contains a number beyond a double; such a number becomes 10^18 or 1e308 with its sign.

    Returns None if the text is no JSON, or if its value cannot be encoded again.
    """
    try:
        value = json.loads(encoded, parse_int=_bounded_int, parse_float=_bounded_float, parse_constant=_refuse)
        dumps(value)
    except (ValueError, TypeError, RecursionError):
        return None
    return value


def dump_unbounded(value: Any, *, sort_keys: bool = False) -> bytes:
    """Encode JSON with integers of any size: for a reader that reports its limits, or for a digest."""
    return json.dumps(value, separators=(",", ":"), sort_keys=sort_keys).encode()


def _bounded_int(digits: str) -> int:
    return int(digits) if len(digits) <= MOST_DIGITS else -(10**18) if digits.startswith("-") else 10**18


def _bounded_float(digits: str) -> float:
    return min(max(-1e308, float(digits)), 1e308)


def _refuse(name: str) -> Any:
    raise ValueError(name)  # NaN and Infinity, which JSON does not have


def raw(encoded: bytes) -> orjson.Fragment:
    """Wrap encoded JSON, so that `dumps` copies it unchanged."""
    return orjson.Fragment(encoded)


def encode(message: BaseModel, **kwargs: Any) -> bytes:
    """Encode a model as compact JSON, fields in the order of their declaration."""
    return orjson.dumps(message.model_dump(mode="json", **kwargs))


def canonical(value: Any) -> bytes:
    """Encode `value` with sorted keys, so that equal values have equal bytes (digests, goal identity)."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def pretty(value: Any) -> bytes:
    """Encode `value` for a person or a committed file: indented, with a last newline."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def extend(encoded: bytes, more: Mapping[str, Any]) -> bytes:
    """Append the fields of `more` to an encoded, non-empty JSON object without decoding it."""
    return encoded[:-1] + b"," + orjson.dumps(more)[1:]
