"""What the doors answer: JSON as the commands print it, and pages of lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar

from fastapi import Response
from pydantic import BaseModel

from schemas import codec
from schemas.base import Outbound

T = TypeVar("T")


class Page(Outbound, Generic[T]):
    """Some items of a list, and the cursor of the next page; null where there is none."""

    items: tuple[T, ...]
    next_cursor: str | None


def json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Answer with JSON, fields in the order of their declaration."""
    body = codec.encode(value) if isinstance(value, BaseModel) else codec.dumps(value)
    return Response(body, status, headers, "application/json")


def page(items: Iterable[Any], next_cursor: str | None = None, **more: Any) -> Response:
    """Answer with a page of a list, and what else is told with it."""
    found = [item.model_dump(mode="json") if isinstance(item, BaseModel) else item for item in items]
    return json({"items": found, "next_cursor": next_cursor, **more})
