"""Responses of endpoints: JSON as the commands print it, and pages of lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query, Response
from pydantic import BaseModel, BeforeValidator, WithJsonSchema

from schemas import codec
from schemas.base import Outbound

T = TypeVar("T")
MOST_WAIT_S = 30
PAGE, MOST_ITEMS = 50, 500

_LENGTH = re.compile(r"([1-9][0-9]{0,4})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII | re.IGNORECASE)


class Page(Outbound, Generic[T]):
    """Some items of a list, and the cursor of the next page; null where there is none."""

    items: tuple[T, ...]
    next_cursor: str | None


def json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response, with fields in the order of their declaration."""
    body = codec.encode(value) if isinstance(value, BaseModel) else codec.dumps(value)
    return Response(body, status, headers, "application/json")


def page(items: Iterable[Any], next_cursor: str | None = None, **more: Any) -> Response:
    """Return a response with one page of a list: its `items`, the `next_cursor`, and the fields in `more`."""
    found = [item.model_dump(mode="json") if isinstance(item, BaseModel) else item for item in items]
    return json({"items": found, "next_cursor": next_cursor, **more})


def _read_moment(text: Any) -> datetime:
    """Return a time; a duration such as 7d means so long ago."""
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
