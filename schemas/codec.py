"""The one place where JSON is read and written (orjson)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import BaseModel

DecodeError = orjson.JSONDecodeError
EncodeError = orjson.JSONEncodeError
loads = orjson.loads
dumps = orjson.dumps


def raw(encoded: bytes) -> orjson.Fragment:
    """Stand for JSON that is encoded already, so that `dumps` copies it as it is."""
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
