"""Cutting a sequence into pieces (`itertools.batched` comes with Python 3.12)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield `items` in order, `size` at a time; the last piece may be shorter."""
    return (items[start : start + size] for start in range(0, len(items), size))
