"""Describes the expected value of a validation error in words of JSON and its schema, not of Python."""

from __future__ import annotations

import re
from types import MappingProxyType

from pydantic_core import ErrorDetails

TYPES = MappingProxyType(  # by the beginning of pydantic's name for the error
    {
        **dict.fromkeys(("tuple", "list", "set", "frozen_set", "iterable"), "an array"),
        **dict.fromkeys(("dict", "model", "model_attributes", "dataclass", "mapping"), "an object"),
        "string": "a string",
        "int": "an integer",
        "float": "a number",
        "bool": "true or false",
        "none_required": "null",
    }
)
COUNTED = MappingProxyType({**dict.fromkeys(("Tuple", "List", "Set", "Frozenset"), "Array"), "Dictionary": "Object"})
PYTHON = re.compile(rf"^({'|'.join(COUNTED)})\b")


def expected(error: ErrorDetails) -> str:
    """Return the expected value at the place of an error."""
    name, is_type, _ = error["type"].rpartition("_type")
    found = TYPES.get(name if is_type else error["type"])
    if found:
        return f"Input should be {found}"
    message = error["msg"].removeprefix("Value error, ")
    return PYTHON.sub(lambda named: COUNTED[named[1]], message).replace(" after validation", "")
