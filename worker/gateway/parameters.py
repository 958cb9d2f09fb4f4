"""What the queries of several doors have: how long to wait, how much to list, and since when."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import Query
from pydantic import BeforeValidator, WithJsonSchema

MOST_WAIT_S = 30
PAGE, MOST_ITEMS = 50, 500

_LENGTH = re.compile(r"([1-9][0-9]{0,4})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE)


def _read_moment(text: Any) -> datetime:
    """Read a time, or a length such as 7d as the time so long ago."""
    if match := _LENGTH.fullmatch(str(text)):
        return datetime.now(UTC) - timedelta(**{_UNITS[match[2]]: int(match[1])})
    if not _TIME.fullmatch(str(text)):
        raise ValueError("neither a time such as 2026-11-21T20:30:00Z nor a length such as 30m, 2h or 7d")
    return datetime.fromisoformat(str(text).upper())


Moment = Annotated[
    datetime,
    BeforeValidator(_read_moment),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "pattern": f"^{_LENGTH.pattern}$"}]}
    ),
]
Wait = Annotated[float, Query(ge=0, le=MOST_WAIT_S, allow_inf_nan=False, description="Seconds to wait for the answer.")]
Limit = Annotated[int, Query(ge=1, le=MOST_ITEMS, description="At most so many items.")]
